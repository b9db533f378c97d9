import { randomBytes, randomUUID } from 'node:crypto';
import * as z from 'zod/mini';
import { tryParseJson } from '../../contract/json.ts';
import type { PetStatus } from '../../contract/schemas.ts';
import { newerVersionError, StoreDamagedError, StoreError } from '../errors.ts';
import type { Fingerprint } from '../index/idempotency-index.ts';
import type { PackedPets } from '../index/pet-index.ts';
import type { OrderJson, PetJson } from '../store.ts';
import { Instant } from '../stored-json.ts';
import { checksum } from './checksum.ts';

/*
 * The journal is a file of JSON lines: a header, then one record per synced batch of animals or per order. The checksum
 * `crc` is the CRC-32 of the bytes from `"seq"` to the end of the line, without the newline:
 *
 *   {"crc":"1c291ca3","seq":0,"format":1,"id":"…","secret":"…","created":"2026-11-20T00:00:00.000Z"}
 *   {"crc":"…","seq":1,"at":1795132800000,"pets":[{"id":1,…},{"id":2,…}],"keys":[{"pet":0,"key":"…","body":"…"}]}
 *   {"crc":"…","seq":2,"at":1795132800000,"order":{…}}
 *   {"crc":"…","seq":3,"at":1795132800000,"lastId":7}
 *
 * `at` is in milliseconds since 1970. An entry of `keys` is the idempotency key with which `pets[pet]` was created:
 * `key` and `body` are the two halves of its fingerprint. The text of that animal is the response to a replay. `lastId` is
 * the last id of a damaged line that was removed: ids up to it are not issued again.
 *
 * A later version may add fields to any of these lines; older versions ignore them. It may also add records with
 * another field in place of `pets`, `order` and `lastId`; older versions refuse to read these.
 */

const FORMAT = 1;
export const NEWLINE = 0x0a;
/** The start of every line. A JSON string cannot contain these bytes, because quotes in a string are escaped. */
export const RECORD_PREFIX = Buffer.from('{"crc":"');
/** The number of bytes before those that the checksum covers: `{"crc":"`, eight digits and `",`. */
export const PREFIX_LENGTH = 18;
/** The maximum length of a line. A reader stops looking for a newline after this many bytes. */
export const MAX_LINE_BYTES = 16 * 2 ** 20;
const MAX_RECORD_BYTES = MAX_LINE_BYTES / 2;
/** An upper bound of the size of an entry of `keys`, in bytes. */
const KEY_BYTES = 110;

/** The value of each byte that is a lower-case hexadecimal digit, -1 for other bytes. */
const HEX_DIGITS = Int8Array.from({ length: 256 }, (_, byte) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(byte)),
);

/** The first line of a journal, with the id of the store. `secret` salts the fingerprints of idempotency keys. */
export type JournalHeader = { id: string; secret: string; created: string };

/** An animal to be written, with its JSON text. `fingerprint` is undefined if the animal has no idempotency key. */
export type PetEntry = {
  id: number | bigint;
  status: PetStatus;
  text: PetJson;
  fingerprint?: Fingerprint | undefined;
};

/**
 * Idempotency keys. For each key, `pets` has the index of its animal, `times` has the time of its record, and `words` has
 * FINGERPRINT_WORDS numbers.
 */
export type PackedKeys = { count: number; pets: number[]; times: number[]; words: number[] };

/** Animals and their idempotency keys. */
export type PackedBatch = { pets: PackedPets; keys: PackedKeys };

const AnyHeader = z.object({ seq: z.literal(0), format: z.int() });
const HeaderLine = z.object({
  id: z.uuid(),
  secret: z.string().check(z.regex(/^[0-9a-f]{64}$/)),
  created: Instant,
});

/** The header of a new store. `now` is in milliseconds since 1970. */
export function newHeader(now: number): JournalHeader {
  const secret = randomBytes(32).toString('hex');
  return { id: randomUUID(), secret, created: new Date(now).toISOString() };
}

export function encodeJournalHeader({ id, secret, created }: JournalHeader): Buffer {
  return withChecksum(`"seq":0,${JSON.stringify({ format: FORMAT, id, secret, created }).slice(1)}`);
}

/** @throws StoreDamagedError, or StoreVersionError for another format. The messages name `path`. */
export function decodeJournalHeader(line: Buffer, path: string): JournalHeader {
  const value = hasValidChecksum(line, 0, line.length) ? tryParseJson(line.toString()) : undefined;
  const any = AnyHeader.safeParse(value);
  if (any.success && any.data.format !== FORMAT) {
    throw newerVersionError(`${path} has format ${any.data.format}; this version reads format ${FORMAT}`);
  }
  const header = HeaderLine.safeParse(value);
  if (!any.success || !header.success) throw damagedAt(path, 0, 'the first line is not a journal header');
  return header.data;
}

export function damagedAt(path: string, offset: number, reason: string): StoreDamagedError {
  return new StoreDamagedError(
    `${path} is damaged at byte ${offset}: ${reason}`,
    'restore the file from a backup, or move it away to start with an empty store; the file was not changed',
  );
}

/** Encodes animals as one record, and returns where their texts are in the record. `at` is in milliseconds since 1970. */
export function encodeBatch(seq: number, at: number, entries: readonly PetEntry[]): PackedPets {
  const head = `"seq":${seq},"at":${at},"pets":[`;
  const start = PREFIX_LENGTH + head.length;
  const ends: number[] = [];
  const keys: string[] = [];
  let end = start - 1;
  entries.forEach(({ text, fingerprint }, pet) => {
    end += 1 + Buffer.byteLength(text);
    ends.push(end);
    if (fingerprint) {
      const { hex } = fingerprint;
      keys.push(`{"pet":${pet},"key":"${hex.slice(0, 32)}","body":"${hex.slice(32)}"}`);
    }
  });
  const texts = entries.map(({ text }) => text).join(',');
  return {
    bytes: withChecksum(`${head}${texts}]${keys.length > 0 ? `,"keys":[${keys.join(',')}]` : ''}}`),
    start,
    count: entries.length,
    ids: entries.map(({ id }) => id),
    statuses: entries.map(({ status }) => status),
    ends,
  };
}

export function encodeOrder(seq: number, at: number, order: OrderJson): Buffer {
  return withChecksum(`"seq":${seq},"at":${at},"order":${order}}`);
}

export function encodeLastId(seq: number, at: number, lastId: bigint): Buffer {
  return withChecksum(`"seq":${seq},"at":${at},"lastId":${lastId}}`);
}

/**
 * The number of bytes that an animal or an order needs in a record.
 *
 * @throws StoreError if the record would be too long
 */
export function recordBytes(text: string, fingerprint?: Fingerprint): number {
  const bytes = Buffer.byteLength(text) + (fingerprint ? KEY_BYTES : 0) + 1;
  if (bytes > MAX_RECORD_BYTES) {
    throw new StoreError(
      `an animal or order of ${bytes} bytes is too large for the store`,
      `maximum: ${MAX_RECORD_BYTES} bytes`,
    );
  }
  return bytes;
}

/** Whether the bytes from `start` to `end`, a line without its newline, are a complete record with a valid checksum. */
export function hasValidChecksum(bytes: Buffer, start: number, end: number): boolean {
  const covered = start + PREFIX_LENGTH;
  if (end <= covered || bytes[covered - 2] !== 0x22 || bytes[covered - 1] !== 0x2c) return false;
  if (bytes[end - 1] !== 0x7d) return false;
  for (let i = 0; i < RECORD_PREFIX.length; i++) if (bytes[start + i] !== RECORD_PREFIX[i]) return false;
  return parseHex32(bytes, start + RECORD_PREFIX.length) === checksum(bytes, covered, end);
}

function withChecksum(covered: string): Buffer {
  const line = Buffer.from(`{"crc":"00000000",${covered}\n`);
  const crc = checksum(line, PREFIX_LENGTH, line.length - 1);
  line.write(crc.toString(16).padStart(8, '0'), RECORD_PREFIX.length, 'latin1');
  return line;
}

/** Parses eight lower-case hexadecimal digits; -1 if the bytes are anything else. */
export function parseHex32(bytes: Buffer, start: number): number {
  let value = 0;
  let all = 0;
  for (let i = start; i < start + 8; i++) {
    const digit = HEX_DIGITS[bytes[i] ?? 0] ?? -1;
    value = (value << 4) | digit;
    all |= digit;
  }
  return all < 0 ? -1 : value >>> 0;
}
