import { describe, expect, it } from 'vitest';
import { type Fingerprint, fingerprintOf, IdempotencyKeys } from '../../src/store/idempotency.ts';
import { idempotency, randomOf } from '../helpers/store-fixtures.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SECRET = '5'.repeat(64);
const [BODY, OTHER_BODY] = ['1'.repeat(64), '2'.repeat(64)];

type Known = { body: string; position: number; at: number };

/** The same in a Map, and a queue of what it will forget. */
class Model {
  #known = new Map<string, Known>();
  #writing = new Set<string>();
  #queue: { key: string; entry: Known }[] = [];

  find(key: string, body: string, now: number): number | 'mismatch' | 'in_flight' | undefined {
    for (let first = this.#queue[0]; first && now - first.entry.at >= DAY_MS; first = this.#queue[0]) {
      if (this.#known.get(first.key) === first.entry) this.#known.delete(first.key);
      this.#queue.shift();
    }
    if (this.#writing.has(key)) return 'in_flight';
    const entry = this.#known.get(key);
    if (!entry || now - entry.at >= DAY_MS) return undefined;
    return entry.body === body ? entry.position : 'mismatch';
  }

  begin(key: string): void {
    this.#writing.add(key);
  }

  remember(key: string, entry: Known): void {
    this.#writing.delete(key);
    this.#known.set(key, entry);
    this.#queue.push({ key, entry });
  }
}

const hashed = (key: string, bodyHash: string) => fingerprintOf(idempotency(key, { bodyHash }), SECRET);
/** All keys in a few buckets, and alike but for one word. */
const colliding = (key: string, bodyHash: string): Fingerprint => {
  const words = new Uint32Array(8).fill(2 ** 32 - 1);
  words[0] = (Number(key) % 3) * 2 ** 20;
  words[1 + (Number(key) % 3)] = Number(key);
  return words.fill(bodyHash === BODY ? 1 : 0, 7);
};

describe('the table of idempotency keys', () => {
  it.each([
    ['keys by the thousand', hashed, 6_000, 60_000],
    ['keys that are used again and again', hashed, 40, 20_000],
    ['keys that meet in three buckets', colliding, 300, 20_000],
  ])('answers as a Map does, whatever the clock: %s', (_, fingerprint, keyCount, steps) => {
    for (const seed of [1, 2, 3]) {
      const random = randomOf(seed);
      const upTo = (limit: number) => Math.floor(random() * limit);
      const model = new Model();
      const table = new IdempotencyKeys();
      const writing: { key: string; body: string; entry: number }[] = [];
      const outcomes = new Set<unknown>();
      let now = Date.UTC(2026, 10, 20);
      for (let step = 0, position = 0; step < steps; step++) {
        const key = String(upTo(keyCount));
        const body = random() < 0.9 ? BODY : OTHER_BODY;
        const found = table.find(fingerprint(key, body), now);
        const expected = model.find(key, body, now);
        if (found !== expected) expect.fail(`seed ${seed}, step ${step}: ${found} is not ${expected}`);
        outcomes.add(typeof found === 'number' ? 'replayed' : found);
        if (found === undefined) {
          model.begin(key);
          writing.push({ key, body, entry: table.begin(fingerprint(key, body)) });
        }
        const done = random() < 0.3 ? writing.splice(0) : [];
        for (const { key, body, entry } of done) {
          table.remember(entry, position, now);
          model.remember(key, { body, position: position++, at: now });
        }
        const chance = random();
        if (chance < 0.5) now += upTo(10_000);
        else if (chance < 0.501) now -= upTo(10 * HOUR_MS);
        else if (chance < 0.502) now += upTo(20 * HOUR_MS);
      }
      expect(outcomes).toEqual(new Set([undefined, 'in_flight', 'mismatch', 'replayed']));
    }
  });

  it('holds a hundred thousand keys of one moment, each until its day is over', () => {
    const table = new IdempotencyKeys();
    const keys = Array.from({ length: 100_000 }, (_, i) => hashed(`k${i}`, BODY));
    keys.forEach((key, i) => void table.remember(table.begin(key), i, i));
    const late = new IdempotencyKeys();
    keys.forEach((key, i) => void late.remember(late.begin(key), i, i));
    keys.forEach((key, i) => void (table.find(key, DAY_MS - 1) === i || expect.fail(`key ${i}`)));
    const half = DAY_MS + 50_000;
    keys.forEach((key, i) => {
      const expected = i <= 50_000 ? undefined : i;
      if (table.find(key, half) !== expected || late.find(key, half) !== expected) expect.fail(`key ${i}`);
    });
    expect(table.find(hashed('k99999', BODY), half + 50_000)).toBeUndefined();
  });

  it('keeps times to the millisecond', () => {
    const table = new IdempotencyKeys();
    const at = Date.UTC(2026, 10, 20, 12, 0, 0, 1);
    table.remember(table.begin(hashed('k', BODY)), 7, at);
    expect([at + DAY_MS - 1, at + DAY_MS].map((now) => table.find(hashed('k', BODY), now))).toEqual([
      7,
      undefined,
    ]);
  });
});

describe('a fingerprint', () => {
  const of = (scope: string, key: string, more: { bodyHash?: string; secret?: string } = {}) =>
    fingerprintOf({ scope, key, bodyHash: more.bodyHash ?? BODY }, more.secret ?? SECRET).join();

  it('differs for each scope, key, body and store', () => {
    const all = [
      of('a', 'bc'),
      of('ab', 'c'),
      of('', 'abc'),
      of('1:a', 'b'),
      of('1', ':ab'),
      of('a', '\ud800'),
      of('a', '\udbff'),
      of('a', 'bc', { bodyHash: `${'1'.repeat(31)}2${'1'.repeat(32)}` }),
      of('a', 'bc', { bodyHash: `2${'1'.repeat(63)}` }),
      of('a', 'bc', { secret: '6'.repeat(64) }),
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(of('a', 'bc')).toBe(all[0]);
  });

  it('is the first half of two SHA-256', () => {
    const words = fingerprintOf({ scope: 'a', key: 'k', bodyHash: `0123456789abcdef${'0'.repeat(48)}` }, 's');
    // printf 's1:ak' | iconv -t UTF-16LE | sha256sum
    expect(Array.from(words, (word) => word.toString(16).padStart(8, '0')).join(' ')).toBe(
      '53a7969a 4c056185 ed5a339e 4654a2c3 01234567 89abcdef 00000000 00000000',
    );
  });
});
