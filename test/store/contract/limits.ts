import { expect, it } from 'vitest';
import { MAX_QUOTA, type Quota } from '../../../src/contract/api.ts';
import { hashKey } from '../../../src/store/keys.ts';
import type { BanRule, RateLimitDecision } from '../../../src/store/limiter.ts';
import { randomOf } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

const [SECOND, MINUTE, DAY] = [1_000, 60_000, 86_400_000];
const CALLERS = ['a', 'b', 'c'].map(hashKey);
const QUOTAS: Quota[] = [
  { perMinute: 3, perDay: 1_000 },
  { perMinute: 9, perDay: 1 },
  { perMinute: 60, perDay: 3 },
  { perMinute: 3, perDay: 3 },
  { perMinute: 4, perDay: 6 },
  { perMinute: MAX_QUOTA, perDay: MAX_QUOTA },
];
const RULES: BanRule[] = [
  { after: 10, milliseconds: 300_000 },
  { after: 3, milliseconds: 60_000 },
  { after: 2, milliseconds: 4_000 },
  { after: 0, milliseconds: 5_000 },
];

/** What a limiter must do (docs/service.md 8.2 to 8.4, D8 and D9). */
class Model {
  begun = 0;
  #callers = new Map<string, ReturnType<typeof newCaller>>();

  /** Resets the windows and the ban of the caller that have ended at `now`, and returns the caller. */
  of(name: string, now: number) {
    const caller = this.#callers.get(name) ?? newCaller();
    this.#callers.set(name, caller);
    for (const [window, length] of [[caller.minute, MINUTE] as const, [caller.day, DAY] as const]) {
      if (now >= window.endsAt) Object.assign(window, { used: 0, endsAt: now - (now % length) + length });
    }
    if (caller.bannedUntil !== undefined && now >= caller.bannedUntil) caller.bannedUntil = undefined;
    return caller;
  }

  peek(name: string, { perMinute, perDay }: Quota, now: number): RateLimitDecision {
    const caller = this.of(name, now);
    const left = (limit: number, { used, endsAt }: typeof caller.day) => ({
      limit,
      remaining: Math.max(0, limit - used),
      resetAt: endsAt,
    });
    const windows = { minute: left(perMinute, caller.minute), day: left(perDay, caller.day) };
    // The window with fewer requests left; if both have as many, the one that ends later.
    const window = windows.minute.remaining < windows.day.remaining ? windows.minute : windows.day;
    const retryAt = caller.bannedUntil ?? (window.remaining === 0 ? window.resetAt : undefined);
    if (retryAt === undefined) return { window, windows, now };
    if (caller.bannedUntil === undefined) return { window, windows, now, retryAt };
    return { window: { ...window, remaining: 0, resetAt: retryAt }, windows, now, retryAt, banned: true };
  }

  take(name: string, quota: Quota, now: number, rule: BanRule): RateLimitDecision {
    const caller = this.of(name, now);
    const decision = this.peek(name, quota, now);
    if (decision.banned) return decision;
    if (decision.retryAt === undefined) {
      caller.minute.used++;
      caller.day.used++;
      const { retryAt: _, ...accepted } = this.peek(name, quota, now);
      return accepted;
    }
    if (caller.first?.resetAt !== decision.retryAt) caller.first = { resetAt: decision.retryAt, at: now };
    // Requests within a second after the first 429 may have been sent before it arrived, so they do not count.
    if (now - caller.first.at < SECOND) return decision;
    caller.counted = [...caller.counted.filter((at) => now - at < MINUTE), now];
    if (rule.after === 0 || caller.counted.length < rule.after) return decision;
    Object.assign(caller, { counted: [], bannedUntil: now + rule.milliseconds });
    this.begun++;
    return this.peek(name, quota, now);
  }

  lift(name: string, now: number): void {
    Object.assign(this.of(name, now), { counted: [], first: undefined, bannedUntil: undefined });
  }

  restart(rule: BanRule, now: number): void {
    this.begun = 0;
    for (const caller of this.#callers.values()) {
      if (rule.after === 0) caller.bannedUntil = undefined;
      else if (caller.bannedUntil) caller.bannedUntil = Math.min(caller.bannedUntil, now + rule.milliseconds);
    }
  }

  bans(now: number): Map<string, number> {
    const bans = CALLERS.map((name) => [name, this.of(name, now).bannedUntil] as const);
    return new Map(bans.flatMap(([name, until]) => (until === undefined ? [] : [[name, until]])));
  }

  usage(now: number) {
    return CALLERS.map((name) => {
      const { minute, day, bannedUntil } = this.of(name, now);
      return { minute, day, bannedUntil };
    });
  }

  forget = () => this.#callers.clear();
}

const newCaller = () => ({
  minute: { used: 0, endsAt: 0 },
  day: { used: 0, endsAt: 0 },
  /** The first refused request in the window that ends at `resetAt`. */
  first: undefined as { resetAt: number; at: number } | undefined,
  /** The times of the refused requests that count towards a ban. */
  counted: [] as number[],
  bannedUntil: undefined as number | undefined,
});

export function describeLimits({ newPlace }: Places): void {
  const seeds = 15;

  it(`a limiter counts and bans exactly, whatever callers do: ${seeds} seeds`, async () => {
    const { clock, location, open } = await newPlace('2026-11-20T23:57:10Z');
    const seen = { accepted: 0, refused: 0, banned: 0, restarts: 0, lifted: 0 };
    for (let seed = 0; seed < seeds; seed++) {
      const random = randomOf(seed);
      const upTo = (limit: number) => Math.floor(random() * limit);
      const pick = <T>(values: readonly T[]) => values[upTo(values.length)] as T;
      let rule = pick(RULES);
      let backend = await open(rule);
      const model = new Model();
      const usual = pick(QUOTAS);
      for (let step = 0; step < 40; step++) {
        const toMinute = MINUTE - (clock.now() % MINUTE);
        const edges = [
          toMinute - 1,
          toMinute,
          DAY - (clock.now() % DAY),
          rule.milliseconds - 1,
          rule.milliseconds,
        ];
        clock.advance(pick([0, 0, 1, 999, 1_000, upTo(3_000), upTo(70_000), 6_666, pick(edges)]));
        const now = clock.now();
        const where = `seed ${seed}, step ${step}`;
        const { limiter } = backend;
        const [caller, quota] = [
          random() < 0.6 ? CALLERS[0] : pick(CALLERS),
          random() < 0.8 ? usual : pick(QUOTAS),
        ];
        const name = caller as string;
        const action = random();
        if (action < 0.7) {
          const count = pick([1, 1, 2, 4, 9, 10, 30]);
          const expected = Array.from({ length: count }, () => model.take(name, quota, now, rule));
          const taken = await Promise.all(expected.map(() => limiter.take(name, quota)));
          expect(taken, where).toEqual(expected);
          for (const { banned, retryAt } of taken)
            seen[banned ? 'banned' : retryAt === undefined ? 'accepted' : 'refused']++;
        } else if (action < 0.85) {
          const peeked = await Promise.all([1, 2, 3].map(() => limiter.peek(name, quota)));
          expect(peeked, where).toEqual(Array(3).fill(model.peek(name, quota, now)));
          expect(await limiter.usage(CALLERS), where).toEqual(model.usage(now));
          expect(await backend.banCounts()).toEqual({ begun: model.begun, active: model.bans(now).size });
        } else {
          const [lifted = name] = model.bans(now).keys();
          if (random() < 0.4) {
            if (model.bans(now).has(lifted)) {
              seen.lifted++;
              model.lift(lifted, now);
            }
            await limiter.liftBan(lifted);
          }
          if (random() < 0.3) continue;
          seen.restarts += model.bans(now).size;
          const stored = [...(await location.manageKeys((keys) => keys.bans()))];
          expect(new Map(stored.filter(([, until]) => until > now)), where).toEqual(model.bans(now));
          await backend.close();
          rule = pick(RULES);
          backend = await open(rule);
          model.restart(rule, now);
          // Not every store keeps the windows when it is closed, so only the bans are compared.
          const usage = await backend.limiter.usage(CALLERS);
          expect(usage.map(({ bannedUntil }) => bannedUntil)).toEqual(
            model.usage(now).map(({ bannedUntil }) => bannedUntil),
          );
          // If the new rule turns bans off, a store may count an earlier ban until its caller sends a request.
          const active = rule.after === 0 ? expect.any(Number) : model.bans(now).size;
          expect(await backend.banCounts()).toEqual({ begun: 0, active });
          for (const [banned, until] of model.bans(now))
            expect(await backend.limiter.take(banned, quota)).toMatchObject({ banned: true, retryAt: until });
          clock.advance(2 * DAY - (now % DAY));
          model.forget();
        }
      }
      await backend.close();
      clock.advance(2 * DAY - (clock.now() % DAY));
    }
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
  });
}
