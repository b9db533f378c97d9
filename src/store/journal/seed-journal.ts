import { seedTexts } from '../seed.ts';
import type { Seed } from '../store.ts';
import { encodeJournal } from './encode-journal.ts';
import { type JournalHeader, recordBytes } from './record-format.ts';

/**
 * The lines of a journal that contains only the seed, with the animals in ascending order of id. `at` is in milliseconds
 * since 1970.
 *
 * @throws StoreError if two animals have the same id, an id is not an int64, or a record is too long
 */
export function seedJournal(header: JournalHeader, seed: Seed, at: number): AsyncIterable<Buffer> {
  const { animals, orders } = seedTexts(seed);
  // A record that is too long must be found before anything is written.
  for (const { text } of animals) recordBytes(text);
  for (const order of orders) recordBytes(order);
  const nextId = (animals.at(-1)?.id ?? 0n) + 1n;
  return encodeJournal(header, { orders, animals: [animals], nextId }, at);
}
