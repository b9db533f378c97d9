/// <reference path="./undici.d.ts" />
import type { Agent, Dispatcher } from 'undici';
import Pool from 'undici/lib/dispatcher/pool.js';
import { ProxyError } from './errors.ts';

/**
 * A dispatcher that sends every request through a proxy: through a tunnel (CONNECT) for https, and otherwise with its
 * absolute URL. The address may contain a user and password.
 */
export async function createProxyDispatcher(address: string, options: Agent.Options): Promise<Dispatcher> {
  // Loaded only for a proxy.
  const [{ default: ProxyAgent }, { default: openTunnel }] = await Promise.all([
    import('undici/lib/dispatcher/proxy-agent.js'),
    import('undici/lib/api/api-connect.js'),
  ]);

  /** The connections to the proxy in which tunnels are opened. Every error is one of the proxy. */
  class TunnelPool extends Pool {
    override async connect(request: Dispatcher.ConnectOptions): Promise<Dispatcher.ConnectData> {
      // Not `super.connect`, because only the entry point of undici adds that method.
      const result = await openTunnel.call(this, request).catch((cause) => {
        throw new ProxyError({ cause });
      });
      const { statusCode, socket } = result;
      if (statusCode === 200) return result;
      socket.on('error', () => {}).destroy();
      throw new ProxyError({ status: statusCode });
    }
  }

  const { username, password } = new URL(address);
  const credentials = [username, password].map(decodeURIComponent).join(':');
  return new ProxyAgent({
    ...options,
    uri: address,
    ...(username && { token: `Basic ${Buffer.from(credentials).toString('base64')}` }),
    // Use CONNECT for https only: many proxies refuse it for port 80.
    proxyTunnel: false,
    clientFactory: (origin: URL, poolOptions: object) => new TunnelPool(origin, poolOptions),
  });
}

/** The error of the proxy that made a request fail; undefined if the proxy is not the cause. `isSent`: it was connected. */
export function proxyErrorOf(cause: Error, url: URL, isSent: boolean): ProxyError | undefined {
  // Undici wraps the error of a proxy whose certificate is for another name.
  for (const error of [cause, cause.cause]) if (error instanceof ProxyError) return error;
  if (url.protocol === 'https:') return undefined;
  // Without a tunnel, the connection is the one to the proxy.
  if (!isSent) return new ProxyError({ cause });
  // Undici does not pass on a response with status 407.
  const isRefused = cause.message === 'Proxy Authentication Required (407)';
  return isRefused ? new ProxyError({ status: 407 }) : undefined;
}
