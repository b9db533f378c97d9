import type { Client } from '../../client/client.ts';
import { IDEMPOTENT_RETRY_MS } from '../../client/retry.ts';
import type { SteadyClock } from '../../contract/clock.ts';
import { pageSize } from '../../contract/operations.ts';
import type { NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { type Progress, readPages } from '../animals/list-animals.ts';
import type { Ledger, LedgerFile, RecordOf } from './ledger.ts';

/*
 * What becomes of open rows, which may have been added although no response shows it. If it is safe, the request is
 * repeated with the same idempotency key. Otherwise the row is compared with all animals of the service. If one of them
 * may be the row's, the row stays unknown and is not sent. If none is, the row was not added, and is sent.
 *
 * An animal may be the row's although it differs, because the service may change how a name is written, may not send the
 * category, or may have sold the animal since. Animals that the ledger has for other rows do not count.
 */

/** A row that may have been added. */
export type OpenRow = { pet: NewPet; record: RecordOf<'open'> };

/** Why a request whose outcome is open must not be repeated; undefined if it may be repeated. */
export function whyNotRepeatable(
  { at, apiKeyHash }: RecordOf<'open'>,
  present: { ledger: Ledger; now: number; apiKeyHash: string; supportsIdempotency: boolean },
): string | undefined {
  const { now, ledger } = present;
  if (!present.supportsIdempotency) return 'the service may not support idempotency keys';
  if (apiKeyHash !== present.apiKeyHash) return 'it was sent with another API key';
  if (now < Date.parse(ledger.at)) return 'the clock has been set back since then';
  if (now - Date.parse(at) > IDEMPOTENT_RETRY_MS) return 'it was sent more than 23 hours ago';
  return undefined;
}

/**
 * How long to wait before a list can show that rows were not added, in milliseconds. Until `timeout` has passed after
 * the request, the service may still add the animal.
 */
export function waitBeforeListing(rows: readonly OpenRow[], now: number, timeout: number): number {
  // If a run was killed, it is not known when its last request ended. Limit the wait, because `endedAt` may be in the
  // future if the clock was set back since then.
  const waits = rows.map(({ record: { endedAt } }) =>
    endedAt === undefined ? timeout : Math.min(timeout, Date.parse(endedAt) + timeout - now),
  );
  return waits.reduce((a, b) => Math.max(a, b), 0);
}

const MAX_CANDIDATES = 20;

export type InventoryOptions = {
  client: Client;
  clock: SteadyClock;
  /** Shows how much of the list was read. */
  progress: Pick<Progress, 'show' | 'end'>;
};

/** The result of a comparison. `whyIncomplete` is set if the list may lack animals; then all rows stay unknown. */
export type Comparison = {
  rows: number;
  animals: number;
  notAdded: number;
  whyIncomplete: string | undefined;
};

/**
 * Compares rows with all animals of the service, and records what that shows.
 *
 * @throws ClientError if the animals cannot be listed, and CliError if the ledger cannot be written
 */
export async function compareWithInventory(
  rows: readonly OpenRow[],
  { ledger, append }: Pick<LedgerFile, 'ledger' | 'append'>,
  options: InventoryOptions,
): Promise<Comparison> {
  const { similar, animals, whyIncomplete } = await listSimilar(rows, addedAnimals(ledger), options);
  let notAdded = 0;
  const records = rows.map(({ pet, record: open }) => {
    const found = (similar.get(nameKey(pet)) ?? []).filter((each) => isSimilar(pet, each));
    if (whyIncomplete === undefined && found.length === 0) {
      notAdded++;
      return append({ kind: 'notSent', import: open.import, row: open.row, seq: open.seq });
    }
    const candidates = found.slice(0, MAX_CANDIDATES).map(({ id }) => id);
    const message = `may be ${found.length === 1 ? 'animal' : 'one of the animals'} ${candidates.join(', ')}`;
    const unsettled = `sent at ${open.at} without a response that shows whether the animal was added`;
    const shown =
      whyIncomplete === undefined ? { message, candidates } : { message: open.message ?? unsettled };
    return append({ endedAt: open.at, ...open, ...shown });
  });
  await Promise.all(records);
  return { rows: rows.length, animals, notAdded, whyIncomplete };
}

/** The animals that the ledger has for rows, by their ids. */
function addedAnimals({ imports }: Ledger): Map<string, ReceivedPet> {
  const added = new Map<string, ReceivedPet>();
  for (const { rows } of imports.values())
    for (const record of rows) if (record?.kind === 'added') added.set(idKey(record.pet), record.pet);
  return added;
}

/**
 * Lists all animals. A list only counts as complete if it has every animal that the ledger has. If the ledger has none,
 * the list only counts if the service respects `limit`, because a service that ignores `limit` may send only its first
 * page, without a link to the next one. Keeps the animals that may belong to a row, by their `nameKey`.
 */
async function listSimilar(
  rows: readonly OpenRow[],
  accounted: ReadonlyMap<string, ReceivedPet>,
  { client, clock, progress }: InventoryOptions,
): Promise<{ similar: Map<string, ReceivedPet[]>; animals: number; whyIncomplete: string | undefined }> {
  const similar = new Map(rows.map(({ pet }): [string, ReceivedPet[]] => [nameKey(pet), []]));
  const unlisted = new Map(accounted);
  const seen = new Set<string>();
  const onResults = (pets: readonly ReceivedPet[]) => {
    for (const pet of pets) {
      const id = idKey(pet);
      const known = accounted.get(id);
      if (known && isSimilar(known, pet)) unlisted.delete(id);
      const found = similar.get(nameKey(pet));
      // An animal may be listed twice.
      if (known || !found || seen.has(id)) continue;
      seen.add(id);
      found.push(pet);
    }
  };
  const everything = { enough: Number.POSITIVE_INFINITY, onResults, progress };
  const { pages, animals, more } = await readPages({ clock }, client, {}, everything);
  const [missing] = unlisted.keys();
  let whyIncomplete: string | undefined;
  // Without a link to more animals, some may be missing. A service that sends more than a full page at once probably
  // sends all animals.
  const isAtOnce = pages === 1 && animals > pageSize.max;
  if (more === 'unknown' && !isAtOnce) whyIncomplete = 'the service sends no link to a next page';
  else if (missing !== undefined)
    whyIncomplete = `animal ${missing}, which was added, is missing or has changed`;
  else if (accounted.size === 0 && !(await respectsLimit(client, animals)))
    whyIncomplete = 'the service ignores the limit of animals per page';
  return { similar, animals, whyIncomplete };
}

/**
 * Whether the service sends at most `limit` animals. `count` is the number of animals in the list. If it is 0, checks
 * that a list without parameters is empty too, because some services take an unknown parameter as a filter.
 */
async function respectsLimit(client: Client, count: number): Promise<boolean> {
  const query = count === 0 ? {} : { limit: 1 };
  const { value } = await client.call('listPets', { query });
  return value.length === Math.min(count, 1);
}

/** An id as a map key. A service may send the same id as a number in one response and as text in another one. */
const idKey = ({ id }: Pick<ReceivedPet, 'id'>): string => String(id);

/** Whether an animal may be the one that was added for a row. */
const isSimilar = (row: Pick<ReceivedPet, 'name' | 'categoryId'>, pet: ReceivedPet): boolean =>
  nameKey(pet) === nameKey(row) &&
  (typeof row.categoryId !== 'bigint' ||
    typeof pet.categoryId !== 'bigint' ||
    pet.categoryId === row.categoryId);

/** Two names with the same `nameKey` differ only in ways in which a service may change how a name is written. */
const nameKey = ({ name }: { name: string }): string => name.normalize().trim().toLowerCase();
