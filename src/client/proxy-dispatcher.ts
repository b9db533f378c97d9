import { type Dispatcher, EnvHttpProxyAgent } from 'undici';

/** A proxy's address, and the hosts that are reached without it, as NO_PROXY has them. */
export type HttpProxy = { address: string; except?: string | undefined };

/** Connections to the service through a proxy. */
export function createProxyDispatcher(
  { address, except = '' }: HttpProxy,
  options: EnvHttpProxyAgent.Options,
): Dispatcher {
  return new EnvHttpProxyAgent({
    ...options,
    // Only what is encrypted needs a tunnel; proxies commonly refuse one to port 80.
    proxyTunnel: false,
    httpProxy: address,
    httpsProxy: address,
    noProxy: except,
  });
}
