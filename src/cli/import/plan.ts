import type { PetRow } from '../rows/read-file.ts';
import {
  animalHash,
  type Import,
  isUnknown,
  type Ledger,
  nextRecordTime,
  type RecordOf,
  type RowPosition,
  type RowRecord,
  startImport,
} from './ledger.ts';

/*
 * What an import does with a file:
 *
 * 1. Rows are compared as multisets of their hashes: two equal rows are two animals.
 * 2. An earlier import of the same rows continues (after its end, not with `--add-again`). Otherwise a new one begins.
 * 3. A row that this import has added is not sent again. Neither is a row that another import has added: at any time with
 *    `--skip-added`, otherwise only since this import began.
 * 4. If the user may not expect that rows are sent again, the new import stops before it begins.
 * 5. A row that may have been added is settled first, wherever it is recorded, unless the import adds known rows again.
 */

/** How the user wants rows to be handled that were imported before. If undefined, `plan` decides, and may stop. */
export type Choice = 'skip-added' | 'add-again' | undefined;

export type Plan = {
  /** The import to begin or to continue. */
  its: Import;
  rows: readonly PetRow[];
  /** The index of each row of the file in the import. */
  indexes: readonly number[];
  /** Where the known rows are recorded that other imports added, or may have added, by their positions in the file. */
  known: ReadonlyMap<number, RowPosition>;
  /** What happens to the known rows: `ask` means that the import does not begin until the user chooses. */
  mode: 'skip' | 'again' | 'ask';
  /** The rows before the import begins or continues. */
  groups: RowGroups;
  /** How the file differs from earlier versions. */
  changes: readonly Changes[];
};

/** How a file differs from that of an earlier import, if it is probably another version of that file. */
export type Changes = {
  its: Import;
  /** How many rows of the import are in the file. */
  common: number;
  /**
   * Rows that would be sent, and that have the name of a known row of the import, but another category or status. The keys
   * are their positions in the file, the values the records of the known rows.
   */
  changed: ReadonlyMap<number, KnownRecord>;
  /** The records of known rows whose names and ids are not in the file. */
  missing: readonly KnownRecord[];
};

/** Whether at least half of the rows of the import are in the file. */
export const hasHalf = ({ its, common }: Changes): boolean => 2 * common >= its.rows.length;

type RowPlaces = Pick<Plan, 'its' | 'indexes' | 'known' | 'mode'>;

/** Where a row of the file is recorded, or will be. */
export function locateRow({ its, indexes, known, mode }: RowPlaces, position: number): RowPosition {
  const other = mode === 'again' ? undefined : known.get(position);
  // The row of the other import may turn out to be not added. Then this import sends it.
  return other?.its.rows[other.index] ? other : { its, index: indexes[position] ?? position };
}

export function recordOf(plan: RowPlaces, position: number): RowRecord | undefined {
  const { its, index } = locateRow(plan, position);
  return its.rows[index];
}

/**
 * The positions of the rows by the kind of their record; `new` have none, and `withId` are not sent because of their id.
 * `pending` are the rows to send: those never sent, those rejected before, and those that may turn out not added.
 */
type RowGroups = Record<RowRecord['kind'] | 'new' | 'withId' | 'pending', number[]>;

export function groupRows(plan: RowPlaces & Pick<Plan, 'rows'>): RowGroups {
  const groups: RowGroups = {
    new: [],
    withId: [],
    open: [],
    added: [],
    failed: [],
    answered: [],
    pending: [],
  };
  for (let i = 0; i < plan.rows.length; i++) {
    const isExcluded = plan.its.skipAdded && plan.rows[i]?.id !== undefined;
    const kind = recordOf(plan, i)?.kind ?? (isExcluded ? 'withId' : 'new');
    groups[kind].push(i);
    if (kind === 'new' || kind === 'failed' || kind === 'open') groups.pending.push(i);
  }
  return groups;
}

/** Decides what to do with the rows of a file. `source` is the path of the file, if it has one. */
export function plan(
  rows: readonly PetRow[],
  ledger: Ledger,
  { choice, source, now }: { choice: Choice; source: string | undefined; now: number },
): Plan {
  const imports = [...ledger.imports.values()];
  const hashes = rows.map(({ pet }) => animalHash(pet));
  const ids = rows.map(({ id }) => id);
  const hasIds = ids.some((id) => id !== undefined);
  /** The hashes that an import has for these rows. */
  const hashesFor = (skipAdded: boolean) =>
    hasIds && skipAdded ? rows.map(({ pet, id }) => animalHash(pet, id)) : hashes;

  function complete(places: RowPlaces): Plan {
    const groups = groupRows({ ...places, rows });
    const sent = groups.new.concat(groups.failed).filter((position) => !places.known.has(position));
    const others = imports.filter((each) => each !== places.its);
    return { ...places, rows, groups, changes: findChanges(rows, hashes, sent, others) };
  }

  for (const its of imports.toReversed()) {
    if (its.rows.length !== rows.length || (its.finishedAt !== undefined && choice === 'add-again')) continue;
    const indexes = pair(hashesFor(its.skipAdded), its);
    if (indexes.includes(-1)) continue;
    const { new: fresh, failed, withId } = groupRows({ its, rows, indexes, known: new Map(), mode: 'skip' });
    const counts = (place: RowPosition) =>
      place.its !== its && (its.skipAdded || (place.its.rows[place.index]?.seq ?? 0) > its.seq);
    const wanted = { hashes, ids: its.skipAdded ? ids : [] };
    const known = findKnown([...fresh, ...failed, ...withId], wanted, imports, counts);
    return complete({ its, indexes, known, mode: 'skip' });
  }

  const known = findKnown([...rows.keys()], { hashes, ids }, imports);
  const skipAdded = choice === 'skip-added' || (choice === undefined && known.size === rows.length);
  const [seq, at] = [ledger.seq + 1, nextRecordTime(ledger, now)];
  const its = startImport({ kind: 'import', seq, at, source, skipAdded, hashes: hashesFor(skipAdded) });
  const planned = complete({ its, indexes: [...rows.keys()], known, mode: skipAdded ? 'skip' : 'again' });
  if (choice !== undefined || skipAdded) return planned;
  const isFamiliar = source !== undefined && imports.some((other) => other.source === source);
  const isUnfinished = [...known.values()].some((place) => place.its.finishedAt === undefined);
  const isMuch = isFamiliar || isUnfinished || 2 * known.size >= rows.length;
  const mustAsk = hasIds || planned.changes.some(hasHalf) || (known.size > 0 && isMuch);
  return mustAsk ? { ...planned, mode: 'ask' } : planned;
}

type KnownRecord = RecordOf<'open' | 'added' | 'answered'>;

const nameIn = (record: KnownRecord): string => (record.kind === 'added' ? record.pet.name : record.name);

/**
 * Compares a file with earlier imports of which it is probably another version: at least half of their rows are in the
 * file, or half of their known rows by name or id. The latest import comes first. A row with an id is never reported.
 *
 * @param unknown the positions of the rows that are not known, and would be sent
 */
function findChanges(
  rows: readonly PetRow[],
  hashes: readonly string[],
  unknown: readonly number[],
  imports: readonly Import[],
): Changes[] {
  if (imports.length === 0) return [];
  const names = new Set(rows.map(({ pet }) => pet.name));
  const ids = new Set(rows.map(({ id }) => String(id)));
  const isPresent = (record: KnownRecord) =>
    names.has(nameIn(record)) || (record.kind === 'added' && ids.has(String(record.pet.id)));
  const reported = new Set<number>();
  return imports.toReversed().flatMap((its) => {
    const common = new Set(pair(hashes, its));
    common.delete(-1);
    const known = its.rows.filter(isKnown);
    const left = its.rows.filter((record, i): record is KnownRecord => isKnown(record) && !common.has(i));
    const missing = left.filter((record) => !isPresent(record));
    const byName = new Map(left.map((record) => [nameIn(record), record]));
    const changed = new Map<number, KnownRecord>();
    for (const i of unknown) {
      const record = byName.get(rows[i]?.pet.name ?? '');
      if (record && rows[i]?.id === undefined && !reported.has(i)) changed.set(i, record);
    }
    const changes: Changes = { its, common: common.size, changed, missing };
    if (known.length === 0 || (!hasHalf(changes) && 2 * missing.length > known.length)) return [];
    for (const i of changed.keys()) reported.add(i);
    return [changes];
  });
}

/** Whether the row was added, or may have been added. */
export const isKnown = (record: RowRecord | undefined): record is KnownRecord =>
  record?.kind === 'added' || isUnknown(record);

export const importsOf = (places: Iterable<RowPosition>): Set<Import> =>
  new Set(Array.from(places, ({ its }) => its));

/** For each hash the index of an equal row of the import, or -1. No two hashes get the same row. */
function pair(hashes: readonly string[], its: Import): number[] {
  const take = takeByKey(its.rows.keys(), (index) => its.hashes[index]);
  return hashes.map((hash) => take(hash) ?? -1);
}

/**
 * Pairs rows of the file with equal known rows for which `counts` is true: first with added ones, then with those that
 * may have been. A row with an id is paired only with an animal that has this id. The keys are positions in the file.
 */
function findKnown(
  positions: readonly number[],
  { hashes, ids }: { hashes: readonly string[]; ids: readonly unknown[] },
  imports: readonly Import[],
  counts: (place: RowPosition) => boolean = () => true,
): ReadonlyMap<number, RowPosition> {
  const found = new Map<number, RowPosition>();
  if (imports.length === 0) return found;
  const wanted = new Set(positions.map((i) => hashes[i]));
  const [added, unknown]: [RowPosition[], RowPosition[]] = [[], []];
  for (const its of imports) {
    for (const [index, record] of its.rows.entries()) {
      if (!isKnown(record) || !wanted.has(its.hashes[index]) || !counts({ its, index })) continue;
      (record?.kind === 'added' ? added : unknown).push({ its, index });
    }
  }
  const hashOf = ({ its, index }: RowPosition) => its.hashes[index];
  const keyWithId = (hash: string | undefined, id: unknown) => `${hash} ${id}`;
  const takeWithId = takeByKey(added, (place) => {
    const record = place.its.rows[place.index];
    return keyWithId(hashOf(place), record?.kind === 'added' ? record.pet.id : undefined);
  });
  for (const i of positions) {
    const place = ids[i] === undefined ? undefined : takeWithId(keyWithId(hashes[i], ids[i]));
    if (place) found.set(i, place);
  }
  const taken = new Set(found.values());
  const take = takeByKey([...added.filter((place) => !taken.has(place)), ...unknown], hashOf);
  for (const i of positions) {
    const place = ids[i] === undefined ? take(hashes[i]) : undefined;
    if (place) found.set(i, place);
  }
  return found;
}

/** Returns a function that takes an item with a key, in the order of the items, and no item twice. */
function takeByKey<Item>(
  items: Iterable<Item>,
  keyOf: (item: Item) => string | undefined,
): (key: string | undefined) => Item | undefined {
  const groups = new Map<string | undefined, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  // Taking the last item of a list takes less time than taking the first one.
  for (const group of groups.values()) group.reverse();
  return (key) => groups.get(key)?.pop();
}
