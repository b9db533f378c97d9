/// <reference path="./undici.d.ts" />
import type { Agent, Dispatcher } from 'undici';
import Pool from 'undici/lib/dispatcher/pool.js';
import { ProxyError } from './errors.ts';

/**
 * A dispatcher that sends every request through a proxy. For https, it opens a tunnel (CONNECT). For http, it sends the
 * absolute URL to the proxy. `address` is the URL of the proxy, which may contain a user and password.
 */
export async function createProxyDispatcher(address: string, options: Agent.Options): Promise<Dispatcher> {
  // Most users have no proxy, so these modules are loaded only here.
  const [{ default: ProxyAgent }, { default: openTunnel }] = await Promise.all([
    import('undici/lib/dispatcher/proxy-agent.js'),
    import('undici/lib/api/api-connect.js'),
  ]);

  /** Connections to the proxy, in which tunnels are opened. Every error in opening a tunnel comes from the proxy. */
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

/** The error of the proxy that made a request fail; undefined if the proxy is not the cause. */
export function proxyErrorOf(cause: Error, url: URL, isSent: boolean): ProxyError | undefined {
  // Undici wraps the error of a proxy whose certificate is for another name.
  for (const error of [cause, cause.cause]) if (error instanceof ProxyError) return error;
  if (url.protocol === 'https:') return undefined;
  // Without a tunnel, the only connection is to the proxy. An error before the request is sent comes from the proxy.
  if (!isSent) return new ProxyError({ cause });
  // Undici converts a response with status 407 to an error with this message.
  const isRefused = cause.message === 'Proxy Authentication Required (407)';
  return isRefused ? new ProxyError({ status: 407 }) : undefined;
}
