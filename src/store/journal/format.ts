import { randomBytes, randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';
import * as z from 'zod/mini';
import { parseInt64, tryParseJson } from '../../contract/json.ts';
import type { StoredAnimal } from '../backend.ts';
import { StoreError } from '../errors.ts';
import type { Fingerprint, OrderJson } from '../store.ts';
import { type AnimalInText, IsoTime, readAnimal } from '../stored-text.ts';

/*
 * The journal is a file of JSON lines: a header, then records. There are three kinds of records: a batch of animals
 * that were synced together, an order, and the last id that was issued. The checksum `crc` is the CRC-32 of the bytes
 * from `"seq"` to the end of the line, without the newline:
 *
 *   {"crc":"1c291ca3","seq":0,"format":1,"id":"…","secret":"…","created":"2026-11-20T00:00:00.000Z"}
 *   {"crc":"…","seq":1,"at":1795132800000,"pets":[{"id":1,…},{"id":2,…}],"keys":[{"pet":0,"key":"…","body":"…"}]}
 *   {"crc":"…","seq":2,"at":1795132800000,"order":{…}}
 *   {"crc":"…","seq":3,"at":1795132800000,"lastId":7}
 *
 * `at` is in milliseconds since the epoch. An entry of `keys` is the idempotency key with which `pets[pet]` was
 * created: `key` and `body` are the two halves of its fingerprint. The text of that animal is the response to a replay.
 * Ids up to `lastId` are not issued again: lost animals, or the store of which this is a copy, may have used them.
 *
 * A later version may write records in another form. This version refuses them, because it could lose what they contain.
 */

const FORMAT = 1;

/** The name of the journal in the store's directory. */
export const JOURNAL_FILE = 'journal.ndjson';

/** The start of every line. A JSON string cannot contain it, because quotes in a string are escaped. */
export const LINE_START = '{"crc":"';
/** The number of bytes before those that the checksum covers: `{"crc":"`, eight digits and `",`. */
const PREFIX_LENGTH = 18;
const [QUOTE, COMMA, DIGIT_0, LETTER_A] = [0x22, 0x2c, 0x30, 0x61];
export const MAX_LINE_BYTES = 16 * 2 ** 20;
const MAX_RECORD_BYTES = MAX_LINE_BYTES / 2;
/** An upper bound of the size of an entry of `keys`, in bytes. */
const KEY_BYTES = 110;
/** The maximum number of animals in a record, and the approximate maximum of their bytes if there are several. */
export const MAX_BATCH_ANIMALS = 1000;
const MAX_BATCH_BYTES = 2 ** 20;

/** The first line of a journal, with the id of the store. `secret` salts the fingerprints of idempotency keys. */
export type JournalHeader = { id: string; secret: string; created: string };

/** The header of a new store. `now` is in milliseconds since the epoch. */
export function newHeader(now: number): JournalHeader {
  const secret = randomBytes(32).toString('hex');
  return { id: randomUUID(), secret, created: new Date(now).toISOString() };
}

export function encodeHeader({ id, secret, created }: JournalHeader): Buffer {
  return withChecksum(`"seq":0,${JSON.stringify({ format: FORMAT, id, secret, created }).slice(1)}`);
}

const AnyHeader = z.object({ seq: z.literal(0), format: z.int() });
const Header = z.object({
  id: z.uuid(),
  secret: z.string().check(z.regex(/^[0-9a-f]{64}$/)),
  created: IsoTime,
});

/** Parses the first line, whose checksum is valid. @throws StoreError, whose message names `path` */
export function decodeHeader(line: Buffer, path: string): JournalHeader {
  const value = tryParseJson(line.toString());
  const any = AnyHeader.safeParse(value);
  if (any.success && any.data.format !== FORMAT) {
    throw new StoreError(
      `${path} has format ${any.data.format}; this version reads format ${FORMAT}; the file was written by a newer version of pets`,
      'use that version of pets; the file was not changed',
    );
  }
  const header = Header.safeParse(value);
  if (!any.success || !header.success) throw damageError(path, 0, 'the first line is not a journal header');
  return header.data;
}

export function damageError(path: string, offset: number, reason: string): StoreError {
  return new StoreError(
    `${path} is damaged at byte ${offset}: ${reason}`,
    'if a newer version of pets has used the store, use that version; otherwise restore the file from a backup, or move the directory away to start with an empty store; the file was not changed',
  );
}

/** The start of a line. It contains the checksum of `covered`, which is the rest of the line without the newline. */
const prefixOf = (covered: Uint8Array): string =>
  `${LINE_START}${crc32(covered).toString(16).padStart(8, '0')}",`;

/** Whether a line, without its newline, has a valid checksum. */
export function hasValidChecksum(line: Buffer): boolean {
  if (line.toString('latin1', 0, LINE_START.length) !== LINE_START) return false;
  if (line[PREFIX_LENGTH - 2] !== QUOTE || line[PREFIX_LENGTH - 1] !== COMMA) return false;
  // Compare numbers: formatting the checksum as hexadecimal text would take about ten times as long.
  let expected = 0;
  for (let i = LINE_START.length; i < PREFIX_LENGTH - 2; i++)
    expected = 16 * expected + hexValue(line[i] ?? 0);
  return expected === crc32(line.subarray(PREFIX_LENGTH));
}

/** The value of a hexadecimal digit in lower case; NaN for any other character. */
function hexValue(code: number): number {
  if (code >= DIGIT_0 && code <= DIGIT_0 + 9) return code - DIGIT_0;
  return code >= LETTER_A && code <= LETTER_A + 5 ? code - LETTER_A + 10 : Number.NaN;
}

function withChecksum(covered: string): Buffer {
  const rest = Buffer.from(`${covered}\n`);
  return Buffer.concat([Buffer.from(prefixOf(rest.subarray(0, -1))), rest]);
}

/** The idempotency key with which the animal with the index `pet` in the record was created. */
type RecordedIdempotencyKey = Fingerprint & { pet: number };

/** A parsed record. `texts` contains the JSON texts of `pets`, separated by commas. It can be a view of the line. */
export type JournalRecord = {
  texts: Buffer;
  pets: readonly AnimalInText[];
  seq: number;
  at: number;
  keys: readonly RecordedIdempotencyKey[];
  order?: OrderJson | undefined;
  lastId?: bigint | undefined;
};

const KEY = /\{"pet":(\d{1,4}),"key":"[0-9a-f]{32}","body":"[0-9a-f]{32}"\}/y;
const RECORD_START = /"seq":(\d{1,15}),"at":(\d{1,15}),"(pets":\[|order":|lastId":)/y;
const KEYS_START = '],"keys":[';

/** Parses the line at byte `start` of `path`, whose checksum is valid. @throws StoreError if it is not a record */
export function parseRecord(line: Buffer, path: string, start: number): JournalRecord {
  // One character per byte, so that positions in the text are positions in the line.
  const text = line.toString('latin1');
  RECORD_START.lastIndex = PREFIX_LENGTH;
  const [, seq, at, kind] = RECORD_START.exec(text) ?? [];
  const contents =
    kind === 'pets":['
      ? parseBatch(line, text, RECORD_START.lastIndex)
      : parseValue(kind, line.toString('utf8', RECORD_START.lastIndex, line.length - 1));
  if (!contents || !text.endsWith('}'))
    throw damageError(path, start, 'the record is not valid, or a newer version of pets has written it');
  return { seq: Number(seq), at: Number(at), ...contents };
}

type RecordContents = Omit<JournalRecord, 'seq' | 'at'>;

/** Parses animals, which begin at the position `start`, and their keys. Undefined if they have another form. */
function parseBatch(line: Buffer, text: string, start: number): RecordContents | undefined {
  const pets: AnimalInText[] = [];
  const petsEnd = readItems(text, start, (at) => {
    const pet = readAnimal(text, at);
    if (pet) pets.push(pet);
    return pet?.length;
  });
  const hasKeys = text.startsWith(KEYS_START, petsEnd);
  const keys: RecordedIdempotencyKey[] = [];
  const keysEnd = readItems(text, petsEnd + KEYS_START.length, (at) => {
    KEY.lastIndex = at;
    const [{ length } = '', pet] = KEY.exec(text) ?? [];
    if (length === 0 || Number(pet) >= pets.length) return undefined;
    // Substrings of the text would keep all of it in memory.
    const digits = (end: number) => line.toString('latin1', end - 32, end);
    keys.push({ pet: Number(pet), key: digits(at + length - 44), body: digits(at + length - 2) });
    return length;
  });
  const isComplete = text.slice(hasKeys ? keysEnd : petsEnd) === ']}';
  return isComplete ? { texts: line.subarray(start, petsEnd), pets, keys } : undefined;
}

/** Parses the order or the last id of a record. Undefined if it is not valid. */
function parseValue(kind: string | undefined, text: string): RecordContents | undefined {
  const none = { texts: Buffer.alloc(0), pets: [], keys: [] };
  if (kind === 'order":') return tryParseJson(text) === undefined ? undefined : { ...none, order: text };
  const lastId = kind === 'lastId":' ? parseInt64(text) : undefined;
  return lastId === undefined ? undefined : { ...none, lastId };
}

/**
 * Reads a comma-separated list. `read` reads the item at a position, and returns its length, or undefined if there is
 * none. Returns the end of the last item, or `start - 1` if there is no item.
 */
function readItems(text: string, start: number, read: (at: number) => number | undefined): number {
  for (let at = start; ; at++) {
    const length = read(at);
    if (length === undefined) return at - 1;
    at += length;
    if (text[at] !== ',') return at;
  }
}

/** An animal to be written. The record has one time for the idempotency keys of all its animals. */
export type PetToWrite = Omit<StoredAnimal, 'idempotency'> & { idempotency?: Fingerprint | undefined };

/** Encodes a batch. Also returns what `parseRecord` would return. `at` is in milliseconds since the epoch. */
export function encodeBatch(
  seq: number,
  at: number,
  animals: readonly PetToWrite[],
): JournalRecord & { line: Buffer } {
  const head = `"seq":${seq},"at":${at},"pets":[`;
  const texts = animals.map(({ text }) => text).join(',');
  const pets = animals.map(({ id, status, text }) => ({ id, status, length: Buffer.byteLength(text) }));
  const keys = animals.flatMap(({ idempotency }, pet) =>
    idempotency ? [{ pet, key: idempotency.key, body: idempotency.body }] : [],
  );
  const rest = keys.length > 0 ? `,"keys":${JSON.stringify(keys)}` : '';
  const line = withChecksum(`${head}${texts}]${rest}}`);
  const start = PREFIX_LENGTH + head.length;
  return { seq, at, texts: line.subarray(start, start + Buffer.byteLength(texts)), pets, keys, line };
}

/** Like `encodeBatch`, for a record that keeps ids up to `lastId` from being issued. */
export function encodeLastId(seq: number, at: number, lastId: bigint): JournalRecord & { line: Buffer } {
  const line = withChecksum(`"seq":${seq},"at":${at},"lastId":${lastId}}`);
  return { seq, at, texts: Buffer.alloc(0), pets: [], keys: [], lastId, line };
}

/** Whether an animal of `more` bytes fits into a record with `count` animals of `bytes` bytes in total (`bytesInRecord`). */
export const fitsInRecord = (count: number, bytes: number, more: number): boolean =>
  count === 0 || (count < MAX_BATCH_ANIMALS && bytes + more <= MAX_BATCH_BYTES);

/**
 * The number of bytes that an animal or an order needs at most in a record, with `hasKey` also for its idempotency key.
 *
 * @throws StoreError if the record would be too long
 */
export function bytesInRecord(text: string, hasKey = false): number {
  const bytes = Buffer.byteLength(text) + (hasKey ? KEY_BYTES : 0) + 1;
  if (bytes > MAX_RECORD_BYTES) {
    throw new StoreError(
      `an animal or order needs ${bytes} bytes in the store, more than ${MAX_RECORD_BYTES}`,
      'shorten it',
    );
  }
  return bytes;
}

/** What a new journal contains. The animals ascend by id. Ids below `nextId` are not issued again, even unused ones. */
type JournalContents = {
  orders: readonly OrderJson[];
  animals: Iterable<readonly StoredAnimal[]> | AsyncIterable<readonly StoredAnimal[]>;
  nextId: bigint;
};

/**
 * Yields the lines of a journal with these contents. `at` is the time of all records without idempotency keys, in
 * milliseconds since the epoch.
 *
 * @throws StoreError if a record is too long, or the ids do not ascend; also the errors of `animals`
 */
export async function* encodeJournal(
  header: JournalHeader,
  { orders, animals, nextId }: JournalContents,
  at: number,
): AsyncGenerator<Buffer> {
  yield encodeHeader(header);
  let seq = 0;
  for (const order of orders) {
    bytesInRecord(order);
    yield withChecksum(`"seq":${++seq},"at":${at},"order":${order}}`);
  }
  let batch: PetToWrite[] = [];
  let bytes = 0;
  /** The time of the idempotency keys in `batch`. */
  let keysAt: number | undefined;
  let lastId = 0n;
  for await (const part of animals) {
    for (const animal of part) {
      const { id, text, idempotency } = animal;
      const more = bytesInRecord(text, idempotency !== undefined);
      const hasOtherTime = idempotency && keysAt !== undefined && idempotency.at !== keysAt;
      if (hasOtherTime || !fitsInRecord(batch.length, bytes, more)) {
        yield encodeBatch(++seq, keysAt ?? at, batch).line;
        batch = [];
        bytes = 0;
        keysAt = undefined;
      }
      bytes += more;
      batch.push(animal);
      keysAt ??= idempotency?.at;
      if (id <= lastId) {
        throw new StoreError(
          `animal ${id} comes after animal ${lastId}, but ids must ascend`,
          'sort the animals by id',
        );
      }
      lastId = id;
    }
  }
  if (batch.length > 0) yield encodeBatch(++seq, keysAt ?? at, batch).line;
  if (nextId > lastId + 1n) yield encodeLastId(++seq, at, nextId - 1n).line;
}
