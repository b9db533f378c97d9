import { join } from 'node:path';
import type { FileSystem } from '../../system/file-system.ts';
import { withFile } from '../../system/files.ts';
import { MAX_READ_ANIMALS, MAX_READ_BYTES, type StoreContents, type StoredAnimal } from '../contents.ts';
import { StoreError } from '../errors.ts';
import type { TextRef } from '../index/text-arena.ts';
import { loadBans } from './ban-file.ts';
import type { Contents } from './journal-reducer.ts';
import { KeyFiles } from './key-files.ts';
import { JOURNAL, type Journal, type ReadSettings, readJournal } from './load-journal.ts';

/** The maximum number of times that the journal is read, if a server may be writing its last line. */
const ATTEMPTS = 3;

/**
 * Reads and verifies everything in the store of a directory, also while a server uses it. A damaged last line is left out.
 *
 * @param readAt the time by which idempotency keys expire, in milliseconds since 1970
 * @param journal the name of the journal's file
 */
export async function readContents(
  directory: string,
  files: FileSystem,
  readAt: number,
  journal = JOURNAL,
): Promise<StoreContents> {
  const read = await readSettled({ directory, files, clock: { now: () => readAt }, journal });
  const { header, contents, nextId, replayed, size } = read;
  const keys = await new KeyFiles(directory, { files }).list();
  const { id, secret, created } = header;
  return {
    report: {
      id,
      animals: contents.pets.size,
      orders: contents.orders.length,
      keys: keys.length,
      lastId: contents.lastId === Number.NEGATIVE_INFINITY ? undefined : BigInt(contents.lastId),
      sequence: contents.seq,
      damagedBytes: size - replayed.end,
    },
    secret,
    created,
    nextId,
    orders: contents.orders,
    keys,
    bans: await loadBans(directory),
    readAt,
    async *animals() {
      yield* readAnimals(contents, readAt);
      await requireSize(join(directory, journal), files, size);
    },
  };
}

/** Reads the journal again if its last line is not valid, because a server may just have been writing it. */
async function readSettled(settings: ReadSettings): Promise<Journal> {
  let journal = await readJournal(settings);
  for (let attempt = 1; attempt < ATTEMPTS && journal.replayed.end < journal.size; attempt++) {
    journal = await readJournal(settings);
  }
  return journal;
}

/** Reads the idempotency keys at the same time as the animals, because both are in the order of the animals' ids. */
function* readAnimals({ pets, keys }: Contents, readAt: number): Generator<StoredAnimal[]> {
  const allKeys = keys.entries(readAt);
  let key = allKeys.next().value;
  let animals: StoredAnimal[] = [];
  let bytes = 0;
  for (const { id, status, text } of pets.entries()) {
    let idempotency: StoredAnimal['idempotency'];
    for (; key && compare(key.response, text) <= 0; key = allKeys.next().value) {
      idempotency = { fingerprint: key.fingerprint, at: key.time };
    }
    animals.push({ id, status, text: pets.texts.read(text), idempotency });
    bytes += text.length;
    if (animals.length < MAX_READ_ANIMALS && bytes < MAX_READ_BYTES) continue;
    yield animals;
    animals = [];
    bytes = 0;
  }
  if (animals.length > 0) yield animals;
}

/** The order in which the texts were added. */
const compare = (a: TextRef, b: TextRef): number => a.chunk - b.chunk || a.start - b.start;

/** Fails if a server has removed the end of the journal, because it could not sync the last record that was read. */
async function requireSize(path: string, files: FileSystem, size: number): Promise<void> {
  const now = await withFile(await files.open(path, 'read'), (file) => file.stat());
  if (now.size < size) throw new StoreError(`${path} has become shorter`, 'try again');
}
