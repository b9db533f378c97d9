import { onTestFinished } from 'vitest';
import { API_PREFIX, operations, plans, type Quota } from '../../src/contract/api.ts';
import { type App, type AppOptions, createApp } from '../../src/server/app.ts';
import { type ListenOptions, listen } from '../../src/server/connection/listen.ts';
import { createFaults, type FaultOptions } from '../../src/server/faults.ts';
import type { RequestRecord } from '../../src/server/tools/recorder.ts';
import { hashKey } from '../../src/store/keys.ts';
import { type BanRule, createMemoryLimiter } from '../../src/store/limiter.ts';
import { manualClock } from './clock.ts';
import { fetchDocumented } from './openapi.ts';
import { memoryStore } from './store-fixtures.ts';

export const KEY = 'pets_test';
export const OTHER_KEY = 'pets_other';

export type ServiceOptions = Partial<
  Omit<AppOptions, 'keys' | 'clock' | 'onError' | 'onAccess' | 'faults'>
> & {
  faults?: FaultOptions | undefined;
  /** The quota of each key. The default is the quota of plan free. */
  quota?: Quota;
  /** The initial time of the clock. */
  time?: string;
  limits?: ListenOptions['limits'];
};

/** The different paths of all operations, with 1 as the parameter. */
export const operationPaths = [
  ...new Set(Object.values(operations).map(({ path }) => API_PREFIX + path.replace(/\{\w+\}/, '1'))),
];

/** Starts the service on a free loopback port, with two keys and a manual clock. Stops the service after the test. */
export async function start({ quota = plans.free, ...options }: ServiceOptions = {}) {
  const accessLog: RequestRecord[] = [];
  const service = await launch({
    ...options,
    quotas: { [KEY]: quota, [OTHER_KEY]: quota },
    onAccess: (record) => accessLog.push(record),
  });
  onTestFinished(() => service.listening.stop(0));
  const call = (path: string, init: RequestInit = {}) =>
    fetchDocumented(service.listening.origin, path, {
      ...init,
      headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json', ...init.headers },
    });
  return { ...service, accessLog, call };
}

/** Starts a service with the keys of `quotas`. The caller stops it. Keeps no access log, which would grow the heap. */
export async function launch({
  quotas,
  ban,
  time,
  limits,
  faults,
  ...options
}: Omit<ServiceOptions, 'quota'> &
  Pick<AppOptions, 'onAccess'> & { quotas: Readonly<Record<string, Quota>>; ban?: BanRule }) {
  const clock = manualClock(time);
  const store = options.store ?? (await memoryStore(clock));
  const errors: unknown[] = [];
  const known = new Map(
    Object.entries(quotas).map(([key, quota]) => {
      const sha256 = hashKey(key);
      return [sha256, { name: 'shop', plan: 'enterprise' as const, quota, sha256 }];
    }),
  );
  const app = createApp({
    limiter: createMemoryLimiter(clock, ban && { rule: ban }),
    anonymousLimiter: createMemoryLimiter(clock),
    tools: { paths: [] },
    ...options,
    faults: createFaults(faults),
    store,
    keys: { find: (sha256) => known.get(sha256), list: async () => [...known.values()] },
    clock,
    onError: (error) => errors.push(error),
  });
  // Clients compare times in a response with its Date header, so that header must show the manual clock.
  const atManualTime: App = (request, response, error) => {
    response.setHeader('Date', new Date(clock.now()).toUTCString());
    return app(request, response, error);
  };
  const listening = await listen(atManualTime, { host: '127.0.0.1', port: 0, limits });
  return { clock, store, errors, listening };
}

/** The options of `call` for a creation. */
export const create = (body: string, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  body,
  headers,
});
