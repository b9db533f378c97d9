import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { createMemoryLimiter } from '../../src/server/limits/limiter.ts';
import { manualClock } from '../helpers/clock.ts';

const take = async (limiter: ReturnType<typeof createMemoryLimiter>, times: number, quota = plans.free) => {
  const verdicts = await Promise.all(Array.from({ length: times }, () => limiter.take('key', quota)));
  return verdicts.filter(({ retryAt }) => retryAt === undefined).length;
};

describe('the minute', () => {
  test.each(Object.entries(plans).filter(([name]) => name !== 'enterprise'))(
    'plan %s: of n + 5 requests at once exactly n succeed, and again in the next window',
    async (_name, quota) => {
      const clock = manualClock('2026-11-20T12:00:30Z');
      const limiter = createMemoryLimiter(clock);
      expect(await take(limiter, quota.perMinute + 5, quota)).toBe(quota.perMinute);
      clock.set('2026-11-20T12:00:59.999Z');
      expect(await take(limiter, 1, quota)).toBe(0);
      clock.set('2026-11-20T12:01:00Z');
      expect(await take(limiter, quota.perMinute + 5, quota)).toBe(quota.perMinute);
    },
  );

  test('is aligned to the UTC minute, and the headers say so', async () => {
    const clock = manualClock('2026-11-20T12:00:59.999Z');
    const limiter = createMemoryLimiter(clock);
    expect(await limiter.take('key', plans.free)).toEqual({
      window: { limit: 60, remaining: 59, resetAt: Date.parse('2026-11-20T12:01:00Z') },
    });
  });

  test('a refused request spends nothing and says when to come back', async () => {
    const clock = manualClock('2026-11-20T12:00:10Z');
    const limiter = createMemoryLimiter(clock);
    await take(limiter, 60);
    const refused = await limiter.take('key', plans.free);
    expect(refused).toEqual({
      window: { limit: 60, remaining: 0, resetAt: Date.parse('2026-11-20T12:01:00Z') },
      retryAt: Date.parse('2026-11-20T12:01:00Z'),
    });
    await take(limiter, 1_000);
    for (let minute = 1; minute <= 15; minute++) {
      clock.advance(60_000);
      expect(await take(limiter, 60)).toBe(60);
    }
  });

  test('a clock that steps back reopens no window', async () => {
    const clock = manualClock('2026-11-20T12:01:00Z');
    const limiter = createMemoryLimiter(clock);
    expect(await take(limiter, 60)).toBe(60);
    clock.set('2026-11-20T12:00:00Z');
    expect(await take(limiter, 60)).toBe(0);
  });
});

describe('the day', () => {
  test('1,000 requests of a Free key, however spread, and none more until midnight UTC', async () => {
    const clock = manualClock('2026-11-20T20:00:00Z');
    const limiter = createMemoryLimiter(clock);
    let succeeded = 0;
    for (let minute = 0; minute < 20; minute++) {
      succeeded += await take(limiter, 60);
      clock.advance(60_000);
    }
    expect(succeeded).toBe(1_000);
    expect(await limiter.take('key', plans.free)).toEqual({
      window: { limit: 1_000, remaining: 0, resetAt: Date.parse('2026-11-21T00:00:00Z') },
      retryAt: Date.parse('2026-11-21T00:00:00Z'),
    });
    clock.set('2026-11-21T00:00:00Z');
    expect(await take(limiter, 61)).toBe(60);
  });

  test('the headers report the window with fewer requests left', async () => {
    const limiter = createMemoryLimiter(manualClock());
    const quota = { perMinute: 10, perDay: 8 };
    expect((await limiter.take('key', quota)).window).toMatchObject({ limit: 8, remaining: 7 });
    expect((await limiter.take('other', { perMinute: 5, perDay: 8 })).window).toMatchObject({
      limit: 5,
      remaining: 4,
    });
  });

  test('where both are used up the later reset counts', async () => {
    const limiter = createMemoryLimiter(manualClock());
    const quota = { perMinute: 3, perDay: 3 };
    await take(limiter, 3, quota);
    expect((await limiter.take('key', quota)).retryAt).toBe(Date.parse('2026-11-21T00:00:00Z'));
  });
});

test('callers have windows of their own, and a peek counts nothing', async () => {
  const limiter = createMemoryLimiter(manualClock());
  await take(limiter, 60);
  expect((await limiter.peek('key', plans.free)).retryAt).toBeDefined();
  expect((await limiter.peek('other', plans.free)).window.remaining).toBe(60);
  expect((await limiter.take('other', plans.free)).window.remaining).toBe(59);
});

test('at no moment around a window edge do more than n succeed in one window', async () => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 20_000 }), fc.integer({ min: 1, max: 40 })), {
    maxLength: 60,
  });
  await fc.assert(
    fc.asyncProperty(steps, async (bursts) => {
      const clock = manualClock('2026-11-20T23:58:00Z');
      const limiter = createMemoryLimiter(clock);
      const perWindow = new Map<number, { asked: number; passed: number }>();
      for (const [pause, count] of bursts) {
        clock.advance(pause);
        const window = Math.floor(clock.now() / 60_000);
        const sum = perWindow.get(window) ?? { asked: 0, passed: 0 };
        sum.asked += count;
        sum.passed += await take(limiter, count);
        perWindow.set(window, sum);
      }
      for (const { asked, passed } of perWindow.values()) expect(passed).toBe(Math.min(asked, 60));
    }),
    { numRuns: 200 },
  );
});

test('strangers who have gone are forgotten: 100,000 addresses leave no memory behind', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const clock = manualClock();
  const limiter = createMemoryLimiter(clock);
  const quota = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };
  const before = heap();
  for (let i = 0; i < 100_000; i++) await limiter.take(`address ${i}`, quota);
  const held = heap() - before;
  expect(held).toBeGreaterThan(5_000_000);
  clock.advance(60_000);
  await limiter.take('another', quota);
  expect(heap() - before).toBeLessThan(held / 4);
  // Whose day is not over is not forgotten.
  await take(limiter, 1, plans.free);
  clock.advance(120_000);
  await limiter.take('another', quota);
  expect((await limiter.peek('key', { perMinute: 60, perDay: 10 })).window).toMatchObject({
    limit: 10,
    remaining: 9,
  });
});
