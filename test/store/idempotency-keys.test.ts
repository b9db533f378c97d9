import { describe, expect, it } from 'vitest';
import { fingerprintOf } from '../../src/store/fingerprint.ts';
import { IdempotencyKeys } from '../../src/store/journal/idempotency-keys.ts';
import { idempotency, randomOf } from '../helpers/store-fixtures.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SECRET = '5'.repeat(64);
const [BODY, OTHER_BODY] = ['1'.repeat(64), '2'.repeat(64)];

type KeyEntry = { body: string; pet: number; at: number };

/** A reference implementation that never forgets a key. */
class ModelKeys {
  #entries = new Map<string, KeyEntry>();
  inFlight = new Set<string>();

  find(key: string, body: string, now: number): number | 'mismatch' | 'in_flight' | undefined {
    if (this.inFlight.has(key)) return 'in_flight';
    const entry = this.#entries.get(key);
    if (!entry || now - entry.at >= DAY_MS) return undefined;
    return entry.body === body ? entry.pet : 'mismatch';
  }

  add(key: string, entry: KeyEntry): void {
    this.inFlight.delete(key);
    this.#entries.set(key, entry);
  }
}

const hashed = (key: string, bodyHash = BODY) => fingerprintOf(idempotency(key, { bodyHash }), SECRET);

describe('idempotency keys', () => {
  it.each([
    ['thousands of keys', 6_000, 60_000],
    ['keys that are used repeatedly', 40, 20_000],
  ])('are found until they expire, while the clock moves forward: %s', (_, keyCount, steps) => {
    for (const seed of [1, 2, 3]) {
      const random = randomOf(seed);
      const upTo = (limit: number) => Math.floor(random() * limit);
      const [model, keys] = [new ModelKeys(), new IdempotencyKeys()];
      let waiting: { key: string; body: string }[] = [];
      const kinds = new Set<unknown>();
      let now = Date.UTC(2026, 10, 20);
      for (let step = 0, pet = 0; step < steps; step++) {
        const key = String(upTo(keyCount));
        const body = random() < 0.9 ? BODY : OTHER_BODY;
        const found = keys.find(hashed(key, body), now);
        const expected = model.find(key, body, now);
        if (found !== expected) expect.fail(`seed ${seed}, step ${step}: ${found} instead of ${expected}`);
        kinds.add(typeof found === 'number' ? 'replayed' : found);
        if (found === undefined) {
          keys.reserve(hashed(key, body));
          model.inFlight.add(key);
          waiting.push({ key, body });
        }
        const isFailed = random() < 0.05;
        for (const { key, body } of random() < 0.3 ? waiting : []) {
          if (isFailed) {
            keys.release(hashed(key, body));
            model.inFlight.delete(key);
          } else {
            keys.add(hashed(key, body), pet, now, now);
            model.add(key, { body, pet: pet++, at: now });
          }
          waiting = [];
        }
        const chance = random();
        if (chance < 0.5) now += upTo(10_000);
        else if (chance < 0.502) now += upTo(20 * HOUR_MS);
      }
      expect(kinds).toEqual(new Set([undefined, 'in_flight', 'mismatch', 'replayed']));
    }
  });

  it('are kept for a day of the clock, also if the clock was set back meanwhile', () => {
    const keys = new IdempotencyKeys();
    for (let hour = 0; hour < 100; hour++) {
      const now = hour * HOUR_MS;
      keys.add(hashed(`k${hour}`), hour, now, now);
    }
    const now = 60 * HOUR_MS;
    for (let hour = 0; hour < 50; hour++) keys.add(hashed(`later${hour}`), 100 + hour, now, now);
    // Keys from the time before the clock was set back have times in the future.
    for (let hour = 77; hour < 100; hour++) expect(keys.find(hashed(`k${hour}`), now)).toBe(hour);
    for (let hour = 0; hour < 50; hour++) expect(keys.find(hashed(`later${hour}`), now)).toBe(100 + hour);
  });

  it('that have expired are forgotten, so that there is room for new ones', () => {
    const keys = new IdempotencyKeys(4);
    const add = (name: string, day: number) => keys.add(hashed(name), 0, day * DAY_MS, day * DAY_MS);
    for (const name of ['a', 'b', 'c']) add(name, 0);
    expect(keys.hasRoom(0)).toBe(true);
    keys.reserve(hashed('d'));
    expect(keys.hasRoom(0)).toBe(false);
    keys.release(hashed('d'));
    for (let day = 1; day < 10; day++) add(`day ${day}`, day);
    expect(keys.hasRoom(9 * DAY_MS)).toBe(true);
    expect([...keys.byPet(9 * DAY_MS)]).toEqual([[0, expect.objectContaining({ at: 9 * DAY_MS })]]);
  });
});

describe('a full set of idempotency keys', () => {
  it.each([24, 48, 240])('has room again after %i hours, although no key was added meanwhile', (hours) => {
    const keys = new IdempotencyKeys(4);
    for (const name of ['a', 'b', 'c', 'd']) keys.add(hashed(name), 0, 0, 0);
    expect(keys.hasRoom(24 * HOUR_MS - 1)).toBe(false);
    expect(keys.hasRoom(hours * HOUR_MS)).toBe(true);
    keys.add(hashed('e'), 1, hours * HOUR_MS, hours * HOUR_MS);
    expect(keys.find(hashed('e'), hours * HOUR_MS)).toBe(1);
  });
});

describe('fingerprintOf', () => {
  const of = (scope: string, key: string, { bodyHash = BODY, secret = SECRET } = {}) =>
    Object.values(fingerprintOf({ scope, key, bodyHash }, secret)).join(' ');

  it('differs for each scope, key, body and store', () => {
    const all = [
      of('a', 'bc'),
      of('ab', 'c'),
      of('', 'abc'),
      of('1:a', 'b'),
      of('1', ':ab'),
      of('a\u0000', 'b'),
      of('a', '\u0000b'),
      of('a', '\ud800'),
      of('a', '\udbff'),
      of('a', 'bc', { bodyHash: `${'1'.repeat(31)}2${'1'.repeat(32)}` }),
      of('a', 'bc', { bodyHash: `2${'1'.repeat(63)}` }),
      of('a', 'bc', { secret: '6'.repeat(64) }),
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(of('a', 'bc')).toBe(all[0]);
  });
});
