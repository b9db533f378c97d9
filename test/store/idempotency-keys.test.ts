import { expect, it } from 'vitest';
import { IdempotencyKeys } from '../../src/store/journal/journal.ts';
import { fingerprintOf } from '../../src/store/store.ts';
import { idempotency } from '../helpers/store-fixtures.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SECRET = '5'.repeat(64);
const BODY = '1'.repeat(64);

const hashed = (key: string, bodyHash = BODY) => fingerprintOf(idempotency(key, { bodyHash }), SECRET);

it('idempotency keys that have expired are forgotten, so that there is room for new ones', () => {
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

it('a full set of idempotency keys has room again after 24 hours, although no key was added meanwhile', () => {
  for (const hours of [24, 48, 240]) {
    const keys = new IdempotencyKeys(4);
    for (const name of ['a', 'b', 'c', 'd']) keys.add(hashed(name), 0, 0, 0);
    expect(keys.hasRoom(24 * HOUR_MS - 1)).toBe(false);
    expect(keys.hasRoom(hours * HOUR_MS)).toBe(true);
  }
});

it('fingerprintOf differs for each scope, key, body and store', () => {
  const of = (scope: string, key: string, bodyHash = BODY, secret = SECRET) =>
    Object.values(fingerprintOf({ scope, key, bodyHash }, secret)).join(' ');
  const all = [
    of('a', 'bc'),
    of('ab', 'c'),
    of('1:a', 'b'),
    of('1', ':ab'),
    of('a', 'bc', `${'1'.repeat(31)}2${'1'.repeat(32)}`),
    of('a', 'bc', BODY, '6'.repeat(64)),
  ];
  expect(new Set(all).size).toBe(all.length);
  expect(of('a', 'bc')).toBe(all[0]);
});
