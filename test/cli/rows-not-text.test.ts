import { expect, test } from 'vitest';
import { utf8Text } from '../../src/cli/rows/input-file.ts';

const text = 'name,category\nRex,1\n';
const utf16 = 'is not UTF-8 text (it looks like UTF-16)';
const latin = 'is not UTF-8 text (it looks like Windows-1252)';
const workbook = 'is a workbook or an archive, not text';

test.each([
  ['Latin-1', Buffer.from('name,category\nFürst,1\n', 'latin1'), latin],
  ['Latin-1 in the first letters', Buffer.from('"ü"', 'latin1'), latin],
  ['UTF-16 with a byte order mark', Buffer.from(`\ufeff${text}`, 'utf16le'), utf16],
  ['UTF-16, big-endian, with a byte order mark', Buffer.from(`\ufeff${text}`, 'utf16le').swap16(), utf16],
  ['UTF-16', Buffer.from(text, 'utf16le'), utf16],
  ['UTF-16, big-endian', Buffer.from(text, 'utf16le').swap16(), utf16],
  ['UTF-16 after a line end', Buffer.from('\r\n[]', 'utf16le'), utf16],
  ['a workbook (.xlsx, .ods)', Buffer.from('PK\x03\x04\x14\0\x06\0\x08\0'), workbook],
  ['a workbook (.xls)', Buffer.from('d0cf11e0a1b11ae1', 'hex'), workbook],
  [
    'a truncated character',
    Buffer.from(`${text}🐈`).subarray(0, -1),
    'is not UTF-8 text (it ends in the middle of a character)',
  ],
  ['binary data', Buffer.from('1f8b0800000000000003abaaa8', 'hex'), 'is not UTF-8 text'],
])('input that is not UTF-8 text is refused with a guess at its format: %s', (_, bytes, message) => {
  expect(() => utf8Text(bytes, 'FILE', 'csv')).toThrow(
    expect.objectContaining({ message: `FILE ${message}` }),
  );
});
