import { expect, it } from 'vitest';
import { petJson } from '../../src/contract/schemas.ts';
import { realFiles } from '../../src/store/files.ts';
import { fingerprintOf } from '../../src/store/idempotency.ts';
import { recordBytes } from '../../src/store/journal-format.ts';
import { loadJournal } from '../../src/store/journal-load.ts';
import { openJournalStore } from '../../src/store/journal-store.ts';
import { JournalWriter, type NewEntry } from '../../src/store/journal-writer.ts';
import { manualClock } from '../helpers/clock.ts';
import { animal, idempotency, textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

function entryOf(id: bigint, key?: string): NewEntry {
  const text = petJson({ ...animal(), id });
  const fingerprint = key === undefined ? undefined : fingerprintOf(idempotency(key), 'secret');
  return { id, status: 'available', text, bytes: recordBytes(text, fingerprint), fingerprint };
}

it('writes nothing of an animal whose key found no memory, and goes on', async () => {
  const directory = await temporaryDirectory();
  await (await openJournalStore({ directory })).close();
  const journal = await loadJournal(realFiles, directory, Date.now(), () => {});
  const writer = new JournalWriter(journal, manualClock(), (error) => error as Error);
  const { keys } = journal.contents;
  keys.begin = () => {
    throw new RangeError('Array buffer allocation failed');
  };
  const first = writer.add(entryOf(1n));
  // The first is being written: what comes now would be the next batch.
  await new Promise(setImmediate);
  expect(() => writer.add(entryOf(2n, 'k'))).toThrow(RangeError);
  await first;
  await writer.add(entryOf(3n));
  await writer.finish();
  await journal.file.close();
  const again = await openJournalStore({ directory });
  expect(textsOf(await again.list({ limit: 10 }))).toHaveLength(2);
  await again.close();
});
