import type { ProxyError } from '../../client/errors.ts';
import { type ProxySetting, proxyLabel } from '../profiles/profile.ts';
import { type UserError, userError } from './codes.ts';
import { systemReason } from './errors.ts';

/** Describes an error of a proxy. Names the host and port of the proxy, but never its user or password. */
export function describeProxyError(error: ProxyError, proxy: ProxySetting, server: string): UserError {
  const { status } = error;
  const { variable, address } = proxy;
  const { protocol, username } = new URL(address);
  const label = `the proxy ${proxyLabel(proxy)}`;
  // Some proxies respond with 401 to a wrong password.
  if (status === 407 || status === 401) {
    const example = `${protocol}//USER:PASSWORD@${proxyLabel(proxy)}`;
    const message = username
      ? `${label} rejected the user and password in ${variable} (${status})`
      : `${label} requires a user and password (${status})`;
    return userError('network_error', message, {
      hint: `set ${variable} to ${example}; in USER and PASSWORD, write @ as %40, : as %3A, / as %2F and % as %25`,
    });
  }
  const message =
    status === undefined
      ? `cannot reach ${label}: ${systemReason(error)}`
      : `${label} refused to connect to ${server} (${status})`;
  return userError('network_error', message, {
    hint: `check ${variable}; to connect to ${server} without a proxy, add it to NO_PROXY`,
  });
}
