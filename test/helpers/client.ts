import { onTestFinished } from 'vitest';
import type { AttemptEvent, WaitEvent } from '../../src/client/call.ts';
import { type Client, type ClientOptions, createClient } from '../../src/client/client.ts';
import { createServiceState } from '../../src/client/service-state.ts';
import { InterruptedError } from '../../src/system/clock.ts';
import { type ManualClock, manualClock, uptimeOf } from './clock.ts';
import { stateDirectory } from './temp.ts';

export const KEY = 'pets_key';
export const PET = { id: 1, name: 'Rex', categoryId: 3, status: 'available' };

export const list = (client: Client) => client.call('listPets', { query: {} });
export const add = (client: Client) => client.call('createPet', { body: { name: 'Rex', categoryId: 3n } });

export type TestClientOptions = Partial<ClientOptions> & {
  clock?: ManualClock;
  /** Whether the service supports Idempotency-Key, as earlier responses have shown; unknown by default. */
  supportsIdempotency?: boolean;
  /** Called before each wait. The wait itself takes no time, and only advances the clock. */
  onSleep?: (milliseconds: number) => void;
};

/** Creates a client whose waits take no time, and only advance its clock. Closes the client after the test. */
export function testClient(
  baseUrl: string,
  {
    clock = manualClock(),
    stateDirectories = [stateDirectory()],
    supportsIdempotency,
    onSleep,
    ...options
  }: TestClientOptions = {},
) {
  const uptime = uptimeOf(clock);
  const service = createServiceState({ baseUrl, key: KEY }, { clock, uptime, stateDirectories });
  if (supportsIdempotency !== undefined) service.recordIdempotencySupport(supportsIdempotency);
  const interrupt = new AbortController();
  const waits: WaitEvent[] = [];
  const slept: number[] = [];
  const attempts: AttemptEvent[] = [];
  const client = createClient({
    baseUrl,
    key: KEY,
    userAgent: 'pets/test',
    stateDirectories,
    clock,
    uptime,
    async wait(event, signal) {
      waits.push(event);
      slept.push(event.milliseconds);
      onSleep?.(event.milliseconds);
      signal.throwIfAborted();
      clock.advance(event.milliseconds);
    },
    random: () => 0,
    signal: interrupt.signal,
    timeoutMilliseconds: 15_000,
    maxWaitMilliseconds: 75_000,
    onAttempt: (attempt) => attempts.push(attempt),
    ...options,
  });
  onTestFinished(client.close);
  return {
    client,
    clock,
    service,
    waits,
    slept,
    attempts,
    interrupt: () => interrupt.abort(new InterruptedError()),
  };
}

/** Returns the error that a promise rejects with. Rejects if the promise resolves. */
export const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => {
      throw new Error('the promise was resolved');
    },
    (error: unknown) => error,
  );

export const calls = [
  { name: 'a read', call: list, supportsIdempotency: false, isRetried: true },
  { name: 'a creation', call: add, supportsIdempotency: false, isRetried: false },
  { name: 'a creation with a supported key', call: add, supportsIdempotency: true, isRetried: true },
] as const;
