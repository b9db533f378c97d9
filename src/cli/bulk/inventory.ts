import type { Client } from '../../client/client.ts';
import { listPages, type PetPage } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { BEFORE_FIRST_ID, createHighestId, type HighestId } from './highest-id.ts';
import type { PlannedRow } from './plan.ts';
import { idKey, isSimilar, nameKey } from './settle.ts';

/** What a list of all animals shows about the rows of a file. */
export type Inventory = {
  /** The animals that have the same `nameKey` as an unknown row. */
  pets: ReceivedPet[];
  /** The number of animals. */
  count: number;
  highestId: HighestId;
  /** Why animals may be missing in the list; undefined if the list is complete. */
  whyIncomplete: string | undefined;
};

/**
 * Lists all animals. A list only counts as complete if it shows every row that was added. If no row was added, the list
 * only counts if the service respects `limit`, because a service that ignores `limit` may send only its first page,
 * without a link to the next one.
 *
 * @throws ClientError
 */
export async function listInventory(
  client: Client,
  rows: readonly PlannedRow[],
  unknown: readonly PlannedRow[],
): Promise<Inventory> {
  const names = new Set(unknown.map(({ pet }) => nameKey(pet)));
  const unlisted = addedRows(rows);
  const hasAdded = unlisted.size > 0;
  const inventory: Inventory = {
    pets: [],
    count: 0,
    highestId: createHighestId(),
    whyIncomplete: undefined,
  };
  let more: PetPage['more'] = 'no';
  for await (const page of listPages(client, { limit: pageSize.max }, pageSize.max, {
    canPrefetch: () => true,
  })) {
    more = page.more;
    inventory.count += page.pets.length;
    for (const pet of page.pets) {
      inventory.highestId.add(pet.id);
      if (names.has(nameKey(pet))) inventory.pets.push(pet);
      const row = unlisted.get(idKey(pet));
      if (row && isSimilar(row.pet, pet)) unlisted.delete(idKey(pet));
    }
  }
  if (inventory.count === 0) inventory.highestId.add(BEFORE_FIRST_ID);
  const [missing] = unlisted;
  // After a full page without a link, animals may be missing. A service that sends more than a full page probably sends
  // all animals.
  if (more === 'unknown' && inventory.count === pageSize.max)
    inventory.whyIncomplete = 'the service sends no link to a next page';
  else if (missing)
    inventory.whyIncomplete = `animal ${missing[0]}, which was added for line ${missing[1].line}, is missing or has changed`;
  else if (!hasAdded && !(await respectsLimit(client, inventory.count)))
    inventory.whyIncomplete = 'the service ignores the limit of animals per page';
  return inventory;
}

/** The rows that were added, by the `idKey` of their animals. */
function addedRows(rows: readonly PlannedRow[]): Map<string, PlannedRow> {
  const added = new Map<string, PlannedRow>();
  for (const row of rows) if (row.entry?.kind === 'added') added.set(idKey(row.entry.pet), row);
  return added;
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
