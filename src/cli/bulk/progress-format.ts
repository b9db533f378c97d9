import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { stringifyJson } from '../../contract/json.ts';
import { Pet } from '../../contract/schemas.ts';
import { Instant, readStored, Sha256 } from '../../store/stored-json.ts';
import { damagedError, newerVersionError } from './job-errors.ts';

/*
 * A job's progress is lines of JSON, one for each thing that happened:
 *
 *   {"version":1,"source":"animals.csv","sha256":"…","baseUrl":"…","rows":66,"startedAt":"…","nonce":"…",…}
 *   {"row":1,"status":"sending","idempotencyKey":"…","apiKeyHash":"…","sentAt":"2026-11-20T12:00:00.000Z"}
 *   {"row":1,"status":"added","pet":{"id":67,…}}
 *   {"row":2,"status":"sending",…}
 *   {"row":2,"status":"withdrawn"}
 *   {"row":3,"status":"added","pet":{"id":41,…},"origin":"…:7"}
 *   {"status":"finished","at":"2026-11-20T12:01:00.000Z"}
 *
 * Each is synced before the next is written, so that only the last can be torn by a kill or a power failure. One with an
 * `origin` was taken over from a job of an earlier content of the file; those come with a file that was replaced as a whole.
 */

const VERSION = 1;

const Nonce = z.string().check(z.regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits'));

/** `sha256` is that of the input, `rowsSha256` that of the rows which were read from it. */
export type Header = z.infer<typeof Header>;
const Header = z.object({
  version: z.literal(VERSION),
  source: z.string(),
  sha256: Sha256,
  rowsSha256: Sha256,
  baseUrl: z.string(),
  rows: z.int().check(z.nonnegative()),
  startedAt: Instant,
  nonce: Nonce,
  /** Begun with --restart: so many rows as these jobs had sent by then were to be added again. */
  disregards: z.optional(z.record(Nonce, z.int())),
});

const row = z.int().check(z.positive());
/** The nonce and the row of the job that has sent the row, where that is another one. */
const origin = z.optional(z.string());
const Sending = z.object({
  row,
  status: z.literal('sending'),
  idempotencyKey: z.string(),
  apiKeyHash: z.string(),
  sentAt: Instant,
  origin,
});
/** What was about to be sent, or was refused, has certainly not been carried out. */
const Withdrawn = z.object({ row, status: z.literal('withdrawn') });
const Failure = z.object({ code: z.string(), message: z.string(), status: z.optional(z.int()) });
const Failed = z.object({ row, status: z.literal('failed'), error: Failure });
const Unknown = z.object({
  row,
  status: z.literal('unknown'),
  idempotencyKey: z.string(),
  message: z.string(),
  origin,
});
const Finished = z.object({ status: z.literal('finished'), at: Instant });

const entryWith = <P extends z.ZodMiniType>(pet: P) =>
  z.discriminatedUnion('status', [
    Sending,
    Withdrawn,
    z.object({ row, status: z.literal('added'), pet, origin }),
    Failed,
    Unknown,
    Finished,
  ]);

/** A line behind the first. */
export type Entry = z.infer<typeof Entry>;
const Entry = entryWith(Pet);
// What happened, without the animals: those of a million lines would be parsed to be thrown away.
const Event = entryWith(z.unknown());
export type Event = z.infer<typeof Event>;

export const encodeHeader = (header: Omit<Header, 'version'>): Buffer =>
  Buffer.from(`${JSON.stringify({ version: VERSION, ...header })}\n`);

export const encodeEntry = (entry: Entry): Buffer => Buffer.from(`${stringifyJson(entry)}\n`);

/** @throws CliError naming `path` */
export function decodeHeader(text: string, path: string): Header {
  const any = readStored(z.object({ version: z.int() }), text);
  if ('data' in any && any.data.version > VERSION) throw newerVersionError(path, any.data.version);
  const header = readStored(Header, text);
  if ('why' in header) throw damagedError(path, 1, header.why);
  return header.data;
}

/** What a line says; the text is read as quickly as can be, and the animal in it not exactly. */
export function decodeEvent(text: string): Event | undefined {
  try {
    return Event.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** All that a line says, with every digit. */
export const decodeEntry = (text: string) => readStored(Entry, text);

/**
 * Names one try of one row of one job: a UUID (version 8 of RFC 9562) that a later run comes to again, even where a
 * power failure took the line that says so. `failures` is how many tries before have failed.
 */
export function idempotencyKeyOf(nonce: string, row: number, failures: number): string {
  const bytes = createHash('sha256').update(`${nonce}:${row}:${failures}`).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
