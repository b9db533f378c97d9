import type { PetRow } from '../rows/read-file.ts';
import {
  animalHash,
  digestOf,
  type Import,
  type Ledger,
  type LedgerRow,
  nextTime,
  type SentRow,
} from './ledger.ts';

/*
 * What an import does with the rows of a file, some of which the ledger may know:
 * 1. Known rows that may have been added are settled first (send.ts).
 * 2. The same rows as in an earlier import, in any order: that import continues with the rows that it has not added. With
 *    `--add-again`, only an unfinished import continues, or one with a row that can be settled.
 * 3. A file whose rows are all known, or whose known rows can all be settled: the other rows are sent without a question.
 *    `--add-again` also sends the known rows, except those that can be settled and those of unfinished imports.
 * 4. Another version of an earlier file: the user chooses whether known rows are skipped, or added again as in rule 3.
 * 5. Any other file: all rows are sent (with `--skip-added` only new ones), and a note names the known ones.
 *
 * Rows are compared as multisets: two equal rows are two animals.
 */

/** How the user wants known rows to be handled; undefined if the user has not chosen. */
export type Choice = 'skip-added' | 'add-again' | undefined;

/** Rows of the ledger by the position of the equal row in the file. */
export type RowsByPosition = ReadonlyMap<number, LedgerRow>;

/** What a run does, and what it has done so far. A position is an index of `rows`. */
export type Plan = {
  ledger: Ledger;
  /** The import to begin or to continue. */
  current: Import;
  rows: readonly PetRow[];
  /** The ledger's rows that the plan does not repeat: when the plan was made, they were added, or may have been added. */
  known: RowsByPosition;
  /** The rows that are sent, although the ledger knows equal rows. */
  repeated: RowsByPosition;
  /** If true, the user must choose before any row is sent, and `known` has all rows that the ledger knows. */
  mustAsk: boolean;
  /** The `seq` of each row in the ledger, by position; undefined until a new or repeated row is sent. */
  seqs: (number | undefined)[];
  /** Why the service rejected rows in this run, by position. */
  rejected: Map<number, { code: string; message: string; status: number }>;
};

export const ledgerRowAt = ({ seqs, ledger }: Plan, position: number): LedgerRow | undefined =>
  ledger.rows.get(seqs[position] ?? 0);

/** The ledger's row for this position if it may have been added, but no response shows it. Otherwise undefined. */
export function openRowAt(plan: Plan, position: number): SentRow | undefined {
  const row = ledgerRowAt(plan, position);
  return row?.kind === 'sent' ? row : undefined;
}

/** Whether the next import with an equal row first finds out whether this one was added, instead of adding it again. */
export const canBeSettled = (row: LedgerRow | undefined): boolean =>
  row?.kind === 'sent' && !row.isAnswered && !row.isCompared;

/** The positions of the rows to send, and of those to settle: they may have been added, but no 2xx response arrived. */
export const pendingOf = (plan: Plan): number[] =>
  [...plan.rows.keys()].filter((position) => {
    const row = ledgerRowAt(plan, position);
    return row?.kind !== 'added' && !row?.isAnswered;
  });

/** Decides what to do with the rows of a file. `file` is its real path, if it has one. */
export function planImport(
  rows: readonly PetRow[],
  ledger: Ledger,
  { choice, file, now }: { choice: Choice; file: string | undefined; now: number },
): Plan {
  const hashes = rows.map(({ pet }) => animalHash(pet));
  const digest = digestOf(hashes);
  const imports = [...ledger.imports.values()];
  const planWith = (current: Import, known: RowsByPosition, more: Partial<Plan> = {}): Plan => {
    const seqs = hashes.map((_, i) => known.get(i)?.seq);
    const none = { repeated: new Map(), mustAsk: false, rejected: new Map() };
    return { ledger, current, rows, known, seqs, ...none, ...more };
  };
  const open = [...ledger.rows.values()].filter(canBeSettled);
  const same = imports.findLast(
    (other) =>
      other.rows === rows.length &&
      other.digest === digest &&
      (other.finishedAt === null || choice !== 'add-again' || open.some((row) => row.import === other.seq)),
  );
  if (same) return planWith(same, findKnown(hashes, ledger, same));

  const fresh = { kind: 'import', seq: ledger.seq + 1, at: nextTime(ledger, now) } as const;
  const current: Import = { ...fresh, file, rows: rows.length, digest, finishedAt: null };
  const all = findKnown(hashes, ledger, current);
  const unfinished = imports.filter(({ finishedAt }) => finishedAt === null).map(({ seq }) => seq);
  // Whether no row is known, or only rows that may have been added, and are settled first.
  const isRest = [...all.values()].every(
    (row) => canBeSettled(row) || (row.kind === 'sent' && unfinished.includes(row.import)),
  );
  const isPart = !isRest && all.size < rows.length;
  const mustAsk = choice === undefined && isPart && isVersionOfEarlierFile(hashes, file, ledger, all);
  const isRepeated = choice === 'add-again' || (choice === undefined && isPart && !mustAsk);
  if (!isRepeated) return planWith(current, all, { mustAsk });
  const again: Import = { ...current, except: [...unfinished, ...open.map(({ seq }) => seq)] };
  const known = findKnown(hashes, ledger, again);
  return planWith(again, known, { repeated: new Map([...all].filter(([position]) => !known.has(position))) });
}

/**
 * Whether a file is probably another version of an earlier one: at least half of its rows are known, it has the path of an
 * earlier file, it has rows of an unfinished import, or it has all rows that the ledger knows of an import.
 */
function isVersionOfEarlierFile(
  hashes: readonly string[],
  file: string | undefined,
  { imports, rows }: Ledger,
  known: RowsByPosition,
): boolean {
  if (2 * known.size >= hashes.length) return true;
  const isSamePath = (other: Import) => file !== undefined && other.file === file;
  if ([...imports.values()].some(isSamePath)) return true;
  if ([...known.values()].some((row) => imports.get(row.import)?.finishedAt === null)) return true;
  const wanted = new Set(hashes);
  const [present, missing] = [new Set<number>(), new Set<number>()];
  for (const row of rows.values()) (wanted.has(row.hash) ? present : missing).add(row.import);
  return [...present].some((seq) => !missing.has(seq));
}

/**
 * Pairs rows of the file with equal rows of the ledger: first with added rows, then with rows that may have been added. If
 * the import adds known rows again, only those sent since it began count, and those in `except`.
 */
function findKnown(hashes: readonly string[], { rows }: Ledger, { seq, except }: Import): RowsByPosition {
  const found = new Map<number, LedgerRow>();
  if (rows.size === 0) return found;
  const excepted = except && new Set(except);
  const groups = new Map(hashes.map((hash): [string, LedgerRow[]] => [hash, []]));
  for (const kind of ['added', 'sent'] as const) {
    for (const row of rows.values()) {
      const counts = !excepted || row.seq > seq || excepted.has(row.import) || excepted.has(row.seq);
      if (row.kind === kind && counts) groups.get(row.hash)?.push(row);
    }
  }
  // Taking the last item of a list takes less time than taking the first one.
  for (const group of groups.values()) group.reverse();
  for (const [position, hash] of hashes.entries()) {
    const row = groups.get(hash)?.pop();
    if (row) found.set(position, row);
  }
  return found;
}
