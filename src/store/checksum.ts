import { crc32 } from 'node:zlib';

/** Below this many bytes a loop is done before a call into the runtime would have begun. */
const SHORT_BYTES = 300;
const STEP = 8;
const REVERSED_POLYNOMIAL = 0xedb88320;
/** For each number of zero bytes behind it, up to seven, what becomes of a byte. */
const TABLE = makeTable();

/** The CRC-32 of the bytes from `start` to `end`, as zlib has it. A journal may be a million short lines. */
export function checksum(bytes: Buffer, start: number, end: number): number {
  if (end - start > SHORT_BYTES) return crc32(bytes.subarray(start, end));
  let crc = -1;
  let at = start;
  for (; at + STEP <= end; at += STEP) {
    crc ^= word(bytes, at);
    const next = word(bytes, at + 4);
    crc =
      look(crc, 7) ^
      look(crc >>> 8, 6) ^
      look(crc >>> 16, 5) ^
      look(crc >>> 24, 4) ^
      look(next, 3) ^
      look(next >>> 8, 2) ^
      look(next >>> 16, 1) ^
      look(next >>> 24, 0);
  }
  for (; at < end; at++) crc = look(crc ^ (bytes[at] ?? 0), 0) ^ (crc >>> 8);
  return ~crc >>> 0;
}

const word = (bytes: Buffer, at: number): number =>
  (bytes[at] ?? 0) |
  ((bytes[at + 1] ?? 0) << 8) |
  ((bytes[at + 2] ?? 0) << 16) |
  ((bytes[at + 3] ?? 0) << 24);

const look = (byte: number, zeros: number): number => TABLE[(zeros << 8) | (byte & 0xff)] ?? 0;

function makeTable(): Int32Array {
  const table = new Int32Array(STEP << 8);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? REVERSED_POLYNOMIAL ^ (crc >>> 1) : crc >>> 1;
    table[byte] = crc;
  }
  for (let i = 256; i < table.length; i++) {
    const before = table[i - 256] ?? 0;
    table[i] = (before >>> 8) ^ (table[before & 0xff] ?? 0);
  }
  return table;
}
