import fc from 'fast-check';
import { expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../src/contract/int64.ts';
import { decodeCursor, encodeCursor } from '../../src/server/cursor.ts';

const ids = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });

test('a cursor gives back its id, and says nothing of it', () => {
  fc.assert(
    fc.property(ids, (id) => {
      expect(decodeCursor(encodeCursor(id, 'secret'), 'secret')).toBe(id);
    }),
  );
});

test('a cursor of another store is refused', () => {
  fc.assert(
    fc.property(ids, (id) => {
      expect(decodeCursor(encodeCursor(id, 'other'), 'secret')).toBeUndefined();
    }),
  );
});

test('a cursor with any character changed, dropped or added is refused', () => {
  fc.assert(
    fc.property(ids, fc.nat(26), fc.constantFrom('', 'A', 'zz', '=', '%', ' '), (id, at, text) => {
      const cursor = encodeCursor(id, 'secret');
      const changed = cursor.slice(0, at) + text + cursor.slice(at + 1);
      fc.pre(changed !== cursor);
      expect(decodeCursor(changed, 'secret')).toBeUndefined();
    }),
  );
});

test.each(['07', '+7', '7.0', '7 ', '7=', '', '-0', '0x7', '9223372036854775808'])(
  'only one spelling of a cursor counts: not %j for the id',
  (spelling) => {
    const cursor = encodeCursor(7n, 'secret');
    expect(cursor.endsWith('7')).toBe(true);
    expect(decodeCursor(cursor, 'secret')).toBe(7n);
    expect(decodeCursor(cursor.slice(0, -1) + spelling, 'secret')).toBeUndefined();
  },
);
