import { crc32 } from 'node:zlib';
import * as z from 'zod/mini';
import { tryParseJson } from '../contract/json.ts';
import { StoreDamagedError, StoreError } from './errors.ts';
import type { Idempotency, OrderJson, PetJson } from './store.ts';

/*
 * The journal is lines of JSON, one for each synced batch. Every line begins with the CRC-32 of what follows it:
 *
 *   {"crc":"1c291ca3","seq":0,"format":1,"id":"…","secret":"…","created":"2026-11-20T00:00:00.000Z"}
 *   {"crc":"…","seq":1,"at":1795132800000,"pets":[{"id":1,…},{"id":2,…}],"keys":[{"pet":0,"scope":"…",…}]}
 *   {"crc":"…","seq":2,"at":1795132800000,"order":{…}}
 *
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

/** What makes a store this one. `secret` is hexadecimal, `created` an instant of ISO 8601. */
export type Header = { id: string; secret: string; created: string };

/** An animal on its way into the journal. */
export type Entry = { text: PetJson; idempotency?: Idempotency | undefined };

/** Where the bytes of each animal are in a line: first byte and byte behind the last, in turn. */
export type Batch = { line: Buffer; spans: number[] };

const AnyHeader = z.object({ seq: z.literal(0), format: z.int() });
const HeaderLine = z.object({
  id: z.uuid(),
  secret: z.string().check(z.regex(/^[0-9a-f]{64}$/)),
  created: z.iso.datetime(),
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
  const spans: number[] = [];
  const keys: string[] = [];
  let end = PREFIX_LENGTH + head.length - 1;
  entries.forEach(({ text, idempotency }, pet) => {
    spans.push(end + 1, end + 1 + Buffer.byteLength(text));
    end += 1 + Buffer.byteLength(text);
    if (idempotency) {
      const { scope, key, bodyHash } = idempotency;
      keys.push(JSON.stringify({ pet, scope, key, body: bodyHash }));
    }
  });
  const texts = entries.map(({ text }) => text).join(',');
  return { line: seal(`${head}${texts}]${keys.length > 0 ? `,"keys":[${keys.join(',')}]` : ''}}`), spans };
}

export function encodeOrder(seq: number, at: number, order: OrderJson): Buffer {
  return seal(`"seq":${seq},"at":${at},"order":${order}}`);
}

/**
 * The bytes that an animal or an order takes in a line.
 *
 * @throws StoreError where no line would hold it
 */
export function recordBytes(text: string, idempotency?: Idempotency): number {
  // The keys of idempotency are far shorter than this; their escapes are allowed for.
  const more = idempotency ? 6 * (idempotency.scope.length + idempotency.key.length) + 150 : 0;
  const bytes = Buffer.byteLength(text) + more + 1;
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
  return hex32(bytes, start + MARK.length) === crc32(bytes.subarray(rest, end));
}

function seal(rest: string): Buffer {
  const line = Buffer.from(`{"crc":"00000000",${rest}\n`);
  const sum = crc32(line.subarray(PREFIX_LENGTH, line.length - 1));
  line.write(sum.toString(16).padStart(8, '0'), MARK.length, 'latin1');
  return line;
}

/** Eight lower-case hexadecimal digits, or -1. */
function hex32(bytes: Buffer, start: number): number {
  let value = 0;
  for (let i = start; i < start + 8; i++) {
    const byte = bytes[i] ?? 0;
    if (byte >= 0x30 && byte <= 0x39) value = value * 16 + byte - 0x30;
    else if (byte >= 0x61 && byte <= 0x66) value = value * 16 + byte - 0x57;
    else return -1;
  }
  return value;
}
