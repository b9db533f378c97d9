import { IDEMPOTENT_RETRY_MS } from '../../client/request-with-retry.ts';
import type { PetRow } from '../rows/read-pet-file.ts';
import { allEntries, type EntryOf, entryOf, type Ledger, type LedgerEntry } from './ledger.ts';

export type InputRow = PetRow & { hash: string };

/**
 * What is to be done with a row: `new` and `failed` are sent, `ambiguous` is repeated with its own idempotency key, `added`
 * and `unknown` are not sent.
 */
export type RowStatus = 'new' | 'added' | 'failed' | 'ambiguous' | 'unknown';

export type PlannedRow = InputRow & { n: number; status: RowStatus };

export type Plan = {
  /** In the order of the input. */
  rows: PlannedRow[];
  counts: Record<RowStatus, number>;
  /** Entries that have no row in the input. */
  gone: LedgerEntry[];
};

/** How many rows are to be sent. */
export const countToSend = ({ counts }: Plan): number => counts.new + counts.failed + counts.ambiguous;

/** How many rows were sent before and may have been added. */
export const countSent = ({ counts }: Plan): number => counts.added + counts.ambiguous + counts.unknown;

/** `now` is in milliseconds since the epoch; `honoursKeys`: whether the service supports idempotency keys. */
export type Circumstances = { now: number; apiKeyHash: string; honoursKeys: boolean };

/**
 * Matches the rows of an input with the entries of a ledger. Equal rows are interchangeable: if there are fewer of them
 * than entries, those that were added match first, then ambiguous, unknown and failed ones, so that removing, inserting
 * or moving rows never adds an animal again. Further rows get numbers that no entry has.
 */
export function plan(
  rows: readonly InputRow[],
  ledger: Pick<Ledger, 'entries'> = { entries: new Map() },
  circumstances: Circumstances,
): Plan {
  const totals = new Map<string, number>();
  for (const { hash } of rows) totals.set(hash, (totals.get(hash) ?? 0) + 1);
  const numbers = new Map<string, number[]>();
  const numberOf = ({ hash }: InputRow): number => {
    const total = totals.get(hash) ?? 0;
    const equal = ledger.entries.get(hash) ?? [];
    if (total === 1 && equal.length === 0) return 1;
    const left = numbers.get(hash) ?? assignNumbers(total, equal, circumstances);
    numbers.set(hash, left);
    return left.pop() ?? 1;
  };
  const counts: Plan['counts'] = { new: 0, added: 0, failed: 0, ambiguous: 0, unknown: 0 };
  const gone = new Set(allEntries(ledger));
  const planned = rows.map((row): PlannedRow => {
    const n = numberOf(row);
    const entry = entryOf(ledger, { hash: row.hash, n });
    const status = classify(entry, circumstances);
    counts[status]++;
    if (entry) gone.delete(entry);
    return { ...row, n, status };
  });
  return { rows: planned, counts, gone: [...gone] };
}

const RANKS: Record<RowStatus, number> = { added: 0, ambiguous: 1, unknown: 2, failed: 3, new: 4 };

/** The numbers for so many equal rows; that of the last row comes first. */
function assignNumbers(rows: number, equal: readonly LedgerEntry[], circumstances: Circumstances): number[] {
  const rank = (entry: LedgerEntry) => RANKS[classify(entry, circumstances)];
  const numbers = equal
    .filter(Boolean)
    .sort((a, b) => rank(a) - rank(b) || a.n - b.n)
    .slice(0, rows)
    .map(({ n }) => n)
    .sort((a, b) => a - b);
  for (let n = 1; numbers.length < rows; n++) if (!equal[n - 1]) numbers.push(n);
  return numbers.reverse();
}

/** What an entry means for its row. */
export function classify(entry: LedgerEntry | undefined, circumstances: Circumstances): RowStatus {
  if (entry === undefined || entry.kind === 'notSent') return 'new';
  if (entry.kind !== 'intent') return entry.kind;
  return whyNotRepeatable(entry, circumstances) === undefined ? 'ambiguous' : 'unknown';
}

/** Why a request whose outcome is open must not be repeated; undefined if it may. */
export function whyNotRepeatable(
  { at, apiKeyHash }: EntryOf<'intent'>,
  circumstances: Circumstances,
): string | undefined {
  const age = circumstances.now - Date.parse(at);
  if (!circumstances.honoursKeys) return 'the service may not support idempotency keys';
  if (apiKeyHash !== circumstances.apiKeyHash) return 'it was sent with another API key';
  if (age < 0) return 'the clock has been set back since then';
  if (age > IDEMPOTENT_RETRY_MS) return 'it was sent more than 23 hours ago';
  return undefined;
}
