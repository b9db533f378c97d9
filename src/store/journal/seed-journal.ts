import { seedTexts } from '../seed.ts';
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
  const { animals, orders } = seedTexts(seed);
  const entries = animals.map((animal) => ({ ...animal, bytes: recordBytes(animal.text) }));
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
