import type { StoreReport } from '../store.ts';
import { loadBans } from './ban-file.ts';
import { KeyFiles } from './key-files.ts';
import { type Journal, type ReadSettings, readJournal } from './load-journal.ts';

/** The maximum number of times that the journal is read, if a server may be writing its last line. */
const ATTEMPTS = 3;

/** Reads and verifies everything in a store. `size` is the number of bytes of the journal that were read. */
export async function readStore(
  directory: string,
  settings: Omit<ReadSettings, 'directory'>,
): Promise<{ report: StoreReport; size: number }> {
  const { header, contents, replayed, size } = await readSettled({ ...settings, directory });
  const keys = await new KeyFiles(directory, { files: settings.files }).list();
  await loadBans(directory);
  const report = {
    id: header.id,
    animals: contents.pets.size,
    orders: contents.orders.length,
    keys: keys.length,
    lastId: contents.lastId === Number.NEGATIVE_INFINITY ? undefined : BigInt(contents.lastId),
    sequence: contents.seq,
    damagedBytes: size - replayed.end,
  };
  return { report, size };
}

/** Reads the journal again if its last line is not valid, because a server may just have been writing it. */
async function readSettled(settings: ReadSettings): Promise<Journal> {
  let journal = await readJournal(settings);
  for (let attempt = 1; attempt < ATTEMPTS && journal.replayed.end < journal.size; attempt++) {
    journal = await readJournal(settings);
  }
  return journal;
}
