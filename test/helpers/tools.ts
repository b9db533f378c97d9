import type { DescribedRequest } from '../../src/server/tools/log-entry.ts';
import { sendRaw } from './raw-client.ts';
import { CLOSE, JSON_TYPE } from './raw-requests.ts';
import { startReal } from './real-service.ts';

export type Requests = {
  requests: DescribedRequest[];
  log: string;
  cursor: string;
};

/**
 * Starts the service with its developer tools. Waits of at most 100 ms, such as the one before the keys are read again,
 * take no time. Longer waits end only when their signal is aborted.
 */
export async function startWithTools(options: Parameters<typeof startReal>[0] = {}) {
  const sleep = (milliseconds: number, signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      if (milliseconds <= 100) resolve();
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  const real = await startReal({ page: true, sleep, ...options });
  const token = () => real.service().token;
  const use = (path: string, init: RequestInit = {}) =>
    fetch(new URL(path, real.service().url), {
      ...init,
      headers: { Authorization: `Bearer ${token()}`, ...init.headers },
    });
  const requests = async (query = ''): Promise<Requests> => {
    const response = await use(`/requests${query}`);
    if (response.status !== 200) throw new Error(await response.text());
    return (await response.json()) as Requests;
  };
  /** Sends a request with the API key as bytes, on a connection that closes after the response. */
  const raw = (method: string, target: string, headers = '', body = '', host = 'localhost') =>
    sendRaw(
      real.port(),
      `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${real.key}\r\n${JSON_TYPE}${CLOSE}${headers}\r\n${body}`,
    );
  return { ...real, token, use, requests, raw };
}
