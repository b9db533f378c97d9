import { crc32 } from 'node:zlib';
import { expect, it } from 'vitest';
import { checksum } from '../../src/store/checksum.ts';
import { randomOf } from '../helpers/store-fixtures.ts';

it('is the CRC-32 of zlib, for every length and from every byte on', () => {
  const random = randomOf(1);
  const bytes = Buffer.from(Array.from({ length: 700 }, () => Math.floor(random() * 256)));
  expect(checksum(Buffer.from('123456789'), 0, 9)).toBe(0xcbf43926);
  for (let start = 0; start < 9; start++) {
    for (let end = start; end <= bytes.length; end++) {
      if (checksum(bytes, start, end) !== crc32(bytes.subarray(start, end)))
        expect.fail(`${start} to ${end}`);
    }
  }
});
