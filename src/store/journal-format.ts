import * as z from 'zod/mini';
import { tryParseJson } from '../contract/json.ts';
import { checksum } from './checksum.ts';
import { StoreDamagedError, StoreError } from './errors.ts';
import { type Fingerprint, WORDS_OF_KEY } from './idempotency.ts';
import type { OrderJson, PetJson } from './store.ts';
import { Instant } from './stored-json.ts';

/*
 * The journal is lines of JSON, one for each synced batch. Every line begins with the CRC-32 of what follows it:
 *
 *   {"crc":"1c291ca3","seq":0,"format":1,"id":"…","secret":"…","created":"2026-11-20T00:00:00.000Z"}
 *   {"crc":"…","seq":1,"at":1795132800000,"pets":[{"id":1,…},{"id":2,…}],"keys":[{"pet":0,"key":"…","body":"…"}]}
 *   {"crc":"…","seq":2,"at":1795132800000,"order":{…}}
 *
 * `key` and `body` are those of an idempotency key: the first 128 bits, hexadecimal, of two SHA-256 (see fingerprintOf).
 * No JSON string can hold `{"crc":"` or `{"id":` as bytes (its quotes are escaped), so both mark a beginning.
 */

export const FORMAT = 1;
export const NEWLINE = 0x0a;
/** What every record begins with; the checksum's eight digits and `",` come next. */
export const MARK = Buffer.from('{"crc":"');
/** The bytes before those that the checksum covers. */
export const PREFIX_LENGTH = 18;
/** No line is longer, in bytes: a reader gives up there. */
export const MAX_LINE_BYTES = 16 * 2 ** 20;
/** A record that would need more bytes is refused. */
const MAX_RECORD_BYTES = MAX_LINE_BYTES / 2;
/** What an idempotency key takes in a line, at most. */
const KEY_BYTES = 110;

/** The value of each byte that is a lower-case hexadecimal digit; -1 for the others. */
const HEX_DIGITS = Int8Array.from({ length: 256 }, (_, byte) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(byte)),
);

/** What makes a store this one. `secret` is hexadecimal, `created` an instant of ISO 8601. */
export type Header = { id: string; secret: string; created: string };

/** An animal on its way into the journal. */
export type Entry = { text: PetJson; fingerprint?: Fingerprint | undefined };

/** A line, where the text of its first animal begins in it, and where that of each ends. */
export type Batch = { line: Buffer; start: number; ends: number[] };

const AnyHeader = z.object({ seq: z.literal(0), format: z.int() });
const HeaderLine = z.object({
  id: z.uuid(),
  secret: z.string().check(z.regex(/^[0-9a-f]{64}$/)),
  created: Instant,
});

export function encodeHeader(header: Header): Buffer {
  const { id, secret, created } = header;
  return seal(`"seq":0,${JSON.stringify({ format: FORMAT, id, secret, created }).slice(1)}`);
}

/** @throws StoreDamagedError, naming `file` */
export function decodeHeader(line: Buffer, file: string): Header {
  const value = isRecord(line, 0, line.length) ? tryParseJson(line.toString()) : undefined;
  const kind = AnyHeader.safeParse(value);
  if (kind.success && kind.data.format !== FORMAT) {
    throw new StoreDamagedError(
      `${file} has format ${kind.data.format}, and this version reads format ${FORMAT}`,
      'use the version of pets that wrote it',
    );
  }
  const header = HeaderLine.safeParse(value);
  if (!kind.success || !header.success) {
    throw new StoreDamagedError(
      `${file} is damaged at byte 0: its first line is not that of a journal`,
      'restore the file from a backup, or move it away to begin an empty store; it was not changed',
    );
  }
  return header.data;
}

/** One line for all of `entries`. `at` is in milliseconds since 1970. */
export function encodeBatch(seq: number, at: number, entries: readonly Entry[]): Batch {
  const head = `"seq":${seq},"at":${at},"pets":[`;
  const start = PREFIX_LENGTH + head.length;
  const ends: number[] = [];
  const keys: string[] = [];
  let end = start - 1;
  entries.forEach(({ text, fingerprint }, pet) => {
    end += 1 + Buffer.byteLength(text);
    ends.push(end);
    if (fingerprint) {
      const key = hexOf(fingerprint.subarray(0, WORDS_OF_KEY));
      keys.push(`{"pet":${pet},"key":"${key}","body":"${hexOf(fingerprint.subarray(WORDS_OF_KEY))}"}`);
    }
  });
  const texts = entries.map(({ text }) => text).join(',');
  const line = seal(`${head}${texts}]${keys.length > 0 ? `,"keys":[${keys.join(',')}]` : ''}}`);
  return { line, start, ends };
}

export function encodeOrder(seq: number, at: number, order: OrderJson): Buffer {
  return seal(`"seq":${seq},"at":${at},"order":${order}}`);
}

/**
 * The bytes that an animal or an order takes in a line.
 *
 * @throws StoreError where no line would hold it
 */
export function recordBytes(text: string, fingerprint?: Fingerprint): number {
  const bytes = Buffer.byteLength(text) + (fingerprint ? KEY_BYTES : 0) + 1;
  if (bytes > MAX_RECORD_BYTES) {
    throw new StoreError(
      `a record of ${bytes} bytes is too long for the store`,
      `keep each below ${MAX_RECORD_BYTES} bytes`,
    );
  }
  return bytes;
}

/** Whether the bytes from `start` to `end`, a line without its newline, are what was once written. */
export function isRecord(bytes: Buffer, start: number, end: number): boolean {
  const rest = start + PREFIX_LENGTH;
  if (end <= rest || bytes[rest - 2] !== 0x22 || bytes[rest - 1] !== 0x2c || bytes[end - 1] !== 0x7d)
    return false;
  for (let i = 0; i < MARK.length; i++) if (bytes[start + i] !== MARK[i]) return false;
  return hex32(bytes, start + MARK.length) === checksum(bytes, rest, end);
}

function seal(rest: string): Buffer {
  const line = Buffer.from(`{"crc":"00000000",${rest}\n`);
  const sum = checksum(line, PREFIX_LENGTH, line.length - 1);
  line.write(sum.toString(16).padStart(8, '0'), MARK.length, 'latin1');
  return line;
}

const hexOf = (words: Fingerprint) =>
  Array.from(words, (word) => word.toString(16).padStart(8, '0')).join('');

/** Eight lower-case hexadecimal digits, or -1. */
export function hex32(bytes: Buffer, start: number): number {
  let value = 0;
  let all = 0;
  for (let i = start; i < start + 8; i++) {
    const digit = HEX_DIGITS[bytes[i] ?? 0] ?? -1;
    value = (value << 4) | digit;
    all |= digit;
  }
  return all < 0 ? -1 : value >>> 0;
}
