import type { Agent, Dispatcher } from 'undici';
import openTunnel from 'undici/lib/api/api-connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import ProxyAgent from 'undici/lib/dispatcher/proxy-agent.js';
import { type ClientError, NetworkError, toAttemptError } from './errors.ts';

/** The options of undici for all connections. */
export type ConnectionOptions = Agent.Options & { connect: { timeout: number } };

/** How requests reach the service: the dispatcher of undici, and a function that converts its errors. */
export type Route = {
  dispatcher: Dispatcher;
  /** `sent` is true if the service may have received the request. */
  toError(cause: Error, sent: boolean): ClientError;
};

/** Connections to the proxy, in which tunnels are opened. */
class TunnelPool extends Pool {
  // Not `super.connect`, because only the entry point of undici adds that method.
  override connect = (request: Dispatcher.ConnectOptions): Promise<Dispatcher.ConnectData> =>
    openTunnel.call(this, request).catch((cause) => {
      // Undici would connect again and again after an UND_ERR_SOCKET that is not wrapped.
      throw new Error('cannot open a tunnel', { cause });
    });
}

/**
 * Sends every request through a proxy. If the service or the proxy uses https, it opens a tunnel (CONNECT). Otherwise, it
 * sends the absolute URL to the proxy. `address` is the URL of the proxy, which may contain a user and password.
 */
export function routeThrough(address: string, options: ConnectionOptions): Route {
  const dispatcher = new ProxyAgent({
    ...options,
    proxyTls: options.connect,
    requestTls: options.connect,
    uri: address,
    // No tunnel if neither the service nor the proxy uses https: many proxies refuse CONNECT for port 80.
    proxyTunnel: false,
    clientFactory: (origin: URL, poolOptions: object) => new TunnelPool(origin, poolOptions),
  });
  return {
    dispatcher,
    toError(cause, sent) {
      // The codes of undici if the proxy has refused to open a tunnel, or has responded with 407 to a request.
      const { code = '' } = cause as NodeJS.ErrnoException;
      if (!['UND_ERR_ABORTED', 'UND_ERR_INVALID_ARG'].includes(code)) return toAttemptError(cause, sent);
      // The error is permanent, because the proxy would refuse another attempt too.
      const details = { errno: code, sent: false, isPermanent: true, cause };
      const status = /\((\d{3})\)/.exec(cause.message)?.[1];
      const reason = status === undefined ? cause.message : `HTTP status ${status}`;
      const login =
        'requires a valid user and password (407); pets knows only Basic, not Digest, NTLM or Kerberos';
      const text = status === '407' ? login : `refused the request (${reason})`;
      return new NetworkError(`the proxy ${text}`, details);
    },
  };
}
