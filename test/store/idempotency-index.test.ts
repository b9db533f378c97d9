import { describe, expect, it } from 'vitest';
import { fingerprintOf, IdempotencyIndex } from '../../src/store/index/idempotency-index.ts';
import { idempotency, randomOf } from '../helpers/store-fixtures.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SECRET = '5'.repeat(64);
const [BODY, OTHER_BODY] = ['1'.repeat(64), '2'.repeat(64)];

/** A reference to the nth response. */
const ref = (n: number) => ({ chunk: n % 3, start: n, length: n + 100 });

type KeyEntry = { body: string; response: number; at: number };

/** A reference implementation with a Map, and a queue of the keys that will expire. */
class ModelIndex {
  #entries = new Map<string, KeyEntry>();
  #inFlight = new Set<string>();
  #queue: { key: string; entry: KeyEntry }[] = [];

  find(key: string, body: string, now: number): number | 'mismatch' | 'in_flight' | undefined {
    for (let first = this.#queue[0]; first && now - first.entry.at >= DAY_MS; first = this.#queue[0]) {
      if (this.#entries.get(first.key) === first.entry) this.#entries.delete(first.key);
      this.#queue.shift();
    }
    if (this.#inFlight.has(key)) return 'in_flight';
    const entry = this.#entries.get(key);
    if (!entry || now - entry.at >= DAY_MS) return undefined;
    return entry.body === body ? entry.response : 'mismatch';
  }

  reserve(key: string): void {
    this.#inFlight.add(key);
  }

  complete(key: string, entry: KeyEntry): void {
    this.#inFlight.delete(key);
    this.#entries.set(key, entry);
    this.#queue.push({ key, entry });
  }
}

const hashed = (key: string, bodyHash: string) => fingerprintOf(idempotency(key, { bodyHash }), SECRET).words;
/**
 * Fingerprints that all fall into one bucket and have one of three first words. Two with equal bodies and equal first
 * words differ in only one other word.
 */
const colliding = (key: string, bodyHash: string): number[] => {
  const words = Array<number>(8).fill(2 ** 32 - 1);
  words[0] = (Number(key) % 3) * 2 ** 20;
  words[1 + (Number(key) % 3)] = Number(key);
  return words.fill(bodyHash === BODY ? 1 : 0, 7);
};

describe('IdempotencyIndex', () => {
  it.each([
    ['thousands of keys', hashed, 6_000, 60_000],
    ['keys that are used repeatedly', hashed, 40, 20_000],
    ['keys that all fall into one bucket', colliding, 300, 20_000],
  ])('gives the same results as a Map while the clock moves: %s', (_, fingerprint, keyCount, steps) => {
    for (const seed of [1, 2, 3]) {
      const random = randomOf(seed);
      const upTo = (limit: number) => Math.floor(random() * limit);
      const model = new ModelIndex();
      const index = new IdempotencyIndex();
      const inFlight: { key: string; body: string; entry: number }[] = [];
      const kinds = new Set<unknown>();
      let now = Date.UTC(2026, 10, 20);
      for (let step = 0, response = 0; step < steps; step++) {
        const key = String(upTo(keyCount));
        const body = random() < 0.9 ? BODY : OTHER_BODY;
        const result = index.find(fingerprint(key, body), now);
        const found = typeof result === 'object' ? result.start : result;
        const expected = model.find(key, body, now);
        if (found !== expected) expect.fail(`seed ${seed}, step ${step}: ${found} instead of ${expected}`);
        kinds.add(typeof found === 'number' ? 'replayed' : found);
        if (found === undefined) {
          model.reserve(key);
          inFlight.push({ key, body, entry: index.reserve(fingerprint(key, body)) });
        }
        const completed = random() < 0.3 ? inFlight.splice(0) : [];
        for (const { key, body, entry } of completed) {
          index.complete(entry, ref(response), now);
          model.complete(key, { body, response: response++, at: now });
        }
        const chance = random();
        if (chance < 0.5) now += upTo(10_000);
        else if (chance < 0.501) now -= upTo(10 * HOUR_MS);
        else if (chance < 0.502) now += upTo(20 * HOUR_MS);
      }
      expect(kinds).toEqual(new Set([undefined, 'in_flight', 'mismatch', 'replayed']));
    }
  });

  it('finds a hundred thousand keys until each expires', () => {
    const keys = Array.from({ length: 100_000 }, (_, i) => hashed(`k${i}`, BODY));
    const build = () => {
      const index = new IdempotencyIndex();
      keys.forEach((key, i) => void index.complete(index.reserve(key), ref(i), i));
      return index;
    };
    const index = build();
    // The first search puts the keys of this index into buckets, after half of the keys have expired.
    const lateIndex = build();
    const check = (tested: IdempotencyIndex, now: number, isExpired: (i: number) => boolean) =>
      keys.forEach((key, i) => {
        const result = tested.find(key, now);
        const found = typeof result === 'object' ? result.start : result;
        if (found !== (isExpired(i) ? undefined : i)) expect.fail(`key ${i}: ${found}`);
      });
    check(index, DAY_MS - 1, () => false);
    for (const each of [index, lateIndex]) check(each, DAY_MS + 50_000, (i) => i <= 50_000);
    expect(index.find(hashed('k99999', BODY), DAY_MS + 100_000)).toBeUndefined();
  });

  it('keeps response references and times exactly', () => {
    const index = new IdempotencyIndex();
    const at = Date.UTC(2026, 10, 20, 12, 0, 0, 1);
    const response = { chunk: 2 ** 32 - 2, start: 2 ** 32 - 1, length: 2 ** 31 };
    index.complete(index.reserve(hashed('k', BODY)), response, at);
    expect(index.find(hashed('k', BODY), at + DAY_MS - 1)).toEqual(response);
    expect(index.find(hashed('k', BODY), at + DAY_MS)).toBeUndefined();
  });
});

describe('fingerprintOf', () => {
  const of = (scope: string, key: string, { bodyHash = BODY, secret = SECRET } = {}) =>
    fingerprintOf({ scope, key, bodyHash }, secret).hex;

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
