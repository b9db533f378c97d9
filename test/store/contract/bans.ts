import { describe, expect, it } from 'vitest';
import type { Backend } from '../../../src/store/backend.ts';
import { hashKey } from '../../../src/store/keys/keys.ts';
import { BAN_RULE, type Places } from './place.ts';

const CALLER = hashKey('key');
const times = (count: number, code: string) => Array.from({ length: count }, () => code);

export function describeBans({ newPlace }: Places): void {
  /** A caller that has used up its quota. */
  async function overLimit({
    bans = BAN_RULE,
    quota = { perMinute: 3, perDay: 1_000 },
    isTicking = false,
  } = {}) {
    const { clock, open, location } = await newPlace('2026-11-20T12:00:10Z');
    let backend: Backend = await open(bans, { isTicking });
    const take = async (caller = CALLER) => {
      const { retryAt, banned, windows: _, ...decision } = await backend.limiter.take(caller, quota);
      const code = banned ? 'banned' : retryAt === undefined ? 'ok' : 'refused';
      return { ...decision, code, retryAfter: retryAt === undefined ? 0 : retryAt - clock.now() };
    };
    const codes = async (count: number, caller = CALLER) => {
      const all: string[] = [];
      for (let i = 0; i < count; i++) all.push((await take(caller)).code);
      return all;
    };
    const count = Math.min(quota.perMinute, quota.perDay);
    expect(await codes(count)).toEqual(times(count, 'ok'));
    return {
      clock,
      location,
      quota,
      take,
      codes,
      limiter: () => backend.limiter,
      counts: () => backend.banCounts(),
      /** Refuses the caller until it is banned. */
      async ban(caller = CALLER) {
        await codes(4, caller);
        clock.advance(1_000);
        expect((await codes(10, caller)).at(-1)).toBe('banned');
      },
      async restart(rule = bans) {
        await backend.close();
        backend = await open(rule);
      },
    };
  }

  describe('a caller that continues after it was refused', () => {
    it('is banned by the 10th refused request that arrives a second or more after the first', async () => {
      const { clock, take, codes } = await overLimit();
      // Requests within a second may have been sent before the 429 arrived, so they do not count.
      expect(await codes(50)).toEqual(times(50, 'refused'));
      clock.advance(999);
      expect(await codes(10)).toEqual(times(10, 'refused'));
      clock.advance(1);
      expect(await codes(9)).toEqual(times(9, 'refused'));
      expect(await take()).toEqual({
        code: 'banned',
        retryAfter: 300_000,
        now: clock.now(),
        window: { limit: 3, remaining: 0, resetAt: clock.now() + 300_000 },
      });
    });

    it('is told the exact length of the ban, even if the clock goes on while the server decides', async () => {
      const { clock, limiter, codes, quota } = await overLimit({ isTicking: true });
      await codes(1);
      clock.advance(1_000);
      await codes(9);
      const { retryAt = 0, now, banned } = await limiter().take(CALLER, quota);
      expect([banned, retryAt - now]).toEqual([true, 300_000]);
    });

    it('may send requests for a second after the first refused one of each window', async () => {
      const { clock, codes } = await overLimit({ bans: { after: 2, milliseconds: 4_000 } });
      await codes(1);
      clock.advance(49_000);
      expect(await codes(1)).toEqual(['refused']);
      clock.advance(1_000);
      expect(await codes(5)).toEqual([...times(3, 'ok'), ...times(2, 'refused')]);
      clock.advance(1_000);
      expect(await codes(1)).toEqual(['banned']);
    });

    it('is accepted again when the ban ends; requests during the ban do not extend it', async () => {
      const { clock, take, codes, ban } = await overLimit();
      await ban();
      for (let second = 0; second < 299; second += 13) {
        expect(await take()).toMatchObject({ code: 'banned', retryAfter: (300 - second) * 1_000 });
        clock.advance(13_000);
      }
      clock.advance(300_000 - 23 * 13_000 - 1);
      expect(await codes(1)).toEqual(['banned']);
      clock.advance(1);
      expect(await codes(4)).toEqual(['ok', 'ok', 'ok', 'refused']);
    });

    it.each([
      [10, 6_666, 'banned'],
      [10, 6_667, 'refused'],
      [2, 59_999, 'banned'],
      [2, 60_000, 'refused'],
    ])(
      'needs %i refused requests in a minute: %i ms apart, the last one is %s',
      async (after, pause, last) => {
        const bans = { after, milliseconds: 300_000 };
        const { clock, codes } = await overLimit({ bans, quota: { perMinute: 9, perDay: 1 } });
        const seen = await codes(1);
        for (let i = 0; i < after; i++) {
          clock.advance(pause);
          seen.push(...(await codes(1)));
        }
        expect(seen).toEqual([...times(after, 'refused'), last]);
      },
    );

    it('is banned for as long as the rule says, and again in the same window', async () => {
      const { clock, take, codes, counts } = await overLimit({ bans: { after: 3, milliseconds: 4_000 } });
      await codes(1);
      clock.advance(2_000);
      for (let ban = 1; ban <= 2; ban++) {
        expect(await codes(3)).toEqual([...times(2, 'refused'), 'banned']);
        expect(await counts()).toEqual({ begun: ban, active: 1 });
        expect((await take()).retryAfter).toBe(4_000);
        clock.advance(4_000);
        expect(await counts()).toEqual({ begun: ban, active: 0 });
      }
    });

    it('is never banned if bans are turned off with 0', async () => {
      const { clock, codes, counts } = await overLimit({ bans: { after: 0, milliseconds: 5_000 } });
      await codes(1);
      clock.advance(1_000);
      expect(await codes(200)).toEqual(times(200, 'refused'));
      expect(await counts()).toEqual({ begun: 0, active: 0 });
    });

    it('is banned exactly from the 10th of many concurrent requests', async () => {
      const { clock, take, codes, counts } = await overLimit();
      await codes(1);
      clock.advance(1_000);
      const all = await Promise.all(Array.from({ length: 64 }, () => take()));
      expect(all.map(({ code }) => code)).toEqual([...times(9, 'refused'), ...times(55, 'banned')]);
      expect(await counts()).toEqual({ begun: 1, active: 1 });
    });

    it('is not banned by peeks, which show a ban', async () => {
      const { clock, limiter, quota, codes } = await overLimit();
      await codes(1);
      clock.advance(1_000);
      for (let i = 0; i < 20; i++) expect((await limiter().peek(CALLER, quota)).banned).toBeUndefined();
      expect((await codes(10)).at(-1)).toBe('banned');
      const until = clock.now() + 300_000;
      expect(await limiter().peek(CALLER, quota)).toEqual({
        window: { limit: 3, remaining: 0, resetAt: until },
        now: clock.now(),
        retryAt: until,
        banned: true,
        windows: {
          minute: { limit: 3, remaining: 0, resetAt: Date.parse('2026-11-20T12:01:00Z') },
          day: { limit: 1_000, remaining: 997, resetAt: Date.parse('2026-11-21T00:00:00Z') },
        },
      });
    });

    it('is shown as banned until the ban ends, and is not banned by reads of the usage', async () => {
      const { clock, limiter, codes, restart } = await overLimit();
      const bannedUntil = async () => (await limiter().usage([CALLER]))[0]?.bannedUntil;
      await codes(1);
      clock.advance(1_000);
      for (let i = 0; i < 20; i++) expect(await bannedUntil()).toBeUndefined();
      expect((await codes(10)).at(-1)).toBe('banned');
      const until = clock.now() + 300_000;
      expect(await bannedUntil()).toBe(until);
      await restart({ after: 10, milliseconds: 60_000 });
      expect(await bannedUntil()).toBe(clock.now() + 60_000);
      await restart({ after: 0, milliseconds: 300_000 });
      expect(await bannedUntil()).toBeUndefined();
    });

    it('is not shown as banned when the ban has ended', async () => {
      const { clock, limiter, ban } = await overLimit();
      await ban();
      clock.advance(299_999);
      expect(await limiter().usage([CALLER])).toMatchObject([{ bannedUntil: clock.now() + 1 }]);
      clock.advance(1);
      expect(await limiter().usage([CALLER])).toMatchObject([{ bannedUntil: undefined }]);
    });

    it('is not banned any more after its ban was lifted, and may send requests for a second again', async () => {
      const { clock, limiter, codes, ban, counts, restart } = await overLimit();
      await ban();
      await ban(hashKey('other'));
      await limiter().liftBan(CALLER);
      expect(await counts()).toEqual({ begun: 2, active: 1 });
      expect(await codes(20)).toEqual(times(20, 'refused'));
      await restart();
      expect((await limiter().usage([CALLER]))[0]?.bannedUntil).toBeUndefined();
      expect((await limiter().usage([hashKey('other')]))[0]?.bannedUntil).toBeDefined();
      clock.advance(60_000);
      expect(await codes(4)).toEqual(['ok', 'ok', 'ok', 'refused']);
    });

    it('has no ban to lift, which changes nothing', async () => {
      const { limiter, codes, clock } = await overLimit();
      await codes(1);
      await limiter().liftBan(CALLER);
      await limiter().liftBan(hashKey('unknown'));
      clock.advance(1_000);
      expect((await limiter().usage([CALLER]))[0]).toMatchObject({ minute: { used: 3 } });
    });

    it('is stored, and can be read while the server runs and after it has stopped', async () => {
      const { clock, location, ban, restart } = await overLimit();
      const stored = () => location.manageKeys((keys) => keys.bans());
      expect(await stored()).toEqual(new Map());
      await ban();
      const bans = new Map([[CALLER, clock.now() + 300_000]]);
      expect(await stored()).toEqual(bans);
      await restart();
      expect(await stored()).toEqual(bans);
    });

    it('does not affect other callers', async () => {
      const { ban, codes, counts } = await overLimit();
      await ban();
      const other = hashKey('other');
      expect(await codes(5, other)).toEqual([...times(3, 'ok'), ...times(2, 'refused')]);
      await ban(other);
      expect(await counts()).toEqual({ begun: 2, active: 2 });
    });
  });

  describe('a ban after a restart', () => {
    it('still ends at the same time', async () => {
      const { clock, codes, ban, counts, restart } = await overLimit();
      await ban();
      await restart();
      expect(await counts()).toEqual({ begun: 0, active: 1 });
      clock.advance(299_999);
      expect(await codes(1)).toEqual(['banned']);
      await restart();
      expect(await codes(1)).toEqual(['banned']);
      clock.advance(1);
      expect(await codes(1)).toEqual(['ok']);
      await restart();
      expect(await counts()).toEqual({ begun: 0, active: 0 });
    });

    it('is not longer than the new rule says', async () => {
      const { clock, take, codes, ban, restart } = await overLimit();
      await ban();
      await restart({ after: 10, milliseconds: 60_000 });
      expect(await take()).toMatchObject({ code: 'banned', retryAfter: 60_000 });
      clock.advance(30_000);
      await restart({ after: 10, milliseconds: 60_000 });
      expect(await take()).toMatchObject({ code: 'banned', retryAfter: 30_000 });
      clock.advance(30_000);
      expect(await codes(1)).toEqual(['ok']);
    });

    it('is ignored if bans are turned off with 0', async () => {
      const { clock, codes, ban, counts, restart } = await overLimit();
      await ban();
      await restart({ after: 0, milliseconds: 300_000 });
      clock.advance(60_000);
      expect(await codes(1)).toEqual(['ok']);
      expect(await counts()).toEqual({ begun: 0, active: 0 });
    });
  });
}
