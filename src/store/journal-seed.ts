import { INT64_MAX, INT64_MIN } from '../contract/int64.ts';
import { stringifyJson } from '../contract/json.ts';
import { petJson } from '../contract/schemas.ts';
import { StoreError } from './errors.ts';
import { encodeBatch, encodeHeader, encodeOrder, type Header, recordBytes } from './journal-format.ts';
import { MAX_BATCH, MAX_BATCH_BYTES } from './journal-writer.ts';
import type { OrderJson, Seed } from './store.ts';

/** What was checked and can be written: the animals by ascending id, and the orders as they came. */
export type PreparedSeed = { pets: Seed['pets']; orders: OrderJson[] };

/** @throws StoreError where two animals have one id, an id is no int64, or a record is too long */
export function prepareSeed(seed: Seed): PreparedSeed {
  const pets = [...seed.pets].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  pets.forEach((pet, i) => {
    if (pet.id === pets[i - 1]?.id) {
      throw new StoreError(`two animals have the id ${pet.id}`, 'give each its own id');
    }
    if (pet.id < INT64_MIN || pet.id > INT64_MAX) {
      throw new StoreError(`the id ${pet.id} is no int64`, `use ids from ${INT64_MIN} to ${INT64_MAX}`);
    }
    recordBytes(petJson(pet));
  });
  const orders = seed.orders.map((order) => stringifyJson(order));
  for (const order of orders) recordBytes(order);
  return { pets, orders };
}

/** The lines of a journal that holds the seed and nothing else. `at` is in milliseconds since 1970. */
export function* journalOf(header: Header, { pets, orders }: PreparedSeed, at: number): Generator<Buffer> {
  yield encodeHeader(header);
  let seq = 0;
  for (const order of orders) yield encodeOrder(++seq, at, order);
  let entries: { text: string }[] = [];
  let bytes = 0;
  for (const pet of pets) {
    const text = petJson(pet);
    const more = recordBytes(text);
    if (entries.length === MAX_BATCH || (entries.length > 0 && bytes + more > MAX_BATCH_BYTES)) {
      yield encodeBatch(++seq, at, entries).line;
      entries = [];
      bytes = 0;
    }
    entries.push({ text });
    bytes += more;
  }
  if (entries.length > 0) yield encodeBatch(++seq, at, entries).line;
}
