import fc from 'fast-check';
import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { decodeIdempotencyKey, encodeIdempotencyKey, IdempotencyKey } from '../../src/contract/headers.ts';

test('decoding an encoded key returns the key', () => {
  const keys = fc.stringMatching(/^[\x20-\x7e]{1,255}$/);
  fc.assert(
    fc.property(keys, (key) => {
      expect(decodeIdempotencyKey(encodeIdempotencyKey(key))).toBe(key);
    }),
  );
});

test.each([
  ['"a b"', 'a b'],
  ['"a\\"b\\\\"', 'a"b\\'],
  ['8e03978e-40d5-43dd-bc93-6894a57f9324', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
  ["!#$%&'*+-.^_`|~:/=09azAZ", "!#$%&'*+-.^_`|~:/=09azAZ"],
])('%s is decoded as %s', (header, key) => expect(decodeIdempotencyKey(header)).toBe(key));

test.each(['', 'é', '\n', 'x'.repeat(256)])('%j is not a valid key', (key) =>
  expect(z.safeParse(IdempotencyKey, key).success).toBe(false),
);
