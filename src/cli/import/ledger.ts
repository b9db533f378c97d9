import { hash } from 'node:crypto';
import * as z from 'zod/mini';
import { type NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { Instant, Sha256 } from '../../store/stored-json.ts';

/*
 * `pets import` keeps one ledger for each service. It is a file of JSON lines (records) with everything that is known
 * about the rows that were sent. What an import does is decided in plan.ts, from the ledger and the rows of the file.
 *
 * A row is known by what it says: by the hash of its animal. Where it is recorded is identified by its import and by its
 * index in the file of that import. The last record of a row is its state. A row without a record was never sent.
 *
 *   import    an import begins, with the hashes of all rows of its file
 *   resumed   an import that was finished continues, because some of its rows can be sent (again)
 *   finished  every row of the import has a result
 *   open      written and synced before a request is sent: the row may have been added. Written again if the request ends
 *             without a response that shows the outcome
 *   notSent   the request had no effect, for example because of the rate limit. The row counts as never sent
 *   added     the service added the animal. The record contains the animal with its id
 *   failed    the service rejected the row. The next run of the import tries again
 *   answered  the service responded with 2xx, but not with the animal. The row is never sent again
 *
 * Order. `seq` numbers imports and attempts. It only grows, also when old records are dropped. Times never decide which of
 * two things happened first, because clocks can be set back.
 *
 * Idempotency keys. The key of a row is derived from the nonce of the ledger and the `seq` of its attempt, so a request
 * can be repeated with the same key after a crash.
 *
 * Crashes. Every appended line is synced before the next one is written, so only the last line can be torn. A torn line
 * is ignored. If it contained the first record of an attempt, the row was not sent. If it contained the result of a row, the
 * row still counts as open. Records that are synced together are one line with the kind `group`.
 */

export const LEDGER_VERSION = 1;

/** The number of bytes of a row's hash, and of characters in base64url. */
const HASH_BYTES = 16;

const count = z.int().check(z.nonnegative());
const position = z.int().check(z.positive());

/** The first line of a ledger. `seq` and `at` are the highest of all records that were dropped since. */
export const LedgerHeader = z.object({
  kind: z.literal('ledger'),
  version: z.literal(LEDGER_VERSION),
  /** The base URL of the service. */
  service: z.string(),
  nonce: z.string().check(z.regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits')),
  seq: count,
  at: Instant,
});
export type LedgerHeader = z.infer<typeof LedgerHeader>;

/** The row of an import, which is named by its `seq`, and its latest attempt. */
const attempt = { import: position, row: count, seq: position };

const NotSentRecord = z.object({ kind: z.literal('notSent'), ...attempt });

const RowRecord = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('open'),
    ...attempt,
    /** The time of the first request, and the API key. They decide whether it may be sent again. */
    at: Instant,
    apiKeyHash: Sha256,
    /** When the last request had ended; missing if the process was killed before. */
    endedAt: z.optional(Instant),
    /** Why the outcome is unknown; missing if the next run finds that out first. */
    message: z.optional(z.string()),
    /** Set after a comparison with the inventory: the ids of the animals that this row may have added. */
    candidates: z.optional(z.array(ReceivedPet.shape.id)),
  }),
  z.object({ kind: z.literal('added'), ...attempt, pet: ReceivedPet }),
  z.object({
    kind: z.literal('failed'),
    ...attempt,
    error: z.object({ code: z.string(), message: z.string(), status: z.optional(z.int()) }),
  }),
  z.object({ kind: z.literal('answered'), ...attempt, message: z.string() }),
]);
/** The state of a row. */
export type RowRecord = z.infer<typeof RowRecord>;
export type RecordOf<Kind extends RowRecord['kind']> = Extract<RowRecord, { kind: Kind }>;

const ImportRecord = z.object({
  kind: z.literal('import'),
  seq: position,
  at: Instant,
  /** The real path of the file; missing if the rows came from a pipe. */
  source: z.optional(z.string()),
  /** Set with `--skip-added`: the import sends no row with an id, and no row that was known before. */
  skipAdded: z.optional(z.literal(true)),
  /** The hashes of all rows, in the order of the file, as base64. */
  hashes: z.string(),
});

/** Every record after the header. */
const LedgerRecord = z.discriminatedUnion('kind', [
  ...RowRecord.def.options,
  NotSentRecord,
  ImportRecord,
  z.object({ kind: z.literal('resumed'), import: position, at: Instant }),
  z.object({ kind: z.literal('finished'), import: position, at: Instant }),
]);
export type LedgerRecord = z.infer<typeof LedgerRecord>;

/** A line after the header. */
export const LedgerLine = z.discriminatedUnion('kind', [
  ...LedgerRecord.def.options,
  z.object({ kind: z.literal('group'), records: z.array(LedgerRecord) }),
]);
export type LedgerLine = z.infer<typeof LedgerLine>;

/** An import, and the state of each of its rows. A row without a state was never sent. */
export type Import = {
  seq: number;
  at: string;
  source: string | undefined;
  skipAdded: boolean;
  /** `HASH_BYTES` for each row. */
  hashes: Buffer;
  rows: (RowRecord | undefined)[];
  /** When all rows had a result; undefined if the import was interrupted or stopped early. */
  finishedAt: string | undefined;
};

/** Where a row is recorded: its state is `its.rows[index]`. */
export type Place = { its: Import; index: number };

export type Ledger = {
  header: LedgerHeader;
  /** The highest number so far. */
  seq: number;
  /** The latest time so far (ISO 8601). If the clock was set back, this time may be in the future. */
  at: string;
  /** In the order in which they began. */
  imports: Map<number, Import>;
};

export const emptyLedger = (header: LedgerHeader): Ledger => ({
  header,
  seq: header.seq,
  at: header.at,
  imports: new Map(),
});

/** Applies a record to a ledger in memory. Ignores rows of imports that were dropped. */
export function applyRecord(ledger: Ledger, record: LedgerRecord): void {
  if ('seq' in record) ledger.seq = Math.max(ledger.seq, record.seq);
  if ('at' in record && record.at > ledger.at) ledger.at = record.at;
  if (record.kind === 'import') {
    // The import that this process begins is there already.
    if (ledger.imports.has(record.seq)) return;
    const { seq, at, source, skipAdded = false } = record;
    const hashes = Buffer.from(record.hashes, 'base64');
    const rows = new Array<undefined>(hashes.length / HASH_BYTES).fill(undefined);
    ledger.imports.set(seq, { seq, at, source, skipAdded, hashes, rows, finishedAt: undefined });
    return;
  }
  const its = ledger.imports.get(record.import);
  if (its === undefined) return;
  if (record.kind === 'finished') its.finishedAt = record.at;
  else if (record.kind === 'resumed') its.finishedAt = undefined;
  else its.rows[record.row] = record.kind === 'notSent' ? undefined : record;
}

/** The records from which `applyRecord` makes the import again. */
export function* recordsOf(its: Import): Generator<LedgerRecord> {
  const { seq, at, source, skipAdded, hashes, rows, finishedAt } = its;
  yield {
    kind: 'import',
    seq,
    at,
    ...(source !== undefined && { source }),
    ...(skipAdded && { skipAdded }),
    hashes: hashes.toString('base64'),
  };
  for (const record of rows) if (record) yield record;
  if (finishedAt !== undefined) yield { kind: 'finished', import: seq, at: finishedAt };
}

/**
 * The time of a new record (ISO 8601): now, but never before an earlier record, because a ledger whose times went back
 * would be forgotten too early.
 */
export function timeOf({ at }: Ledger, now: number): string {
  const present = new Date(now).toISOString();
  return present > at ? present : at;
}

/** Whether the row may have been added although no response shows that. Such a row is remembered for ever. */
export const isUnknown = (record: RowRecord | undefined): record is RecordOf<'open' | 'answered'> =>
  record?.kind === 'open' || record?.kind === 'answered';

const REMEMBERED_MS = 30 * 86_400_000;

/**
 * Drops the rows of imports that have been finished for more than 30 days, except those that may have been added, and
 * those that an unfinished import also has: when it continues, it must not add them again.
 */
export function forgetOldRows({ imports }: Ledger, now: number): void {
  const isOld = ({ finishedAt }: Import) =>
    finishedAt !== undefined && Date.parse(finishedAt) < now - REMEMBERED_MS;
  const old = [...imports.values()].filter(isOld);
  if (old.length === 0) return;
  const needed = new Set<string>();
  for (const its of imports.values())
    if (its.finishedAt === undefined) for (const i of its.rows.keys()) needed.add(hashAt(its, i));
  for (const its of old) {
    const kept = its.rows.filter(
      (record) => isUnknown(record) || (record?.kind === 'added' && needed.has(hashAt(its, record.row))),
    ) as RowRecord[];
    its.hashes = joinHashes(kept.map(({ row }) => hashAt(its, row)));
    its.rows = kept.map((record, row) => ({ ...record, row }));
    if (kept.length === 0) imports.delete(its.seq);
  }
}

/** The hash of a row of an import, as `animalHash` returns it. */
export const hashAt = ({ hashes }: Import, index: number): string =>
  hashes.toString('base64url', index * HASH_BYTES, (index + 1) * HASH_BYTES);

export function joinHashes(hashes: readonly string[]): Buffer {
  const bytes = Buffer.alloc(hashes.length * HASH_BYTES);
  for (const [i, each] of hashes.entries()) bytes.write(each, i * HASH_BYTES, 'base64url');
  return bytes;
}

/**
 * A hash of an animal: 128 bits, as base64url. An animal without a status has the same hash as an available one. With an id,
 * it is the hash of a row that is not sent because of this id.
 */
export function animalHash({ name, categoryId, status = 'available' }: NewPet, id?: unknown): string {
  const text = `{"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}${id ?? ''}`;
  return hash('sha256', text, 'buffer').toString('base64url', 0, HASH_BYTES);
}

/** The idempotency key of an attempt: a UUID of version 8 (RFC 9562). */
export function idempotencyKeyOf({ nonce }: Pick<LedgerHeader, 'nonce'>, seq: number): string {
  const bytes = hash('sha256', `${nonce}:${seq}`, 'buffer').subarray(0, HASH_BYTES);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
