/// <reference path="./undici.d.ts" />

import type { Dispatcher } from 'undici';
import openTunnel from 'undici/lib/api/api-connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import ProxyAgent from 'undici/lib/dispatcher/proxy-agent.js';
import { ClientError, ProxyError } from './errors.ts';
import { describeFault, proxyFault } from './failures.ts';

export type ConnectionOptions = {
  headersTimeout: number;
  bodyTimeout: number;
  connect: { timeout: number };
  allowH2: boolean;
};

/** How requests reach the service: the dispatcher of undici, and what an error of it means. */
export type Route = {
  dispatcher: Dispatcher;
  /** `sent` is true if the service may have received the request. */
  describe(cause: Error, sent: boolean, url: URL): ClientError;
};

/** Connections to the proxy, in which tunnels are opened. Every error in opening a tunnel comes from the proxy. */
class TunnelPool extends Pool {
  override async connect(request: Dispatcher.ConnectOptions): Promise<Dispatcher.ConnectData> {
    // Not `super.connect`, because only the entry point of undici adds that method.
    const result = await openTunnel.call(this, request).catch((cause) => {
      throw proxyFault(cause);
    });
    const { statusCode, socket } = result;
    if (statusCode === 200) return result;
    socket.on('error', () => {}).destroy();
    throw refusedBy(statusCode);
  }
}

/**
 * Sends every request through a proxy. For https, it opens a tunnel (CONNECT). For http, it sends the absolute URL to the
 * proxy. `address` is the URL of the proxy, which may contain a user and password.
 */
export function routeThrough(address: string, options: ConnectionOptions): Route {
  const { username, password } = new URL(address);
  const credentials = [username, password].map(decodeURIComponent).join(':');
  const dispatcher = new ProxyAgent({
    ...options,
    proxyTls: options.connect,
    requestTls: options.connect,
    uri: address,
    ...(username && { token: `Basic ${Buffer.from(credentials).toString('base64')}` }),
    // Use CONNECT for https only: many proxies refuse it for port 80.
    proxyTunnel: false,
    clientFactory: (origin: URL, poolOptions: object) => new TunnelPool(origin, poolOptions),
  });
  return {
    dispatcher,
    describe: (cause, sent, url) => proxyErrorOf(cause, url, sent) ?? describeFault(cause, sent),
  };
}

/** The error of the proxy that made a request fail; undefined if the proxy is not the cause. */
function proxyErrorOf(cause: Error, url: URL, isSent: boolean): ClientError | undefined {
  // Undici wraps the error of a proxy whose certificate is for another name.
  for (const error of [cause, cause.cause]) if (error instanceof ClientError) return error;
  if (url.protocol === 'https:') return undefined;
  // Without a tunnel, the only connection is to the proxy. An error before the request is sent comes from the proxy.
  if (!isSent) return proxyFault(cause);
  // Undici converts a response with status 407 to an error with this message.
  return cause.message === 'Proxy Authentication Required (407)' ? refusedBy(407) : undefined;
}

const refusedBy = (status: number) =>
  new ProxyError(`the proxy responded with HTTP status ${status}`, { status, isPermanent: status < 500 });
