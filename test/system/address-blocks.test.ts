import { describe, expect, test } from 'vitest';
import { createAddressMatcher, isAddressBlock } from '../../src/system/address-blocks.ts';

describe('address blocks', () => {
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

  test.each([
    ['10.255.0.1', true],
    ['::ffff:10.0.0.1', true],
    ['fd12::1', true],
    ['192.0.2.7', true],
    ['192.0.2.8', false],
    ['fe80::1%eth0', false],
    ['unknown', false],
    ['', false],
  ])('%j is in 10.0.0.0/8, 192.0.2.7 or fd00::/8: %s', (address, isInside) => {
    expect(createAddressMatcher(['10.0.0.0/8', '192.0.2.7', 'fd00::/8'])(address)).toBe(isInside);
  });
});
