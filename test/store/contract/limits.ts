import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_QUOTA, plans, type Quota } from '../../../src/contract/plans.ts';
import { hashKey } from '../../../src/store/keys/keys.ts';
import type { Limiter } from '../../../src/store/limits/limiter.ts';
import { cases } from '../../helpers/cases.ts';
import type { Places } from './place.ts';

const CALLER = hashKey('key');
const [MINUTE, DAY] = [60_000, 86_400_000];
const at = (time: string) => Date.parse(`2026-11-${time}Z`);

/** Sends concurrent requests. Returns how many were accepted. */
async function consume(limiter: Limiter, times: number, quota: Quota, caller = CALLER): Promise<number> {
  const decisions = await Promise.all(Array.from({ length: times }, () => limiter.take(caller, quota)));
  return decisions.filter(({ retryAt }) => retryAt === undefined).length;
}

export function describeLimits({ newPlace }: Places): void {
  async function openLimiter(time?: string) {
    const { open, clock } = await newPlace(time);
    const { limiter } = await open({ after: 0, milliseconds: 0 });
    return { clock, limiter };
  }

  describe('windows', () => {
    it.each([
      ['minute', MINUTE, { perMinute: 60, perDay: 1_000_000 }, 20_000],
      ['day', DAY, { perMinute: 1_000_000, perDay: 60 }, DAY / 3],
    ])(
      'never more than n requests succeed in one %s, also around its edges',
      async (_, length, quota, longest) => {
        const { clock, limiter } = await openLimiter();
        const bursts = fc.array(
          fc.tuple(fc.integer({ min: 0, max: longest }), fc.integer({ min: 1, max: 40 })),
          {
            maxLength: 60,
          },
        );
        let runs = 0;
        await fc.assert(
          fc.asyncProperty(bursts, async (all) => {
            const caller = hashKey(`caller ${runs++}`);
            // Start two minutes before midnight.
            clock.advance(2 * DAY - 2 * MINUTE - (clock.now() % DAY));
            const perWindow = new Map<number, { asked: number; passed: number }>();
            for (const [pause, count] of all) {
              clock.advance(pause);
              const window = Math.floor(clock.now() / length);
              const sum = perWindow.get(window) ?? { asked: 0, passed: 0 };
              sum.asked += count;
              sum.passed += await consume(limiter, count, quota, caller);
              perWindow.set(window, sum);
            }
            for (const { asked, passed } of perWindow.values()) expect(passed).toBe(Math.min(asked, 60));
          }),
          { numRuns: cases(100) },
        );
      },
    );

    it.each([
      ['minute', 'day', { perMinute: 2, perDay: 100 }, '20T12:00:59.999', '20T12:01:00'],
      ['day', 'minute', { perMinute: 100, perDay: 2 }, '20T23:59:59.999', '21T00:00:00'],
    ] as const)('begin exactly at the edge of the UTC %s', async (name, otherName, quota, before, edge) => {
      const { clock, limiter } = await openLimiter(`2026-11-${before}Z`);
      const resetAt = at(edge);
      const otherEnd = at('21T00:00:00');
      const decision = (remaining: number) => {
        const window = { limit: 2, remaining, resetAt };
        const other = { limit: 100, remaining: remaining + 98, resetAt: otherEnd };
        return { window, windows: { [name]: window, [otherName]: other }, now: clock.now() };
      };
      expect(await limiter.take(CALLER, quota)).toEqual(decision(1));
      expect(await limiter.take(CALLER, quota)).toEqual(decision(0));
      expect(await limiter.take(CALLER, quota)).toEqual({ ...decision(0), retryAt: resetAt });
      clock.advance(1);
      const next = await limiter.take(CALLER, quota);
      expect(next).toMatchObject({ window: { limit: 2, remaining: 1 }, now: resetAt });
      expect(next.window.resetAt).toBeGreaterThan(resetAt);
      expect(next.retryAt).toBeUndefined();
    });

    it('report the later reset if both are used up', async () => {
      const { limiter } = await openLimiter();
      const quota = { perMinute: 3, perDay: 3 };
      await consume(limiter, 3, quota);
      const decision = await limiter.take(CALLER, quota);
      expect(decision).toMatchObject({ window: { limit: 3, remaining: 0 }, retryAt: at('21T00:00:00') });
    });

    it('report the one with fewer requests left', async () => {
      const { clock, limiter } = await openLimiter();
      const quota = { perMinute: 3, perDay: 5 };
      const limits: unknown[] = [];
      for (let i = 0; i < 6; i++) {
        if (i === 3) clock.advance(MINUTE);
        const { window, windows } = await limiter.take(CALLER, quota);
        limits.push([window.limit, window.remaining, windows.minute.remaining, windows.day.remaining]);
      }
      expect(limits).toEqual([
        [3, 2, 2, 4],
        [3, 1, 1, 3],
        [3, 0, 0, 2],
        [5, 1, 2, 1],
        [5, 0, 1, 0],
        [5, 0, 1, 0],
      ]);
    });

    it('have every number of remaining requests once, also if requests are concurrent', async () => {
      const { clock, limiter } = await openLimiter();
      const quota = { perMinute: 100, perDay: 10_000 };
      for (let round = 0; round < 5; round++) {
        const remaining: number[] = [];
        for (const count of [1, 30, 70, 20]) {
          const decisions = await Promise.all(
            Array.from({ length: count }, () => limiter.take(CALLER, quota)),
          );
          remaining.push(
            ...decisions.flatMap(({ window, retryAt }) => (retryAt === undefined ? [window.remaining] : [])),
          );
        }
        expect(remaining).toEqual(Array.from({ length: 100 }, (_, i) => 99 - i));
        clock.advance(MINUTE);
      }
    });

    it('count exactly with quotas up to 10^15', async () => {
      const { limiter } = await openLimiter();
      const quota = { perMinute: MAX_QUOTA, perDay: MAX_QUOTA };
      for (let used = 1; used <= 3; used++) {
        expect(await limiter.take(CALLER, quota)).toMatchObject({
          window: { limit: MAX_QUOTA, remaining: MAX_QUOTA - used, resetAt: at('21T00:00:00') },
        });
      }
    });
  });

  describe('counting', () => {
    it('does not include refused requests', async () => {
      const { clock, limiter } = await openLimiter();
      const quota = { perMinute: 3, perDay: 6 };
      expect(await consume(limiter, 8, quota)).toBe(3);
      clock.advance(MINUTE);
      expect(await consume(limiter, 8, quota)).toBe(3);
      clock.advance(MINUTE);
      expect(await limiter.take(CALLER, quota)).toMatchObject({ retryAt: at('21T00:00:00') });
    });

    it('does not include peeks, which show the same window as the next request', async () => {
      const { clock, limiter } = await openLimiter();
      const quota = { perMinute: 2, perDay: 100 };
      const peek = async (times = 5) => {
        const all = await Promise.all(Array.from({ length: times }, () => limiter.peek(CALLER, quota)));
        expect(new Set(all.map((each) => JSON.stringify(each))).size).toBe(1);
        return all[0];
      };
      const resetAt = at('20T12:01:00');
      const decision = (remaining: number) => {
        const minute = { limit: 2, remaining, resetAt };
        const day = { limit: 100, remaining: remaining + 98, resetAt: at('21T00:00:00') };
        return { window: minute, windows: { minute, day }, now: clock.now() };
      };
      expect(await peek()).toEqual(decision(2));
      await limiter.take(CALLER, quota);
      expect(await peek()).toEqual(decision(1));
      const [, peeked] = await Promise.all([limiter.take(CALLER, quota), limiter.peek(CALLER, quota)]);
      expect(peeked.window).toMatchObject({ limit: 2, remaining: 0 });
      expect(await peek(30)).toEqual({ ...decision(0), retryAt: resetAt });
      clock.advance(MINUTE);
      expect(await peek()).toMatchObject({ window: { remaining: 2, resetAt: at('20T12:02:00') } });
    });

    it('is shown for both windows by reads of the usage, which change nothing', async () => {
      const { clock, limiter } = await openLimiter();
      const quota = { perMinute: 2, perDay: 100 };
      const other = hashKey('other');
      const windows = (minute: number, day: number, end = '20T12:01:00') => ({
        minute: { used: minute, endsAt: at(end) },
        day: { used: day, endsAt: at('21T00:00:00') },
        bannedUntil: undefined,
      });
      expect(await limiter.usage([])).toEqual([]);
      expect(await limiter.usage([CALLER, other])).toEqual([windows(0, 0), windows(0, 0)]);
      await consume(limiter, 5, quota);
      await consume(limiter, 1, quota, other);
      for (let i = 0; i < 5; i++) {
        expect(await limiter.usage([other, CALLER])).toEqual([windows(1, 1), windows(2, 2)]);
      }
      clock.advance(MINUTE);
      expect(await limiter.usage([CALLER, other])).toEqual([
        windows(0, 2, '20T12:02:00'),
        windows(0, 1, '20T12:02:00'),
      ]);
      expect(await consume(limiter, 5, quota)).toBe(2);
      clock.advance(DAY);
      expect(await limiter.usage([CALLER])).toMatchObject([{ day: { used: 0, endsAt: at('22T00:00:00') } }]);
    });

    it('is separate for each caller', async () => {
      const { limiter } = await openLimiter();
      const quota = { perMinute: 2, perDay: 100 };
      const callers = Array.from({ length: 100 }, (_, i) => hashKey(`caller ${i}`));
      const passed = await Promise.all(
        callers.map((caller, i) => consume(limiter, (i % 4) + 1, quota, caller)),
      );
      expect(passed).toEqual(callers.map((_, i) => Math.min(2, (i % 4) + 1)));
    });

    it('uses the quota of each request', async () => {
      const { clock, limiter } = await openLimiter();
      const smaller = { perMinute: 3, perDay: 100 };
      expect(await consume(limiter, 4, smaller)).toBe(3);
      expect(await consume(limiter, 70, plans.free)).toBe(57);
      expect((await limiter.peek(CALLER, smaller)).window).toMatchObject({ limit: 3, remaining: 0 });
      clock.advance(MINUTE);
      expect(await consume(limiter, 4, smaller)).toBe(3);
    });
  });
}
