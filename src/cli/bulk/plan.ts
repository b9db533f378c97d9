import { IDEMPOTENT_RETRY_MS } from '../../client/request-with-retry.ts';
import type { PetRow } from '../rows/read-file.ts';
import { animalHash, type EntryOf, type LedgerEntry, type RowId } from './ledger.ts';

/**
 * The status of a row decides what a run does with the row. A run sends rows that are `new` or `failed`, repeats
 * `ambiguous` rows with the same idempotency key, and does not send rows that are `added` or `unknown`.
 */
export type RowStatus = 'new' | 'added' | 'failed' | 'ambiguous' | 'unknown';

/** `entry` is the last record of the row. Sending the row changes `entry`, but not `status`. */
export type PlannedRow = PetRow & RowId & { status: RowStatus; entry: LedgerEntry | undefined };

export type Plan = {
  /** The rows in the order of the input. */
  rows: PlannedRow[];
  counts: Record<RowStatus, number>;
  /** Entries that have no row in the input. */
  gone: LedgerEntry[];
};

/** The number of rows whose last record has this kind. */
export const countKind = (rows: readonly PlannedRow[], kind: LedgerEntry['kind']): number =>
  rows.filter(({ entry }) => entry?.kind === kind).length;

export const countToSend = ({ counts }: Plan): number => counts.new + counts.failed + counts.ambiguous;

/** How many rows were sent before and may have been added. */
export const countSent = ({ counts }: Plan): number => counts.added + counts.ambiguous + counts.unknown;

/** `now` is in milliseconds since the epoch. `supportsIdempotency` means that the service supports idempotency keys. */
export type Circumstances = { now: number; apiKeyHash: string; supportsIdempotency: boolean };

const RANKS: Record<RowStatus, number> = { added: 0, ambiguous: 1, unknown: 2, failed: 3, new: 4 };

/**
 * Matches the rows of an input with the entries of a ledger. Equal rows are interchangeable. If there are fewer rows
 * than entries, entries are used in the order of `RANKS`, beginning with `added`. Therefore, removing, inserting or
 * moving rows never adds an animal again. Rows without an entry get numbers that no entry has.
 */
export function plan(
  rows: readonly PetRow[],
  entries: Iterable<LedgerEntry>,
  circumstances: Circumstances,
): Plan {
  const rank = (entry: LedgerEntry) => RANKS[classify(entry, circumstances)];
  const counts: Plan['counts'] = { new: 0, added: 0, failed: 0, ambiguous: 0, unknown: 0 };
  /** The number of equal rows, by hash. */
  const copies = new Map<string, number>();
  const planned = rows.map(({ line, pet }): PlannedRow => {
    const hash = animalHash(pet);
    const n = (copies.get(hash) ?? 0) + 1;
    copies.set(hash, n);
    return { line, pet, hash, n, status: 'new', entry: undefined };
  });
  const unmatched = groupBy(entries, ({ hash }) => hash);
  /** The numbers and entries of equal rows by hash, in the order of the rows. */
  const matches = new Map<string, Pick<PlannedRow, 'n' | 'entry'>[]>();
  for (const [hash, known] of unmatched) {
    const count = copies.get(hash) ?? 0;
    const taken = new Set(known.map(({ n }) => n));
    known.sort((a, b) => rank(a) - rank(b) || a.n - b.n);
    // Sort by number, so that each row of an unchanged file gets the same entry as before.
    const matched = known.splice(0, count).sort((a, b) => a.n - b.n);
    const equal: Pick<PlannedRow, 'n' | 'entry'>[] = matched.map((entry) => ({ n: entry.n, entry }));
    for (let n = 1; equal.length < count; n++) if (!taken.has(n)) equal.push({ n, entry: undefined });
    matches.set(hash, equal);
  }
  for (const row of planned) {
    Object.assign(row, matches.get(row.hash)?.[row.n - 1]);
    row.status = classify(row.entry, circumstances);
    counts[row.status]++;
  }
  return { rows: planned, counts, gone: [...unmatched.values()].flat() };
}

/** Groups items by a key, in the order of the items. */
export function groupBy<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

/** The status that an entry gives its row. */
export function classify(entry: LedgerEntry | undefined, circumstances: Circumstances): RowStatus {
  if (entry === undefined || entry.kind === 'notSent') return 'new';
  if (entry.kind !== 'intent') return entry.kind;
  return whyNotRepeatable(entry, circumstances) === undefined ? 'ambiguous' : 'unknown';
}

/** Why a request whose outcome is open must not be repeated; undefined if it may be repeated. */
export function whyNotRepeatable(
  { at, apiKeyHash }: EntryOf<'intent'>,
  circumstances: Circumstances,
): string | undefined {
  const age = circumstances.now - Date.parse(at);
  if (!circumstances.supportsIdempotency) return 'the service may not support idempotency keys';
  if (apiKeyHash !== circumstances.apiKeyHash) return 'it was sent with another API key';
  if (age < 0) return 'the clock has been set back since then';
  if (age > IDEMPOTENT_RETRY_MS) return 'it was sent more than 23 hours ago';
  return undefined;
}
