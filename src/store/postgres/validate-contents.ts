import { tryParseJson } from '../../contract/json.ts';
import type { StoreContents, StoredAnimal } from '../contents.ts';
import { StoreDamagedError } from '../errors.ts';
import { StoredPet } from '../stored-json.ts';

/**
 * Checks that the texts of all orders are valid. Checks each animal when it is read: its text must be valid, and match the
 * other columns.
 *
 * @throws StoreDamagedError, also from the animals of the result
 */
export function validateContents(contents: StoreContents, place: string): StoreContents {
  for (const [i, order] of contents.orders.entries()) {
    if (tryParseJson(order) === undefined) throw damagedRow(place, `pets.orders (order ${i + 1})`);
  }
  return { ...contents, animals: () => validateAnimals(contents.animals(), place) };
}

async function* validateAnimals(
  batches: AsyncIterable<readonly StoredAnimal[]>,
  place: string,
): AsyncGenerator<readonly StoredAnimal[]> {
  for await (const animals of batches) {
    for (const { id, status, text } of animals) {
      const { data } = StoredPet.safeParse(tryParseJson(text));
      if (data?.id !== id || data.status !== status) throw damagedRow(place, `pets.animals (id ${id})`);
    }
    yield animals;
  }
}

const damagedRow = (place: string, row: string): StoreDamagedError =>
  new StoreDamagedError(
    `${place} is damaged: a row of ${row} is not valid`,
    'restore the database from a backup; nothing was changed',
  );
