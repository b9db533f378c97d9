import { readFileSync } from 'node:fs';
import { parseJson } from '../contract/json.ts';
import type { PetStatus } from '../contract/schemas.ts';
import type { Seed } from '../store/store.ts';

type SampleData = {
  pets: { id: number; name: string; categoryId: number; status: PetStatus }[];
  orders: { placedAt: string }[];
};

const MINUTE = 60_000;

/**
 * The sample data of `pets serve --seed`: animals of every status in several categories, and orders of two weeks.
 *
 * @param now in milliseconds since the epoch; moves all orders, so that the last one is in this minute
 */
export function sampleData(now?: number): Seed {
  const text = readFileSync(new URL('sample-data.json', import.meta.url), 'utf8');
  const { pets, orders } = parseJson(text) as SampleData;
  const last = Date.parse(orders.at(-1)?.placedAt ?? '');
  const later = now === undefined ? 0 : Math.floor(now / MINUTE) * MINUTE - last;
  return {
    pets: pets.map((pet) => ({ ...pet, id: BigInt(pet.id), categoryId: BigInt(pet.categoryId) })),
    orders: orders.map((order) => ({
      ...order,
      placedAt: new Date(Date.parse(order.placedAt) + later).toISOString(),
    })),
  };
}
