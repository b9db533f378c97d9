import { expect, test } from 'vitest';
import { openWhenAvailable } from '../../src/cli/serve/wait-for-data.ts';
import type { Backend, BackendOptions, StoreLocation } from '../../src/store/backend.ts';
import { StoreError, StoreUnavailableError } from '../../src/store/errors.ts';
import { manualClock } from '../helpers/clock.ts';

const unavailable = new StoreUnavailableError('cannot connect to postgres://db/pets', 'start it', {
  outcome: 'not_done',
});

/** Opens a location whose attempts have these results, each after `duration` milliseconds. `undefined` is a backend. */
function open(seconds: number, results: readonly (Error | undefined)[], duration = 0) {
  const clock = manualClock();
  const interrupt = new AbortController();
  const notices: string[] = [];
  const sleeps: number[] = [];
  let attempts = 0;
  let closed = 0;
  const backend = {
    close: async () => {
      closed += 1;
    },
  } as Backend;
  const location = {
    async open() {
      clock.advance(duration);
      const result = results[Math.min(attempts++, results.length - 1)];
      if (result) throw result;
      return backend;
    },
  } as Pick<StoreLocation, 'open'>;
  const context = {
    clock,
    async sleep(milliseconds: number, signal: AbortSignal) {
      signal.throwIfAborted();
      sleeps.push(milliseconds);
      clock.advance(milliseconds);
    },
    console: { noticeOnce: (text: string) => void notices.push(text) },
  };
  const opening = openWhenAvailable(location, seconds, context, interrupt.signal)({} as BackendOptions);
  return { opening, backend, notices, sleeps, interrupt, closed: () => closed, attempts: () => attempts };
}

test('tries again until the store is available, with a notice that names the problem', async () => {
  const { opening, backend, notices, sleeps } = open(60, [unavailable, unavailable, undefined]);
  expect(await opening).toBe(backend);
  expect(sleeps).toEqual([500, 500]);
  expect(new Set(notices)).toEqual(
    new Set(['waiting at most 60 s for the store: cannot connect to postgres://db/pets']),
  );
});

test('fails with the last error when the time is over, after a last attempt', async () => {
  const { opening, sleeps, attempts } = open(1.2, [unavailable]);
  await expect(opening).rejects.toBe(unavailable);
  expect([sleeps, attempts()]).toEqual([[500, 500, 200], 4]);
});

test('counts the time of the attempts', async () => {
  const { opening, attempts } = open(3, [unavailable], 1_000);
  await expect(opening).rejects.toBe(unavailable);
  expect(attempts()).toBe(3);
});

test('does not wait after any other error', async () => {
  const error = new StoreError('the password is wrong', 'check it');
  const { opening, notices, attempts } = open(60, [error]);
  await expect(opening).rejects.toBe(error);
  expect([notices, attempts()]).toEqual([[], 1]);
});

test('ends at once when it is interrupted, and closes a store that opens later', async () => {
  const { opening, interrupt, closed } = open(60, [undefined]);
  interrupt.abort('SIGTERM');
  await expect(opening).rejects.toBe('SIGTERM');
  await expect.poll(closed).toBe(1);
});
