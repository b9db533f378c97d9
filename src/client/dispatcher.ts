import { Agent, type Dispatcher, EnvHttpProxyAgent } from 'undici';

/** What HTTP_PROXY, HTTPS_PROXY and NO_PROXY say. */
export type Proxies = { http?: string | undefined; https?: string | undefined; except?: string | undefined };

/** Without undici's own times: the attempt's deadline rules, and undici's would end it earlier, or not at all. */
const options = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 0 } } as const;

/** Connections to the service, directly or through the proxies. */
export function createDispatcher({ http, https, except = '' }: Proxies = {}): Dispatcher {
  if (!http && !https) return new Agent(options);
  return new EnvHttpProxyAgent({
    ...options,
    // Only what is encrypted needs a tunnel; proxies commonly refuse one to port 80.
    proxyTunnel: false,
    httpProxy: http ?? '',
    httpsProxy: https ?? '',
    noProxy: except,
  });
}
