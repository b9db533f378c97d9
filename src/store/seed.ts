import { INT64_MAX, INT64_MIN } from '../contract/int64.ts';
import { stringifyJson } from '../contract/json.ts';
import { type PetStatus, petJson } from '../contract/schemas.ts';
import { StoreError, StoreNotEmptyError } from './errors.ts';
import type { OrderJson, PetJson, Seed } from './store.ts';

/** The texts of a seed, with the animals in ascending order of id. */
export type SeedTexts = {
  animals: { id: bigint; status: PetStatus; text: PetJson }[];
  orders: OrderJson[];
};

/** @throws StoreError if two animals have the same id, or an id is not an int64 */
export function seedTexts(seed: Seed): SeedTexts {
  const pets = [...seed.pets].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const animals = pets.map((pet, i) => {
    const { id, status } = pet;
    if (id === pets[i - 1]?.id) throw new StoreError(`two animals have the id ${id}`, 'use each id once');
    if (id < INT64_MIN || id > INT64_MAX) {
      throw new StoreError(`the id ${id} is not an int64`, `use ids from ${INT64_MIN} to ${INT64_MAX}`);
    }
    return { id, status, text: petJson(pet) };
  });
  return { animals, orders: seed.orders.map((order) => stringifyJson(order)) };
}

/** `place` is the directory or the URL of the store. */
export const notEmptyError = (place: string): StoreNotEmptyError =>
  new StoreNotEmptyError(
    `the store in ${place} is not empty`,
    'seed another store with --data, or omit --seed',
  );
