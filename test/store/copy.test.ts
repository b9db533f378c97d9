import { cp, mkdir, readFile, truncate } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { journalLocation } from '../../src/store/journal/journal-location.ts';
import { KeyFiles } from '../../src/store/journal/key-files.ts';
import { hashKey, KeyManager } from '../../src/store/keys.ts';
import { copyStore } from '../../src/store/location.ts';
import { isLockName } from '../../src/system/directory-lock.ts';
import { isTemporaryName } from '../../src/system/file-system.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import { animal, idempotency, noLock, openJournalStore } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';
import { collect, describeCopying, namesIn, newDirectory } from './contract/copying.ts';

describeCopying('from a directory to a directory', newDirectory, newDirectory);

const FILES = ['bans.json', 'journal.ndjson', 'keys', 'keys/till.json', 'store.txt'];

/** A closed store with two animals (one with an idempotency key), two orders, an API key and a ban, in `home`. */
async function storeToCopy() {
  const clock = manualClock();
  const home = await temporaryDirectory();
  const source = join(home, 'store');
  await mkdir(source);
  const open = (directory: string) => openJournalStore({ directory, clock, lock: noLock });
  const store = await open(source);
  await store.seed({ pets: [{ id: 1n, ...animal('seed') }], orders: [1, 2] });
  await store.add({ pet: animal('once'), idempotency: idempotency('k') });
  await store.close();
  await new KeyManager(new KeyFiles(source), clock).create({ name: 'till', plan: 'free' });
  await new KeyFiles(source).saveBans(new Map([[hashKey('key'), clock.now()]]));
  const at = (directory: string) => journalLocation(directory, clock);
  const copyTo = (target: string, intercept: Intercept = () => {}) => {
    const files = interceptFiles(intercept);
    return copyStore(journalLocation(source, clock, files), journalLocation(target, clock, files));
  };
  return { clock, home, source, target: join(home, 'copy'), open, at, copyTo };
}

test('a copy leaves an empty directory after any error, and nothing like a store if the process is killed', async () => {
  const { home, at, open, copyTo } = await storeToCopy();
  const calls: string[] = [];
  await copyTo(join(await temporaryDirectory(), 'copy'), (name) => void calls.push(name));
  const target = join(home, 'mounted');
  await mkdir(target);
  const before = await namesIn(home);
  for (let failing = 0; failing < calls.length; failing++) {
    // If a temporary name of a key cannot be removed, the copy is complete nevertheless.
    if (calls[failing] === 'unlink') continue;
    const killed = join(await temporaryDirectory(), 'killed');
    let call = 0;
    const copying = copyTo(target, async () => {
      if (call++ !== failing) return;
      await cp(target, killed, { recursive: true, filter: (path) => !isLockName(basename(path)) }).catch(
        () => {},
      );
      throw errno('EIO');
    });
    const where = `call ${failing}: ${calls[failing]}`;
    await expect(copying, where).rejects.toThrow(/EIO|i\/o error/);
    expect(await namesIn(home), where).toEqual(before);

    const left = await namesIn(killed).catch((): string[] => []);
    // The next server deletes temporary files, and writes store.txt if it is missing.
    if (left.includes('journal.ndjson'))
      expect(left.filter((name) => !isTemporaryName(name) && name !== 'store.txt')).toEqual(
        FILES.slice(0, -1),
      );
    else if (left.length > 0) {
      const refused = {
        message: expect.stringContaining('is missing, but the directory contains other files'),
      };
      await expect(copyTo(killed), where).rejects.toMatchObject({ message: `${killed} is not empty` });
      await expect(open(killed), where).rejects.toMatchObject(refused);
      await expect(at(killed).check(), where).rejects.toMatchObject(refused);
      expect(await namesIn(killed)).toEqual(left);
    }
  }
  await copyTo(target);
  expect(await namesIn(target)).toEqual(FILES);
});

test('of an idempotency key that was used again after it expired, only the new use is copied', async () => {
  const { clock, source, open, at } = await storeToCopy();
  clock.advance(24 * 3_600_000);
  const store = await open(source);
  await store.add({ pet: animal(), idempotency: idempotency('k') });
  await store.close();
  // When the clock is set back by a second, the first use has not expired yet, and the new one is not in the future.
  clock.advance(-1_000);
  const { all } = await at(source).read(collect);
  expect(all.map((each) => each.idempotency?.at)).toEqual([undefined, undefined, clock.now()]);
});

test('ids that a torn end may contain are not issued again by a copy', async () => {
  const { source, target, open, copyTo } = await storeToCopy();
  const journal = join(source, 'journal.ndjson');
  await truncate(journal, (await readFile(journal)).length - 5);
  await copyTo(target);
  const copied = await open(target);
  expect(await copied.add({ pet: animal() })).toMatchObject({ pet: expect.stringMatching(/^\{"id":[3-9],/) });
  await copied.close();
});
