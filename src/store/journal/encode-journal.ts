import type { StoredAnimal } from '../contents.ts';
import { wordsOfHex } from '../index/idempotency-index.ts';
import type { OrderJson } from '../store.ts';
import { Batch, type NewEntry } from './journal-writer.ts';
import {
  encodeBatch,
  encodeJournalHeader,
  encodeLastId,
  encodeOrder,
  type JournalHeader,
  recordBytes,
} from './record-format.ts';

/** What a new journal contains. The animals ascend by id, and `nextId` is higher than all ids. */
export type JournalContents = {
  orders: readonly OrderJson[];
  animals: Iterable<readonly StoredAnimal[]> | AsyncIterable<readonly StoredAnimal[]>;
  nextId: bigint;
};

/**
 * The lines of a journal with these contents. `at` is the time of all records without idempotency keys, in milliseconds
 * since 1970.
 *
 * @throws StoreError if a record is too long
 */
export async function* encodeJournal(
  header: JournalHeader,
  { orders, animals, nextId }: JournalContents,
  at: number,
): AsyncGenerator<Buffer> {
  yield encodeJournalHeader(header);
  let seq = 0;
  for (const order of orders) {
    recordBytes(order);
    yield encodeOrder(++seq, at, order);
  }
  let batch = new Batch();
  /** The time of the idempotency keys in `batch`. A record has one time for all its keys. */
  let keysAt: number | undefined;
  let lastId = 0n;
  for await (const part of animals) {
    for (const animal of part) {
      const entry = toEntry(animal);
      const time = animal.idempotency?.at;
      const hasSameTime = time === undefined || keysAt === undefined || time === keysAt;
      if (!hasSameTime || !batch.hasRoomFor(entry)) {
        yield encodeBatch(++seq, keysAt ?? at, batch.entries).bytes;
        batch = new Batch();
        keysAt = undefined;
      }
      batch.add(entry);
      keysAt ??= time;
      if (animal.id > lastId) lastId = animal.id;
    }
  }
  if (batch.entries.length > 0) yield encodeBatch(++seq, keysAt ?? at, batch.entries).bytes;
  if (nextId > lastId + 1n) yield encodeLastId(++seq, at, nextId - 1n);
}

function toEntry({ id, status, text, idempotency }: StoredAnimal): NewEntry {
  const hex = idempotency?.fingerprint;
  const fingerprint = hex === undefined ? undefined : { hex, words: wordsOfHex(hex) };
  return { id, status, text, fingerprint, bytes: recordBytes(text, fingerprint) };
}
