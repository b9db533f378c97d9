import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { type NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { Instant, Sha256 } from '../../store/stored-json.ts';

/*
 * Bulk add keeps a ledger for each {service, file}: JSON lines with everything that is known about the rows that were
 * sent. What a run does depends only on the rows of the file, the ledger and the time (`plan.ts`).
 *
 * Entries. A row is identified by its content and not by its line: {hash of the animal, n}, where n numbers equal animals
 * from 1. The last record of a row is its entry. A row without an entry was never sent. The kinds of records are:
 *
 *   intent    written and synced before a request is sent. If it is the entry, the row may have been added. It is repeated
 *             only with the same idempotency key (see `whyNotRepeatable` in plan.ts).
 *   notSent   the request had no effect, for example because of the rate limit. The row counts as never sent.
 *   added     the service added the animal. The record contains the animal with its id.
 *   failed    the service rejected the row. The next run tries again.
 *   unknown   the row may have been added, and can no longer be repeated safely. It is never sent again.
 *   finished  every row of the file has a result. This record does not belong to a row.
 *
 * Idempotency keys. A key is derived from {nonce, epoch, hash, n, failures}, so that a request is repeated with the same
 * key after a crash. Only a rejection increases `failures`, and with it the row gets a new key. `--restart` begins a new
 * epoch without entries, so that all rows get new keys.
 *
 * Crashes. Every record is synced before the next one is written, so only the last line can be torn. A torn record is
 * ignored: after a torn intent nothing was sent, and after a torn result the outcome is still open. Records name their
 * row, so that several rows could be in flight at once.
 *
 * Start of a run. The ledger is atomically replaced by a new header and the entries, without the old ones (see
 * `dropOldEntries`).
 *
 * Newer versions. Unknown fields are ignored. A ledger with a higher version or an unknown kind of record was written by
 * a newer version of pets. It is refused and not changed.
 */

export const LEDGER_VERSION = 1;

const Hash = z.string().check(z.regex(/^[\w-]{22}$/, 'must be 22 characters of base64url'));
const count = z.int().check(z.nonnegative());
const position = z.int().check(z.positive());

/** The run that the ledger was last written for. */
export const LedgerHeader = z.object({
  kind: z.literal('ledger'),
  version: z.literal(LEDGER_VERSION),
  baseUrl: z.string(),
  /** The real path of the file, or `standard input`. */
  source: z.string(),
  nonce: z.string().check(z.regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits')),
  epoch: count,
  /** The hash of the input of the last run, which had `rows` rows. */
  sha256: Sha256,
  rows: count,
  /** When the first run of this content started. */
  startedAt: Instant,
});
export type LedgerHeader = z.infer<typeof LedgerHeader>;

const entry = {
  hash: Hash,
  n: position,
  /** The line of the row in the file at the time when it was sent. */
  line: position,
  at: Instant,
  /** How many attempts were rejected. */
  failures: z.optional(count),
  /** The time of the first run whose file had no row for this entry. */
  goneSince: z.optional(Instant),
  /** Only in entries that were migrated: the key that was sent, instead of the derived one. */
  idempotencyKey: z.optional(z.string()),
};
const RowFailure = z.object({ code: z.string(), message: z.string(), status: z.optional(z.int()) });

/** Every record after the header. */
export const LedgerRecord = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('intent'), ...entry, apiKeyHash: Sha256 }),
  z.object({ kind: z.literal('notSent'), ...entry }),
  z.object({ kind: z.literal('added'), ...entry, pet: ReceivedPet }),
  z.object({ kind: z.literal('failed'), ...entry, error: RowFailure }),
  z.object({ kind: z.literal('unknown'), ...entry, message: z.string() }),
  z.object({ kind: z.literal('finished'), at: Instant }),
]);
export type LedgerRecord = z.infer<typeof LedgerRecord>;
export type LedgerEntry = Exclude<LedgerRecord, { kind: 'finished' }>;
export type EntryOf<Kind extends LedgerEntry['kind']> = Extract<LedgerEntry, { kind: Kind }>;

const kinds: unknown[] = ['intent', 'notSent', 'added', 'failed', 'unknown', 'finished'];

/** Whether only a newer version can have written this value of a line. */
export function isNewerVersion(value: unknown): boolean {
  const { kind, version } = (value ?? {}) as { kind?: unknown; version?: unknown };
  if (kind === 'ledger') return Number(version) > LEDGER_VERSION;
  return typeof kind === 'string' && !kinds.includes(kind);
}

/** What identifies a row. */
export type RowId = Pick<LedgerEntry, 'hash' | 'n'>;

/** A ledger as it was read. */
export type Ledger = {
  header: LedgerHeader;
  /** By `<hash>:<n>`. */
  entries: Map<string, LedgerEntry>;
  /** When every row of the last run had a result; undefined if the run was interrupted. */
  finishedAt: string | undefined;
};

/** The reducer: changes the ledger as the record says. */
export function applyRecord(ledger: Ledger, record: LedgerRecord): void {
  ledger.finishedAt = record.kind === 'finished' ? record.at : undefined;
  if (record.kind !== 'finished') ledger.entries.set(`${record.hash}:${record.n}`, record);
}

const REMEMBERED_MS = 30 * 86_400_000;

/** Whether an instant is more than 30 days before `now`, in milliseconds since the epoch. */
export const isForgotten = (at: string | undefined, now: number): boolean =>
  at !== undefined && Date.parse(at) < now - REMEMBERED_MS;

/**
 * Drops entries whose rows have not been in the file for 30 days, and all if the last run finished more than 30 days ago.
 * Intents are kept. If the last run was interrupted, the 30 days are counted up to its start, because it may be resumed.
 * `now` is in milliseconds since the epoch.
 */
export function dropOldEntries({ header, entries, finishedAt }: Ledger, now: number): void {
  const isUnused = isForgotten(finishedAt, now);
  const reference = finishedAt === undefined ? Date.parse(header.startedAt) : now;
  for (const [key, { kind, goneSince }] of entries)
    if (kind !== 'intent' && (isUnused || isForgotten(goneSince, reference))) entries.delete(key);
}

/** The idempotency key of an attempt: a UUID (version 8 of RFC 9562). */
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

/** Equal for animals that are equal at the service: a missing status means available. 128 bits, as base64url. */
export function animalHash({ name, categoryId, status = 'available' }: NewPet): string {
  const text = `{"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
  return createHash('sha256').update(text).digest().toString('base64url', 0, 16);
}
