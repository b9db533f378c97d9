import type { PetRow } from '../rows/read-file.ts';
import {
  animalHash,
  hashAt,
  type Import,
  isExpired,
  isOpen,
  joinHashes,
  type Ledger,
  type LedgerRecord,
  openRecord,
  type RecordOf,
  type RowRecord,
  timeOf,
} from './ledger.ts';

/** How the user wants rows to be handled that were imported before. By default, the import stops. */
export type Choice = 'skip-added' | 'add-again' | undefined;

/** What an earlier import has to do with a file. */
export type Match = {
  its: Import;
  /** How many rows of the file were, or may have been, added by this import. */
  known: number;
  /** How many rows the file and the import have in common. */
  common: number;
  /** How many rows this import has added, or may have added. */
  sent: number;
};

export type Plan =
  /** The user has to choose. `ids` are the ids in the file. */
  { kind: 'stop'; known: number; open: number; matches: Match[]; ids: unknown[] } | Carried;

export type Carried = {
  /** `nothing`: every row is known, and nothing can be found out about it. */
  kind: 'begin' | 'resume' | 'nothing';
  /** The `seq` of the import. */
  import: number;
  /** The rows of the file, and the index of each in the import. A million objects with both would take 60 MB. */
  rows: readonly PetRow[];
  indexes: readonly number[];
  /** What to record before anything is sent. With `nothing`, nothing is recorded on the disk. */
  records: LedgerRecord[];
  /** The earlier imports that have added rows of the file. */
  matches: Match[];
  /** Rows that are sent although an equal row was added before. */
  again: PetRow[];
};

/** Where a row of an import is recorded: in this import, or in the one for whose row it stands. */
export function placeOf({ imports }: Ledger, its: Import, index: number): { its: Import; index: number } {
  const record = its.rows[index];
  const to = record?.kind === 'skipped' ? record.to : undefined;
  const other = to && imports.get(to.import);
  return to && other?.rows[to.row] ? { its: other, index: to.row } : { its, index };
}

/** The latest record of a row. */
export function stateOf(ledger: Ledger, own: Import, row: number): RowRecord | undefined {
  const { its, index } = placeOf(ledger, own, row);
  return its.rows[index];
}

/** Whether a row in this state is sent. An open row is sent again only if that is safe (see inventory.ts). */
export const isToSend = (state: RowRecord | undefined): boolean =>
  state === undefined || state.kind === 'notSent' || state.kind === 'failed';

/**
 * Decides what to do with the rows of a file. Rows are compared as multisets of their hashes: two equal rows are two
 * animals. `source` is the path of the file, if it has one.
 */
export function plan(
  rows: readonly PetRow[],
  {
    ledger,
    choice,
    source,
    now,
  }: { ledger: Ledger; choice: Choice; source: string | undefined; now: number },
): Plan {
  const hashes = rows.map(({ pet }) => animalHash(pet));
  if (ledger.imports.size === 0 && rows.every(({ id }) => id === undefined)) {
    const planned = begin(rows, hashes, { ledger, source, now, skipped: () => undefined });
    return { kind: 'begin', ...planned, matches: [], again: [] };
  }
  const file = countEach(hashes);
  const current = [...ledger.imports.values()].filter((each) => !isExpired(each, now));
  const common = new Map(current.map((each) => [each, countCommon(file, each)]));

  const same = current.findLast(
    (each) => each.rows.length === rows.length && common.get(each) === rows.length,
  );
  const indexes = same && matchRows(rows, hashes, same);
  if (indexes && (same.finishedAt === undefined || choice !== 'add-again'))
    return resume(rows, indexes, same, ledger, now);

  const known = findKnown(file, ledger, now);
  const claims = claim(rows, hashes, known, ledger);
  const matches = [...ledger.imports.values()]
    .map(
      (its): Match => ({
        its,
        known: claims.filter((each) => each?.import === its.seq).length,
        common: common.get(its) ?? 0,
        sent: its.rows.filter((each) => each?.kind === 'added' || isOpen(each)).length,
      }),
    )
    .filter((each) => each.known > 0 || (each.sent > 0 && 2 * each.common >= each.its.rows.length));
  const count = claims.filter(Boolean).length;
  const ids = rows.flatMap(({ id }) => (id === undefined ? [] : [id]));

  const beginning = (skipped: (i: number) => Pick<RecordOf<'skipped'>, 'to'> | undefined) =>
    begin(rows, hashes, { ledger, source, now, skipped });
  if (choice === 'add-again') return { kind: 'begin', ...beginning(() => undefined), matches: [], again: [] };
  if (count === rows.length) {
    const claimed = beginning((i) => ({ to: claims[i] }));
    const isSettled = claims.every((to) => to && !openRecord(ledger.imports.get(to.import)?.rows[to.row]));
    return { kind: isSettled ? 'nothing' : 'begin', ...claimed, matches, again: [] };
  }
  if (choice === 'skip-added') {
    const skipped = (i: number) => {
      if (claims[i]) return { to: claims[i] };
      return rows[i]?.id === undefined ? undefined : {};
    };
    return { kind: 'begin', ...beginning(skipped), matches, again: [] };
  }
  const isFamiliar = count > 0 && source !== undefined && current.some((each) => each.source === source);
  const isUnfinished = matches.some(({ its, known }) => known > 0 && its.finishedAt === undefined);
  const isVersion = matches.some((each) => each.sent > 0 && 2 * each.common >= each.its.rows.length);
  if (ids.length > 0 || isFamiliar || isUnfinished || isVersion || (count > 0 && 2 * count >= rows.length)) {
    const open = claims.filter((to) => to && isOpen(ledger.imports.get(to.import)?.rows[to.row])).length;
    return { kind: 'stop', known: count, open, matches, ids };
  }
  const planned = beginning(() => undefined);
  return { kind: 'begin', ...planned, matches, again: rows.filter((_, i) => claims[i]) };
}

/**
 * The index in the import of each row of a file with equal rows. Undefined if a row has no id now, but was skipped by the
 * import because of its id.
 */
function matchRows(rows: readonly PetRow[], hashes: readonly string[], its: Import): number[] | undefined {
  const free = new Map<string, number[]>();
  const withId = new Map<string, number[]>();
  for (let i = its.rows.length - 1; i >= 0; i--) {
    const record = its.rows[i];
    push(record?.kind === 'skipped' && !record.to ? withId : free, hashAt(its, i), i);
  }
  const indexes = new Array<number>(rows.length).fill(-1);
  for (const hasId of [true, false]) {
    for (const [i, { id }] of rows.entries()) {
      if ((id !== undefined) !== hasId) continue;
      const hash = hashes[i] ?? '';
      const index = (hasId ? withId.get(hash)?.pop() : undefined) ?? free.get(hash)?.pop();
      if (index === undefined) return undefined;
      indexes[i] = index;
    }
  }
  return indexes;
}

/**
 * Continues an import with the rows that it has not sent, and that no other import has sent since it began. If it is
 * complete, there is nothing to do.
 */
function resume(
  rows: readonly PetRow[],
  indexes: readonly number[],
  its: Import,
  ledger: Ledger,
  now: number,
): Plan {
  const missing = indexes.filter((index) => isToSend(stateOf(ledger, its, index)));
  const wanted = countEach(missing.map((index) => hashAt(its, index)));
  const taken = new Set(its.rows.map((each) => each?.kind === 'skipped' && each.to && keyOf(each.to)));
  const since = findKnown(wanted, ledger, now, (other, row, { seq }) => {
    return other !== its && seq > its.seq && !taken.has(keyOf({ import: other.seq, row }));
  });
  const counts = new Map<Import, number>();
  for (const index of indexes) {
    const place = placeOf(ledger, its, index);
    if (place.its.rows[place.index]?.kind === 'added')
      counts.set(place.its, (counts.get(place.its) ?? 0) + 1);
  }
  const matches = [...counts].map(([its, known]): Match => ({ its, known, common: 0, sent: 0 }));
  const records: LedgerRecord[] = [];
  const common = { import: its.seq, rows, indexes, records, matches, again: [] };
  if (its.finishedAt !== undefined) {
    if (isComplete(ledger, its)) return { kind: 'nothing', ...common };
    records.push({ kind: 'resumed', import: its.seq, at: timeOf(ledger, now) });
  }
  for (const index of missing) {
    const to = since.get(hashAt(its, index))?.shift();
    if (to) records.push({ kind: 'skipped', import: its.seq, row: index, to });
  }
  return { kind: 'resume', ...common };
}

type Beginning = {
  ledger: Ledger;
  source: string | undefined;
  now: number;
  /** Set if a row is not sent. */
  skipped(index: number): Pick<RecordOf<'skipped'>, 'to'> | undefined;
};

function begin(
  rows: readonly PetRow[],
  hashes: readonly string[],
  { ledger, source, now, skipped }: Beginning,
): Pick<Carried, 'import' | 'rows' | 'indexes' | 'records'> {
  const seq = ledger.seq + 1;
  const at = timeOf(ledger, now);
  const text = joinHashes(hashes).toString('base64');
  const records: LedgerRecord[] = [
    { kind: 'import', seq, at, ...(source !== undefined && { source }), hashes: text },
  ];
  for (const row of rows.keys()) {
    const skip = skipped(row);
    if (skip) records.push({ kind: 'skipped', import: seq, row, ...skip });
  }
  return { import: seq, rows, indexes: [...rows.keys()], records };
}

/** Whether there is nothing left to do for an import, even with a failed row or one that may have been added. */
const isComplete = (ledger: Ledger, its: Import): boolean =>
  its.rows.every((_, i) => {
    const state = stateOf(ledger, its, i);
    return !isToSend(state) && !openRecord(state);
  });

type Place = { import: number; row: number };

const keyOf = ({ import: its, row }: Place) => `${its}:${row}`;

/**
 * The places of all rows that are known, by their hashes: those that were added come before those that may have been
 * added. Rows that an import has skipped do not count, because they are rows of another import.
 */
function findKnown(
  wanted: ReadonlyMap<string, number>,
  { imports }: Ledger,
  now: number,
  counts: (its: Import, row: number, record: { seq: number }) => boolean = () => true,
): Map<string, Place[]> {
  const added = new Map<string, Place[]>();
  const open = new Map<string, Place[]>();
  for (const its of imports.values()) {
    const isForgotten = isExpired(its, now);
    for (const [row, record] of its.rows.entries()) {
      const isAdded = record?.kind === 'added' && !isForgotten;
      if ((!isAdded && !isOpen(record)) || !counts(its, row, record)) continue;
      const hash = hashAt(its, row);
      if (wanted.has(hash)) push(isAdded ? added : open, hash, { import: its.seq, row });
    }
  }
  for (const [hash, places] of open) for (const place of places) push(added, hash, place);
  return added;
}

/** For each row of a file, the known row that it stands for, if there is one. */
function claim(
  rows: readonly PetRow[],
  hashes: readonly string[],
  known: Map<string, Place[]>,
  { imports }: Ledger,
): (Place | undefined)[] {
  const claims = new Array<Place | undefined>(rows.length).fill(undefined);
  const idAt = (place: Place) => {
    const record = imports.get(place.import)?.rows[place.row];
    return record?.kind === 'added' ? String(record.pet.id) : undefined;
  };
  for (const [i, { id }] of rows.entries()) {
    const places = id === undefined ? [] : (known.get(hashes[i] ?? '') ?? []);
    const own = places.findIndex((place) => idAt(place) === String(id));
    if (own >= 0) [claims[i]] = places.splice(own, 1);
  }
  // Then rows without an id, because only they can be sent.
  for (const hasId of [false, true]) {
    for (const [i, { id }] of rows.entries())
      if ((id !== undefined) === hasId) claims[i] ??= known.get(hashes[i] ?? '')?.shift();
  }
  return claims;
}

function countEach(hashes: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const hash of hashes) counts.set(hash, (counts.get(hash) ?? 0) + 1);
  return counts;
}

/** How many rows a file and an import have in common. */
function countCommon(file: ReadonlyMap<string, number>, its: Import): number {
  const used = new Map<string, number>();
  let count = 0;
  for (let i = 0; i < its.rows.length; i++) {
    const hash = hashAt(its, i);
    const before = used.get(hash) ?? 0;
    if (before >= (file.get(hash) ?? 0)) continue;
    used.set(hash, before + 1);
    count++;
  }
  return count;
}

function push<Value>(groups: Map<string, Value[]>, key: string, value: Value): void {
  const group = groups.get(key);
  if (group) group.push(value);
  else groups.set(key, [value]);
}
