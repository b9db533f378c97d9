import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { createMemoryRateLimiter } from '../../src/server/rate-limit/limiter.ts';
import { cases } from '../helpers/cases.ts';
import { manualClock } from '../helpers/clock.ts';

const consume = async (
  limiter: ReturnType<typeof createMemoryRateLimiter>,
  times: number,
  quota = plans.free,
) => {
  const decisions = await Promise.all(Array.from({ length: times }, () => limiter.consume('key', quota)));
  return decisions.filter(({ retryAt }) => retryAt === undefined).length;
};

describe('the minute', () => {
  test.each(Object.entries(plans).filter(([name]) => name !== 'enterprise'))(
    'plan %s: exactly n of n + 5 concurrent requests succeed in each window',
    async (_name, quota) => {
      const clock = manualClock('2026-11-20T12:00:30Z');
      const limiter = createMemoryRateLimiter(clock);
      expect(await consume(limiter, quota.perMinute + 5, quota)).toBe(quota.perMinute);
      clock.set('2026-11-20T12:00:59.999Z');
      expect(await consume(limiter, 1, quota)).toBe(0);
      clock.set('2026-11-20T12:01:00Z');
      expect(await consume(limiter, quota.perMinute + 5, quota)).toBe(quota.perMinute);
    },
  );

  test('a clock that is set back does not reopen a window', async () => {
    const clock = manualClock('2026-11-20T12:01:00Z');
    const limiter = createMemoryRateLimiter(clock);
    expect(await consume(limiter, 60)).toBe(60);
    clock.set('2026-11-20T12:00:00Z');
    expect(await consume(limiter, 60)).toBe(0);
  });
});

describe('the day', () => {
  test('a Free key has 1,000 requests until midnight UTC, however distributed', async () => {
    const clock = manualClock('2026-11-20T20:00:00Z');
    const limiter = createMemoryRateLimiter(clock);
    let succeeded = 0;
    for (let minute = 0; minute < 20; minute++) {
      succeeded += await consume(limiter, 60);
      clock.advance(60_000);
    }
    expect(succeeded).toBe(1_000);
    expect(await limiter.consume('key', plans.free)).toEqual({
      window: { limit: 1_000, remaining: 0, resetAt: Date.parse('2026-11-21T00:00:00Z') },
      retryAt: Date.parse('2026-11-21T00:00:00Z'),
    });
    clock.set('2026-11-21T00:00:00Z');
    expect(await consume(limiter, 61)).toBe(60);
  });

  test('if both windows are used up, the later reset is reported', async () => {
    const limiter = createMemoryRateLimiter(manualClock());
    const quota = { perMinute: 3, perDay: 3 };
    await consume(limiter, 3, quota);
    expect((await limiter.consume('key', quota)).retryAt).toBe(Date.parse('2026-11-21T00:00:00Z'));
  });
});

test('callers have separate windows, and peek counts nothing', async () => {
  const limiter = createMemoryRateLimiter(manualClock());
  await consume(limiter, 60);
  expect((await limiter.peek('key', plans.free)).retryAt).toBeDefined();
  expect((await limiter.peek('other', plans.free)).window.remaining).toBe(60);
  expect((await limiter.consume('other', plans.free)).window.remaining).toBe(59);
});

test('never more than n requests succeed in one window, also around its edges', async () => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 20_000 }), fc.integer({ min: 1, max: 40 })), {
    maxLength: 60,
  });
  await fc.assert(
    fc.asyncProperty(steps, async (bursts) => {
      const clock = manualClock('2026-11-20T23:58:00Z');
      const limiter = createMemoryRateLimiter(clock);
      const perWindow = new Map<number, { asked: number; passed: number }>();
      for (const [pause, count] of bursts) {
        clock.advance(pause);
        const window = Math.floor(clock.now() / 60_000);
        const sum = perWindow.get(window) ?? { asked: 0, passed: 0 };
        sum.asked += count;
        sum.passed += await consume(limiter, count);
        perWindow.set(window, sum);
      }
      for (const { asked, passed } of perWindow.values()) expect(passed).toBe(Math.min(asked, 60));
    }),
    { numRuns: cases(200) },
  );
});

test('expired counters are dropped: 100,000 addresses leave no memory in use', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const clock = manualClock();
  const limiter = createMemoryRateLimiter(clock);
  const quota = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };
  const before = heap();
  for (let i = 0; i < 100_000; i++) await limiter.consume(`address ${i}`, quota);
  const held = heap() - before;
  expect(held).toBeGreaterThan(5_000_000);
  clock.advance(60_000);
  await limiter.consume('another', quota);
  expect(heap() - before).toBeLessThan(held / 4);
  // Counters of the current day are kept.
  await consume(limiter, 1, plans.free);
  clock.advance(120_000);
  await limiter.consume('another', quota);
  expect((await limiter.peek('key', { perMinute: 60, perDay: 10 })).window).toMatchObject({
    limit: 10,
    remaining: 9,
  });
});
