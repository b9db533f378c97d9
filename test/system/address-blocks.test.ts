import { expect, test } from 'vitest';
import { createAddressMatcher, isAddressBlock } from '../../src/system/address-blocks.ts';

test.each([
  ['10.0.0.0/8', true],
  ['::1', true],
  ['fd00::/8', true],
  ['::ffff:10.0.0.0/104', true],
  ['', false],
  ['localhost', false],
  ['10.0.0', false],
  ['010.0.0.1', false],
  ['10.0.0.0/33', false],
  ['10.0.0.0/x', false],
  ['10.0.0.0/8/8', false],
  ['fe80::1%eth0', false],
])('%j is an address or a CIDR block: %s', (text, isValid) => {
  expect(isAddressBlock(text)).toBe(isValid);
  if (!isValid) expect(() => createAddressMatcher([text])).toThrow(TypeError);
});
