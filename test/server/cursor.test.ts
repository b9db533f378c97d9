import fc from 'fast-check';
import { expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../src/contract/json.ts';
import { decodeCursor, encodeCursor } from '../../src/server/routes.ts';

test('a cursor decodes to its id and needs no encoding in a URL; a changed one is rejected, or is that of another id', () => {
  const ids = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
  fc.assert(
    fc.property(ids, fc.nat(18), fc.constantFrom('', 'A', 'f', 'zz', '=', '%', ' '), (id, at, text) => {
      const cursor = encodeCursor(id);
      expect(decodeCursor(cursor)).toBe(id);
      expect(cursor).toMatch(/^\w+$/);
      const changed = cursor.slice(0, at) + text + cursor.slice(at + 1);
      const decoded = decodeCursor(changed);
      if (decoded !== undefined) expect(encodeCursor(decoded)).toBe(changed);
    }),
  );
});
