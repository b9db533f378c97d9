import { INT64_MAX, INT64_MIN } from '../../contract/int64.ts';
import { stringifyJson } from '../../contract/json.ts';
import { petJson } from '../../contract/schemas.ts';
import { StoreError } from '../errors.ts';
import type { OrderJson, Seed } from '../store.ts';
import { Batch, type NewEntry } from './journal-writer.ts';
import {
  encodeBatch,
  encodeJournalHeader,
  encodeOrder,
  type JournalHeader,
  recordBytes,
} from './record-format.ts';

/**
 * The lines of a journal that contains only the seed, with the animals in ascending order of id. `at` is in milliseconds
 * since 1970.
 *
 * @throws StoreError if two animals have the same id, an id is not an int64, or a record is too long
 */
export function seedJournal(header: JournalHeader, seed: Seed, at: number): Iterable<Buffer> {
  const pets = [...seed.pets].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const entries = pets.map((pet, i) => {
    const { id, status } = pet;
    if (id === pets[i - 1]?.id) throw new StoreError(`two animals have the id ${id}`, 'use each id once');
    if (id < INT64_MIN || id > INT64_MAX) {
      throw new StoreError(`the id ${id} is not an int64`, `use ids from ${INT64_MIN} to ${INT64_MAX}`);
    }
    const text = petJson(pet);
    return { id, status, text, bytes: recordBytes(text) };
  });
  const orders = seed.orders.map((order) => stringifyJson(order));
  for (const order of orders) recordBytes(order);
  return encodeLines(header, entries, orders, at);
}

function* encodeLines(
  header: JournalHeader,
  entries: readonly NewEntry[],
  orders: readonly OrderJson[],
  at: number,
): Generator<Buffer> {
  yield encodeJournalHeader(header);
  let seq = 0;
  for (const order of orders) yield encodeOrder(++seq, at, order);
  let batch = new Batch();
  for (const entry of entries) {
    if (!batch.hasRoomFor(entry)) {
      yield encodeBatch(++seq, at, batch.entries).bytes;
      batch = new Batch();
    }
    batch.add(entry);
  }
  if (batch.entries.length > 0) yield encodeBatch(++seq, at, batch.entries).bytes;
}
