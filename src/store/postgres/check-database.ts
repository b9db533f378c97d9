import { tryParseJson } from '../../contract/json.ts';
import type { StoreContents } from '../contents.ts';
import { StoreDamagedError } from '../errors.ts';
import type { StoreReport } from '../store.ts';
import { StoredPet } from '../stored-json.ts';

/** Checks that the texts of all orders and animals are valid, and match the other columns. @throws StoreDamagedError */
export async function checkDatabase(contents: StoreContents, place: string): Promise<StoreReport> {
  for (const [i, order] of contents.orders.entries()) {
    if (tryParseJson(order) === undefined) throw damagedRow(place, `pets.orders (order ${i + 1})`);
  }
  for await (const animals of contents.animals()) {
    for (const { id, status, text } of animals) {
      const { data } = StoredPet.safeParse(tryParseJson(text));
      if (data?.id !== id || data.status !== status) throw damagedRow(place, `pets.animals (id ${id})`);
    }
  }
  return contents.report;
}

const damagedRow = (place: string, row: string): StoreDamagedError =>
  new StoreDamagedError(
    `${place} is damaged: a row of ${row} is not valid`,
    'restore the database from a backup; nothing was changed',
  );
