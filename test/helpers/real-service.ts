import { onTestFinished } from 'vitest';
import { API_PREFIX, plans } from '../../src/contract/api.ts';
import { type Service, type ServiceOptions, startService } from '../../src/server/service.ts';
import type { DescribedRequest } from '../../src/server/tools/recorder.ts';
import { journalLocation } from '../../src/store/journal/journal-location.ts';
import type { KeyRequest } from '../../src/store/keys.ts';
import { manualClock } from './clock.ts';
import { fetchDocumented } from './openapi.ts';
import { CLOSE, JSON_TYPE, sendRaw } from './raw-client.ts';
import { temporaryDirectory } from './temp.ts';

/** Starts the service with a store on disk, one API key and a manual clock. The test can restart the service. */
export async function startReal({ time, ...changes }: Partial<ServiceOptions> & { time?: string } = {}) {
  const clock = manualClock(time);
  const directory = await temporaryDirectory();
  const location = journalLocation(directory, clock);
  const warnings: string[] = [];
  const options: ServiceOptions = {
    location,
    host: '127.0.0.1',
    port: 0,
    clock,
    sleep: async () => {},
    bans: { after: 10, milliseconds: 300_000 },
    allowHosts: [],
    cors: [],
    signal: new AbortController().signal,
    onWarning: (message) => warnings.push(message),
    onFailure: () => {},
    onError: (error) => warnings.push(String(error)),
    ...changes,
  };
  const makeKey = (request: Partial<KeyRequest> & { name: string }) =>
    location.manageKeys(async (keys) => (await keys.create({ plan: 'free', ...request })).key);
  // A key needs a store, which the first start creates.
  await (await startService({ ...options, location })).stop(0);
  const key = await makeKey({ name: 'till' });
  let service: Service = await startService(options);
  onTestFinished(() => service.stop(0));
  return {
    clock,
    service: () => service,
    key,
    warnings,
    port: () => service.port,
    directory,
    location,
    makeKey,
    plan: plans.free,
    /** Sends a request to a path below the base URL. */
    call: (path: string, init: RequestInit = {}) =>
      fetchDocumented(new URL(service.url).origin, API_PREFIX + path, {
        ...init,
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...init.headers },
      }),
    async restart() {
      await service.stop(1_000);
      service = await startService(options);
    },
  };
}

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
      headers: { Authorization: `Bearer ${token()}`, 'Content-Type': 'application/json', ...init.headers },
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
