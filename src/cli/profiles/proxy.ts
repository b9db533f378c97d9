import type { HttpProxy } from '../../client/proxy-dispatcher.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors/cli-error.ts';
import { isLoopback } from './profile.ts';

/**
 * The proxy that the environment names for a base URL; this machine is never reached through one. As everywhere a name
 * in lower case is stronger, and an empty value is none.
 *
 * @throws CliError for an address that is none
 */
export function proxyFor(baseUrl: string, env: Context['env']): HttpProxy | undefined {
  const url = new URL(baseUrl);
  if (isLoopback(url)) return undefined;
  const address = addressIn(env, url.protocol === 'https:' ? 'https_proxy' : 'http_proxy');
  return address === undefined ? undefined : { address, except: env['no_proxy'] ?? env['NO_PROXY'] };
}

function addressIn(env: Context['env'], name: string): string | undefined {
  const variable = env[name] === undefined ? name.toUpperCase() : name;
  const text = env[variable];
  if (!text) return undefined;
  // curl takes a bare host and port too.
  const address = text.includes('://') ? text : `http://${text}`;
  if (URL.canParse(address) && /^https?:$/.test(new URL(address).protocol)) return address;
  // Not the value: it may hold a password.
  throw usageError(
    `${variable} is not the address of an http proxy`,
    'such as http://proxy.example.com:3128',
  );
}
