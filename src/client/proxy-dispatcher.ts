import { type Dispatcher, EnvHttpProxyAgent } from 'undici';

/** The URL of a proxy, and the hosts to reach directly, in the format of NO_PROXY. */
export type HttpProxy = { address: string; except?: string | undefined };

/** Creates connections through a proxy. */
export function createProxyDispatcher(
  { address, except = '' }: HttpProxy,
  options: EnvHttpProxyAgent.Options,
): Dispatcher {
  return new EnvHttpProxyAgent({
    ...options,
    // Use CONNECT for https only: many proxies refuse it for port 80.
    proxyTunnel: false,
    httpProxy: address,
    httpsProxy: address,
    noProxy: except,
  });
}
