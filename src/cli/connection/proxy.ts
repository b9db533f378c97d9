import { isIP } from 'node:net';
import { createAddressMatcher, isAddressBlock } from '../../system/address-blocks.ts';
import type { Context } from '../core/context.ts';
import { usageError } from '../core/errors.ts';
import { isLoopbackUrl, portOf } from '../profiles/profile.ts';
import { PROXY_ENCODING } from './call-error.ts';

/** The URL of a proxy, which may contain a user and password, and the environment variable with this URL. */
type ProxySetting = { address: string; variable: string };

/**
 * The proxy that environment variables set for a base URL, if any. Undefined for loopback URLs and hosts in NO_PROXY.
 * As in curl, a lower-case variable takes precedence, and ALL_PROXY counts last. An empty value means no proxy.
 *
 * @throws CliError for an invalid proxy URL
 */
export function proxyFor(baseUrl: string, env: Context['env']): ProxySetting | undefined {
  const url = new URL(baseUrl);
  if (isLoopbackUrl(url) || isExcluded(url, env['no_proxy'] ?? env['NO_PROXY'] ?? '')) return undefined;
  const names = [`${url.protocol.slice(0, -1)}_proxy`, 'all_proxy'];
  const variable = names
    .flatMap((name) => [name, name.toUpperCase()])
    .find((name) => env[name] !== undefined);
  const text = variable && env[variable];
  if (!text) return undefined;
  // Like curl, also accept a host and port without a scheme.
  const address = text.includes('://') ? text : `http://${text}`;
  if (isProxyUrl(address)) return { address, variable };
  // Do not echo the value, because it may contain a password.
  throw usageError(
    `${variable} is not the URL of an HTTP proxy`,
    `set it to a URL such as http://proxy.example.com:3128; ${PROXY_ENCODING}; or add ${url.hostname} to NO_PROXY (or to no_proxy, if that is set)`,
  );
}

function isProxyUrl(address: string): boolean {
  try {
    const { protocol, username, password, pathname, search, hash } = new URL(address);
    decodeURIComponent(username + password);
    // After an unencoded # in a password, the rest of the URL, even the host, would be the hash.
    return /^https?:$/.test(protocol) && pathname + search + hash === '/';
  } catch {
    return false;
  }
}

/**
 * Whether an entry of NO_PROXY matches the URL. An entry is a CIDR block, an address, a domain or `*`. A domain matches
 * its subdomains too. Entries may have a port, except CIDR blocks and IPv6 addresses without brackets.
 */
function isExcluded(url: URL, noProxy: string): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return noProxy
    .toLowerCase()
    .split(/[,\s]+/)
    .some((entry) => {
      if (entry.includes('/')) return isAddressBlock(entry) && createAddressMatcher([entry])(host);
      const [, name = entry, entryPort] = (!isIP(entry) && /^(.+):(\d+)$/.exec(entry)) || [];
      if (entryPort !== undefined && entryPort !== portOf(url)) return false;
      const domain = name.replace(/^\*?\.|^\[|\]$/g, '');
      return domain === '*' || host === domain || (domain !== '' && host.endsWith(`.${domain}`));
    });
}
