import { expect, it } from 'vitest';
import { petJson } from '../../src/contract/schemas.ts';
import { fingerprintOf } from '../../src/store/index/idempotency-index.ts';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import { JournalWriter, type NewEntry } from '../../src/store/journal/journal-writer.ts';
import { openForAppending, readJournal } from '../../src/store/journal/load-journal.ts';
import { recordBytes } from '../../src/store/journal/record-format.ts';
import { WriteStatus } from '../../src/store/journal/write-status.ts';
import { realFileSystem } from '../../src/system/file-system.ts';
import { manualClock } from '../helpers/clock.ts';
import { animal, idempotency } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

it('leaves no empty batch if an idempotency key cannot be reserved', async () => {
  const directory = await temporaryDirectory();
  await (await openJournalStore({ directory })).close();
  const settings = { directory, clock: Date, files: realFileSystem, onWarning() {}, onFailure() {} };
  const journal = await readJournal(settings);
  const file = await openForAppending(settings, journal);
  const status = new WriteStatus(settings);
  const writer = new JournalWriter(journal, file, manualClock(), status);
  journal.contents.keys.reserve = () => {
    throw new RangeError('Array buffer allocation failed');
  };
  const entry = (id: bigint, key?: string): NewEntry => {
    const text = petJson({ ...animal(), id });
    const fingerprint = key === undefined ? undefined : fingerprintOf(idempotency(key), 'secret');
    return { id, status: 'available', text, bytes: recordBytes(text, fingerprint), fingerprint };
  };
  const first = writer.add(entry(1n));
  // Now the first batch is being written, and the next animal starts another one.
  await new Promise(setImmediate);
  expect(() => writer.add(entry(2n, 'k'))).toThrow(RangeError);
  await first;
  await writer.add(entry(3n));
  await writer.close();
  const store = await openJournalStore({ directory });
  expect(await store.size()).toBe(2);
  await store.close();
});
