import { onTestFinished } from 'vitest';
import { type Client, type ClientOptions, createClient } from '../../src/client/client.ts';
import { InterruptedError } from '../../src/client/errors.ts';
import { createKnownService } from '../../src/client/known-service.ts';
import { createOwnMarks, type Marks } from '../../src/client/marks.ts';
import type { HttpProxy } from '../../src/client/proxy-dispatcher.ts';
import type { Attempted, Wait } from '../../src/client/sender.ts';
import { createTransport } from '../../src/client/transport.ts';
import { type ManualClock, manualClock } from './clock.ts';

export const KEY = 'pets_key';
export const PET = { id: 1, name: 'Rex', categoryId: 3, status: 'available' };

export const list = (client: Client) => client.call('listPets', { query: {} });
export const add = (client: Client) => client.call('createPet', { body: { name: 'Rex', categoryId: 3n } });

export type TestClientOptions = Partial<ClientOptions> & {
  clock?: ManualClock;
  marks?: Marks;
  proxy?: HttpProxy;
  /** Called instead of a wait, which then takes no time but by the clock. */
  onSleep?: (milliseconds: number) => void;
};

/** A client with a clock that only its own waits move, and an interrupt; closed behind the test. */
export function testClient(
  baseUrl: string,
  { clock = manualClock(), marks = createOwnMarks(), proxy, onSleep, ...options }: TestClientOptions = {},
) {
  const transport = createTransport({ clock, proxy });
  onTestFinished(() => transport.close());
  const service = createKnownService({ baseUrl, key: KEY }, marks, clock);
  const interrupt = new AbortController();
  const waits: Wait[] = [];
  const slept: number[] = [];
  const attempts: Attempted[] = [];
  const client = createClient({
    baseUrl,
    key: KEY,
    service,
    transport,
    clock,
    async sleep(milliseconds, signal) {
      slept.push(milliseconds);
      onSleep?.(milliseconds);
      signal.throwIfAborted();
      clock.advance(milliseconds);
    },
    random: () => 0,
    signal: interrupt.signal,
    timeoutMilliseconds: 2_000,
    maxWaitMilliseconds: 75_000,
    onWait: (wait) => waits.push(wait),
    onAttempted: (attempted) => attempts.push(attempted),
    ...options,
  });
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

/** What a promise rejects with. */
export const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error,
  );

/** Who calls: a read, and a creation whose service has, or has not, shown that it honours the idempotency key. */
export const callers = [
  { name: 'a read', call: list, isHonoured: false, isRepeated: true },
  { name: 'a creation', call: add, isHonoured: false, isRepeated: false },
  { name: 'a creation that can be repeated', call: add, isHonoured: true, isRepeated: true },
] as const;
