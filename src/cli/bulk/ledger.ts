import { createHash, hash } from 'node:crypto';
import * as z from 'zod/mini';
import { int64 } from '../../contract/int64.ts';
import { type NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { Instant, Sha256 } from '../../store/stored-json.ts';

/*
 * Bulk add keeps a ledger for each service and file. A ledger is a file of JSON lines (records) with everything that is
 * known about the rows that were sent. Which rows a run sends is decided in `plan.ts`.
 *
 * Entries. A row is identified by the hash of its animal, and by a number `n` that counts equal animals from 1. Its line
 * number may change. The last record of a row is its entry. A row without an entry was never sent. The kinds of records
 * are:
 *
 *   intent    written and synced before a request is sent. If this is the last record, the row may have been added. The
 *             row is sent again only with the same idempotency key (see `whyNotRepeatable` in plan.ts). Several rows can
 *             be in flight (see `maxInFlight` in schedule.ts), so a crash can leave several such rows.
 *   notSent   the request had no effect, for example because of the rate limit. The row counts as never sent.
 *   added     the service added the animal. The record contains the animal with its id.
 *   failed    the service rejected the row. The next run tries again.
 *   unknown   the row may have been added, and repeating the request is no longer safe. The row is never sent again.
 *   finished  every row of the file has a result. This record does not belong to a row.
 *
 * Idempotency keys. An idempotency key is derived from the nonce, the epoch, `hash`, `n` and `failures`, so that a
 * request is repeated with the same key after a crash. Only a rejection increases `failures`, which gives the row a new
 * key. `--add-again` begins a new epoch without entries, so that all rows get new keys.
 *
 * Groups. Records that are appended and synced together are one line with the kind `group`.
 *
 * Crashes. Every appended line is synced before the next one is written, so only the last line can be torn. A torn line
 * is ignored. If it contained the intent of a row, the row was not sent. If it contained the result of a row, the row's
 * last intent still counts.
 *
 * Start of a run. The ledger is replaced atomically. The new file has a new header and the entries that are not too old
 * (see `dropOldEntries`).
 *
 * Newer versions. Unknown fields are ignored. A ledger with a higher version or an unknown kind of record was written
 * by a newer version of pets. Only `--add-again` replaces such a ledger. Other runs are refused and do not change it.
 */

export const LEDGER_VERSION = 1;

const Hash = z.string().check(z.regex(/^[\w-]{22}$/, 'must be 22 characters of base64url'));
const count = z.int().check(z.nonnegative());
const position = z.int().check(z.positive());

/** The first line of a ledger, which describes the last run. */
export const LedgerHeader = z.object({
  kind: z.literal('ledger'),
  version: z.literal(LEDGER_VERSION),
  baseUrl: z.string(),
  /** The real path of the file, or the name of the pipe, such as `standard input`. */
  source: z.string(),
  nonce: z.string().check(z.regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits')),
  epoch: count,
  /** The SHA-256 of the input. The input had `rows` rows. */
  sha256: Sha256,
  rows: count,
  /** When the run started. Runs that resume or repeat this run with the same input keep this time. */
  startedAt: Instant,
});
export type LedgerHeader = z.infer<typeof LedgerHeader>;

const entry = {
  hash: Hash,
  n: position,
  /** The line number of the row in the file when the row was sent. */
  line: position,
  at: Instant,
  /** How often the service has rejected the row. */
  failures: z.optional(count),
  /** When a run first found no row for this entry in the file. */
  goneSince: z.optional(Instant),
  /** The idempotency key that was sent. Only entries from version 0.1 have this field; others use the derived key. */
  idempotencyKey: z.optional(z.string()),
  /**
   * The highest id that the run knew before it sent the row. Missing if the run knew no id, if an id was not an int64,
   * and in entries from earlier versions.
   */
  highestId: z.optional(int64),
};
const RowFailure = z.object({ code: z.string(), message: z.string(), status: z.optional(z.int()) });

/** Every record after the header. */
export const LedgerRecord = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('intent'), ...entry, apiKeyHash: Sha256 }),
  z.object({ kind: z.literal('notSent'), ...entry }),
  z.object({ kind: z.literal('added'), ...entry, pet: ReceivedPet }),
  z.object({ kind: z.literal('failed'), ...entry, error: RowFailure }),
  z.object({
    kind: z.literal('unknown'),
    ...entry,
    message: z.string(),
    /** Set after a comparison with the inventory: the ids of the animals that this row may have added. */
    candidates: z.optional(z.array(ReceivedPet.shape.id)),
  }),
  z.object({ kind: z.literal('finished'), at: Instant }),
]);
export type LedgerRecord = z.infer<typeof LedgerRecord>;
export type LedgerEntry = Exclude<LedgerRecord, { kind: 'finished' }>;
export type EntryOf<Kind extends LedgerEntry['kind']> = Extract<LedgerEntry, { kind: Kind }>;

/** A line after the header. */
export const LedgerLine = z.discriminatedUnion('kind', [
  ...LedgerRecord.def.options,
  z.object({ kind: z.literal('group'), records: z.array(LedgerRecord) }),
]);

export type LedgerLine = z.infer<typeof LedgerLine>;

const kinds: unknown[] = LedgerLine.def.options.flatMap(({ shape }) => shape.kind.def.values);

/** Whether only a newer version of pets can have written a line. `value` is the parsed line. */
export function isNewerVersion(value: unknown): boolean {
  const { kind, version, records } = (value ?? {}) as {
    kind?: unknown;
    version?: unknown;
    records?: unknown;
  };
  if (kind === 'ledger') return Number(version) > LEDGER_VERSION;
  if (kind === 'group' && Array.isArray(records)) return records.some(isNewerVersion);
  return typeof kind === 'string' && !kinds.includes(kind);
}

/** What identifies a row: the hash of its animal, and its number among equal animals. */
export type RowId = Pick<LedgerEntry, 'hash' | 'n'>;

export type Ledger = {
  header: LedgerHeader;
  /** The entry of each row, by `<hash>:<n>`. */
  entries: Map<string, LedgerEntry>;
  /** The time (ISO 8601) at which the last run finished; undefined if it was interrupted or stopped early. */
  finishedAt: string | undefined;
};

/** Applies a record to a ledger in memory. */
export function applyRecord(ledger: Ledger, record: LedgerRecord): void {
  ledger.finishedAt = record.kind === 'finished' ? record.at : undefined;
  if (record.kind !== 'finished') ledger.entries.set(`${record.hash}:${record.n}`, record);
}

/** The latest time in a ledger (ISO 8601). If the clock was set back, this time may be in the future. */
export function latestTime({ header, entries, finishedAt }: Ledger): string {
  let latest = header.startedAt;
  for (const at of [finishedAt, ...[...entries.values()].map((entry) => entry.at)])
    if (at !== undefined && at > latest) latest = at;
  return latest;
}

const REMEMBERED_MS = 30 * 86_400_000;

/** Whether `at` (ISO 8601) is more than 30 days before `now` (milliseconds since the epoch). */
export const isForgotten = (at: string | undefined, now: number): boolean =>
  at !== undefined && Date.parse(at) < now - REMEMBERED_MS;

/**
 * Drops entries whose rows have not been in the file for 30 days. If the last run finished more than 30 days ago, drops
 * all entries. Intents are always kept. An interrupted run may be resumed, so its entries are compared with the time at
 * which that run started instead of `now`. `now` is in milliseconds since the epoch.
 */
export function dropOldEntries({ header, entries, finishedAt }: Ledger, now: number): void {
  const isUnused = isForgotten(finishedAt, now);
  const reference = finishedAt === undefined ? Date.parse(header.startedAt) : now;
  for (const [key, { kind, goneSince }] of entries)
    if (kind !== 'intent' && (isUnused || isForgotten(goneSince, reference))) entries.delete(key);
}

/** The idempotency key for sending a row: a UUID of version 8 (RFC 9562). `known` is the entry of the row. */
export function idempotencyKeyOf(
  { nonce, epoch }: Pick<LedgerHeader, 'nonce' | 'epoch'>,
  { hash, n }: RowId,
  known: Pick<LedgerEntry, 'failures' | 'idempotencyKey'> = {},
): string {
  if (known.idempotencyKey !== undefined) return known.idempotencyKey;
  const parts = [nonce, epoch, hash, n, known.failures ?? 0];
  const bytes = createHash('sha256').update(parts.join(':')).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** A hash of an animal: 128 bits, as base64url. An animal without a status has the same hash as an available one. */
export function animalHash({ name, categoryId, status = 'available' }: NewPet): string {
  const text = `{"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
  return hash('sha256', text, 'buffer').toString('base64url', 0, 16);
}
