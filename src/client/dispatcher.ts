import { Agent, type Dispatcher, EnvHttpProxyAgent } from 'undici';

/** A proxy's address, and the hosts that are reached without it, as NO_PROXY has them. */
export type HttpProxy = { address: string; except?: string | undefined };

/** Without undici's own times: the attempt's deadline rules, and undici's would end it earlier, or not at all. */
const options = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 0 } } as const;

/** Connections to the service, directly or through a proxy. */
export function createDispatcher(proxy?: HttpProxy): Dispatcher {
  if (proxy === undefined) return new Agent(options);
  return new EnvHttpProxyAgent({
    ...options,
    // Only what is encrypted needs a tunnel; proxies commonly refuse one to port 80.
    proxyTunnel: false,
    httpProxy: proxy.address,
    httpsProxy: proxy.address,
    noProxy: proxy.except ?? '',
  });
}
