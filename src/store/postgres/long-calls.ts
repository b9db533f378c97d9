import type { Client } from 'pg';
import type { SeedTexts } from '../seed.ts';
import { STATUS_NUMBERS } from './status-numbers.ts';

/** Adds the seed in one call. Resolves with false if the store is not empty. */
export async function addSeed(client: Client, seed: SeedTexts): Promise<boolean> {
  const { rows } = await client.query<{ added: boolean }>(
    'select pets.seed_v1($1, $2, $3, $4) as added',
    valuesOf(seed),
  );
  return rows[0]?.added ?? false;
}

/** Replaces the contents of the store by the seed in one call. */
export async function resetTo(client: Client, seed: SeedTexts): Promise<void> {
  await client.query('select pets.reset_v1($1, $2, $3, $4)', valuesOf(seed));
}

/** Counts all animals, however long that takes. */
export async function countAnimals(client: Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>('select pets.size_v1() as count');
  return Number(rows[0]?.count);
}

const valuesOf = ({ animals, orders }: SeedTexts) => [
  animals.map(({ id }) => id),
  animals.map(({ status }) => STATUS_NUMBERS[status]),
  animals.map(({ text }) => text),
  orders,
];
