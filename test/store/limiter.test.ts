import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plans } from '../../src/contract/api.ts';
import { createMemoryLimiter } from '../../src/store/limiter.ts';
import { cases } from '../helpers/cases.ts';
import { manualClock } from '../helpers/clock.ts';
import { heap } from '../helpers/heap.ts';

const consume = async (
  limiter: ReturnType<typeof createMemoryLimiter>,
  times: number,
  quota = plans.free,
) => {
  const decisions = await Promise.all(Array.from({ length: times }, () => limiter.take('key', quota)));
  return decisions.filter(({ retryAt }) => retryAt === undefined).length;
};

test('a clock that is set back does not reopen a window', async () => {
  const clock = manualClock('2026-11-20T12:01:00Z');
  const limiter = createMemoryLimiter(clock);
  expect(await consume(limiter, 60)).toBe(60);
  clock.set('2026-11-20T12:00:00Z');
  expect(await consume(limiter, 60)).toBe(0);
});

test('a ban lasts as long as it was announced, although the clock is set back', async () => {
  const clock = manualClock();
  const limiter = createMemoryLimiter(clock, { rule: { after: 1, milliseconds: 300_000 } });
  const isBanned = async () => (await limiter.take('key', { perMinute: 1, perDay: 9 })).banned ?? false;
  for (const pause of [0, 0, 1_000]) {
    clock.advance(pause);
    await isBanned();
  }
  clock.step(-3_600_000);
  clock.advance(299_999);
  expect(await isBanned()).toBe(true);
  clock.advance(1);
  expect(await isBanned()).toBe(false);
});

test('whatever the clock does, no key is refused for longer than its window or its ban lasts', async () => {
  const [minute, day, ban] = [60_000, 86_400_000, 7_000];
  const changes = fc.record({
    pause: fc.oneof(fc.integer({ min: 0, max: 20_000 }), fc.integer({ min: 0, max: day / 4 })),
    // No step, or a multiple of 100 s, because the service does not regard differences up to 0.1 s as steps.
    step: fc.oneof(
      fc.constant(0),
      fc.integer({ min: -2 * 864, max: 2 * 864 }).map((n) => n * 100_000),
    ),
  });
  const situations = fc.constantFrom(
    { quota: { perMinute: 3, perDay: 10_000 }, windowLength: minute },
    { quota: { perMinute: 100, perDay: 3 }, windowLength: day },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(changes, { maxLength: 80 }),
      situations,
      async (all, { quota, windowLength }) => {
        const clock = manualClock();
        const limiter = createMemoryLimiter(clock, { rule: { after: 3, milliseconds: ban } });
        let state = { reason: 'none', since: 0 };
        for (const { pause, step } of all) {
          clock.advance(pause);
          clock.step(step);
          const { retryAt, banned } = await limiter.take('key', quota);
          const reason = banned ? 'ban' : retryAt === undefined ? 'none' : 'window';
          if (reason !== state.reason) state = { reason, since: clock.elapsed() };
          if (retryAt === undefined) continue;
          const longest = banned ? ban : windowLength;
          expect(retryAt - clock.now()).toBeLessThanOrEqual(longest);
          expect(clock.elapsed() - state.since).toBeLessThan(longest);
        }
      },
    ),
    { numRuns: cases(500) },
  );
});

test('expired counters are dropped: 30,000 addresses leave no memory in use', async () => {
  const clock = manualClock();
  const limiter = createMemoryLimiter(clock);
  const quota = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };
  const before = heap();
  for (let i = 0; i < 30_000; i++) await limiter.take(`address ${i}`, quota);
  const held = heap() - before;
  expect(held).toBeGreaterThan(1_500_000);
  clock.advance(60_000);
  await limiter.take('another', quota);
  expect(heap() - before).toBeLessThan(held / 4);
  // Counters of the current day are kept.
  await consume(limiter, 1, plans.free);
  clock.advance(120_000);
  await limiter.take('another', quota);
  expect((await limiter.peek('key', { perMinute: 60, perDay: 10 })).window).toMatchObject({
    limit: 10,
    remaining: 9,
  });
});
