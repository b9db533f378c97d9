import { onTestFinished } from 'vitest';
import { plans, type Quota } from '../../src/contract/plans.ts';
import { type Answered, type AppOptions, createApp } from '../../src/server/app.ts';
import { type ListenOptions, listen } from '../../src/server/connection/listen.ts';
import { createMemoryLimiter } from '../../src/server/limits/limiter.ts';
import { hashKey } from '../../src/store/keys.ts';
import { manualClock } from './clock.ts';
import { MemoryStore } from './store-memory.ts';

export const KEY = 'pets_test';
export const OTHER_KEY = 'pets_other';

export type ServiceOptions = Partial<Omit<AppOptions, 'keys' | 'clock' | 'onError' | 'onAnswered'>> & {
  /** That of both keys; Free's without it. */
  quota?: Quota;
  /** Where the clock stands. */
  time?: string;
  limits?: ListenOptions['limits'];
};

/** The service on a free loopback port, with two keys and a clock that stands still; gone behind the test. */
export async function start({ quota = plans.free, time, limits, ...options }: ServiceOptions = {}) {
  const clock = manualClock(time);
  const store = options.store ?? new MemoryStore(clock);
  const answered: Answered[] = [];
  const errors: unknown[] = [];
  const app = createApp({
    limiter: createMemoryLimiter(clock),
    strangers: createMemoryLimiter(clock),
    ...options,
    store,
    keys: {
      find: (sha256) => ([KEY, OTHER_KEY].map(hashKey).includes(sha256) ? { quota } : undefined),
    },
    clock,
    onError: (error) => errors.push(error),
    onAnswered: (each) => answered.push(each),
  });
  // Its answers carry the time of its clock, against which a client holds what they say.
  const handle: typeof app.handle = (request, response) => {
    response.setHeader('Date', new Date(clock.now()).toUTCString());
    return app.handle(request, response);
  };
  const listening = await listen({ ...app, handle }, { host: '127.0.0.1', port: 0, limits });
  onTestFinished(() => listening.stop(0));
  const call = (path: string, init: RequestInit = {}) =>
    fetch(listening.origin + path, {
      ...init,
      headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json', ...init.headers },
    });
  return { clock, store, errors, answered, listening, call };
}

/** A creation as `call` takes it. */
export const create = (body: string, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  body,
  headers,
});
