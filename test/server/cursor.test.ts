import fc from 'fast-check';
import { expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../src/contract/json.ts';
import { decodeCursor, encodeCursor } from '../../src/server/routes.ts';

const ids = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });

test('a cursor decodes to its id and needs no encoding in a URL', () => {
  fc.assert(
    fc.property(ids, (id) => {
      expect(decodeCursor(encodeCursor(id))).toBe(id);
      expect(encodeCursor(id)).toMatch(/^\w+$/);
    }),
  );
});

test('every other text is rejected, or is the only spelling of the id it decodes to', () => {
  fc.assert(
    fc.property(ids, fc.nat(18), fc.constantFrom('', 'A', 'f', 'zz', '=', '%', ' '), (id, at, text) => {
      const cursor = encodeCursor(id);
      const changed = cursor.slice(0, at) + text + cursor.slice(at + 1);
      const decoded = decodeCursor(changed);
      if (decoded !== undefined) expect(encodeCursor(decoded)).toBe(changed);
    }),
  );
});
