import type { NewPet, ReceivedPet } from '../../contract/schemas.ts';
import type { LedgerEntry } from './ledger.ts';
import { groupBy, type PlannedRow } from './plan.ts';

/*
 * Decides whether rows with an unknown outcome were added, by comparing them with a complete list of the animals. Two
 * kinds of animals are compared with a row:
 *
 *   equal     name, category and status are the same. Only an equal animal shows that a row was added.
 *   similar   the animal may be the row's although it differs, because the service may change how a name is written,
 *             may not send the category, or may have sold the animal since. While there is a similar animal, the row
 *             may have been added. Equal animals are similar, too.
 *
 * Animals with known ids do not count, because they belong to other rows. Animals that existed before the row was sent
 * do not count either. They are recognized by their ids if the service assigns ascending ids (see `idsAscend`).
 *
 * Equal rows are interchangeable, so only their number matters. For example, if two equal rows are unknown and there is
 * one similar animal, at least one of the rows was not added, and it does not matter which one is sent again.
 */

export type Verdict =
  | { result: 'added'; pet: ReceivedPet }
  | { result: 'notAdded' }
  /** The candidates are the animals that may be the row's: those with the highest ids, if there are many. */
  | { result: 'unknown'; candidates: ReceivedPet[] };

const MAX_CANDIDATES = 20;

/** An id as a map key. A service may send the same id as a number in one response and as text in another one. */
export const idKey = ({ id }: Pick<ReceivedPet, 'id'>): string => String(id);

/**
 * Decides about rows whose outcome is unknown. Equal rows count as added if there is exactly one new equal animal for
 * each. They stay unknown if there are more new equal animals, because another client has added at least one of them.
 *
 * @param listing all animals in the inventory that are similar to a row; an animal may be listed twice
 * @param knownIds the `idKey` of each animal that belongs to another row
 * @param ascending whether the service assigns ascending ids
 */
export function settle(
  rows: readonly PlannedRow[],
  listing: Iterable<ReceivedPet>,
  { knownIds, ascending }: { knownIds: ReadonlySet<string>; ascending: boolean },
): Map<PlannedRow, Verdict> {
  const unclaimed = new Map<string, ReceivedPet>();
  for (const pet of listing) if (!knownIds.has(idKey(pet))) unclaimed.set(idKey(pet), pet);
  const animals = [...unclaimed.values()].sort(descending(idOrder));
  const isOrdered = ascending && animals.every(({ id }) => typeof id === 'bigint');
  const boundOf = ({ entry }: PlannedRow): Bound => (isOrdered ? entry?.highestId : undefined) ?? -Infinity;
  const byName = groupBy(animals, nameKey);
  // In this order, an animal that may belong to a row may also belong to the rows after it, which have lower bounds.
  const groups = [...groupBy(rows.toSorted(descending(boundOf)), ({ hash }) => hash).values()];
  const similarTo = ([row]: readonly PlannedRow[]) =>
    row ? (byName.get(nameKey(row.pet)) ?? []).filter((pet) => isSimilar(row.pet, pet)) : [];

  const verdicts = new Map<PlannedRow, Verdict>();
  const claimed = new Set<ReceivedPet>();
  for (const group of groups) {
    for (const [row, pet] of matchNew(group, similarTo(group), boundOf)) {
      verdicts.set(row, { result: 'added', pet });
      claimed.add(pet);
    }
  }
  for (const group of groups) {
    const similar = similarTo(group).filter((pet) => !claimed.has(pet));
    let unknown = 0;
    for (const row of group) {
      if (verdicts.has(row)) continue;
      const count = countAbove(similar, boundOf(row));
      // Each of these animals can belong to one row only.
      const isOpen = count > unknown;
      if (isOpen) unknown++;
      verdicts.set(
        row,
        isOpen
          ? { result: 'unknown', candidates: similar.slice(0, Math.min(count, MAX_CANDIDATES)) }
          : { result: 'notAdded' },
      );
    }
  }
  return verdicts;
}

/** Ids that differ by at most this are not random. They come from a counter, which may count in steps. */
const CLOSE = 10n;

/**
 * Whether the rows that were added show that the service assigns ascending ids. Each id must be higher than the highest
 * id before its row was sent, and at least one of them by at most `CLOSE`.
 */
export function idsAscend(entries: Iterable<LedgerEntry>): boolean {
  let isCounter = false;
  for (const entry of entries) {
    if (entry.kind !== 'added' || entry.highestId === undefined) continue;
    const { id } = entry.pet;
    if (typeof id !== 'bigint' || id <= entry.highestId) return false;
    isCounter ||= id - entry.highestId <= CLOSE;
  }
  return isCounter;
}

/** The highest id before a row was sent; -Infinity if it is not known. Animals with higher ids may be the row's. */
type Bound = bigint | number;

/**
 * Finds the new equal animal of each row in a group of equal rows. The rows are in descending order of their bounds, the
 * animals in descending order of their ids.
 */
function matchNew(
  group: readonly PlannedRow[],
  similar: readonly ReceivedPet[],
  boundOf: (row: PlannedRow) => Bound,
): [PlannedRow, ReceivedPet][] {
  const equal = similar.filter((pet) => group[0] && isEqual(group[0].pet, pet));
  const matches: [PlannedRow, ReceivedPet][] = [];
  /** Rows that are not matched yet, because there are more new animals for them than rows. */
  let waiting: PlannedRow[] = [];
  for (const row of group) {
    const bound = boundOf(row);
    const unmatched = bound === -Infinity ? [] : equal.slice(matches.length, countAbove(equal, bound));
    if (unmatched.length > 0) waiting.push(row);
    if (unmatched.length !== waiting.length) continue;
    for (const [i, pet] of unmatched.entries()) matches.push([waiting[i] as PlannedRow, pet]);
    waiting = [];
  }
  return matches;
}

/** The number of animals with ids above a bound. The animals are in descending order of their ids. */
function countAbove(pets: readonly ReceivedPet[], bound: Bound): number {
  const count = pets.findIndex((pet) => idOrder(pet) <= bound);
  return count < 0 ? pets.length : count;
}

const idOrder = ({ id }: ReceivedPet): Bound => (typeof id === 'bigint' ? id : Infinity);

const descending =
  <Item>(orderOf: (item: Item) => Bound) =>
  (a: Item, b: Item): number => {
    const [x, y] = [orderOf(a), orderOf(b)];
    if (x === y) return 0;
    return x < y ? 1 : -1;
  };

const isEqual = (row: NewPet, { name, categoryId, status }: ReceivedPet): boolean =>
  name === row.name &&
  categoryId === row.categoryId &&
  (status ?? 'available') === (row.status ?? 'available');

/** Whether an animal may be the one that was added for a row. */
export const isSimilar = (row: NewPet, { name, categoryId }: ReceivedPet): boolean =>
  nameKey({ name }) === nameKey(row) && (typeof categoryId !== 'bigint' || categoryId === row.categoryId);

/** Two names with the same `nameKey` differ only in ways in which a service may change how a name is written. */
export const nameKey = ({ name }: { name: string }): string => name.normalize().trim().toLowerCase();
