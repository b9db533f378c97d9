import type { Client } from 'pg';
import type { SeedTexts } from '../seed.ts';
import { STATUS_NUMBERS } from './status-numbers.ts';

/** Adds the seed in one call. Resolves with false if the store is not empty. */
export async function addSeed(client: Client, { animals, orders }: SeedTexts): Promise<boolean> {
  const { rows } = await client.query<{ added: boolean }>('select pets.seed_v1($1, $2, $3, $4) as added', [
    animals.map(({ id }) => id),
    animals.map(({ status }) => STATUS_NUMBERS[status]),
    animals.map(({ text }) => text),
    orders,
  ]);
  return rows[0]?.added ?? false;
}

/** Counts all animals, however long that takes. */
export async function countAnimals(client: Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>('select pets.size_v1() as count');
  return Number(rows[0]?.count);
}
