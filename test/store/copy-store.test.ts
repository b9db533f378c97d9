import { chmod, cp, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { copyStore } from '../../src/store/copy-store.ts';
import { journalLocation } from '../../src/store/journal/journal-location.ts';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import { KeyFiles, saveBans } from '../../src/store/journal/key-files.ts';
import { hashKey } from '../../src/store/keys/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import { animal, noLock } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const clock = manualClock();
const namesIn = async (directory: string) => (await readdir(directory, { recursive: true })).sort();
const open = async (directory: string) => {
  const store = await openJournalStore({ directory, clock, lock: noLock });
  await store.close();
};

/** A closed store with an animal, a key and a ban, and the directory `home` for copies. */
async function storeToCopy() {
  const home = await temporaryDirectory();
  const source = join(home, 'store');
  await mkdir(source);
  const store = await openJournalStore({ directory: source, clock });
  await store.add({ pet: animal() });
  await store.close();
  await new KeyFiles(source, { clock }).create({ name: 'till', plan: 'free' });
  await saveBans(source, new Map([[hashKey('key'), clock.now()]]));
  const copyTo = (target: string, intercept: Intercept = () => {}, signal?: AbortSignal) => {
    const files = interceptFiles(intercept);
    return copyStore(journalLocation(source, clock, files), journalLocation(target, clock, files), {
      signal,
    });
  };
  return { home, source, copyTo };
}

const FILES = ['bans.json', 'journal.ndjson', 'keys', 'keys/till.json'];

describe('the target of a copy', () => {
  test('keeps its inode and its mode if it is an empty directory', async () => {
    const { home, copyTo } = await storeToCopy();
    const target = join(home, 'copy');
    await mkdir(target);
    await chmod(target, 0o750);
    const { ino, mode } = await stat(target);
    await copyTo(target);
    expect(await stat(target)).toMatchObject({ ino, mode });
    expect(await namesIn(target)).toEqual(FILES);
  });

  test('can be a symbolic link to an empty directory, or be in a directory that does not exist', async () => {
    const { home, copyTo } = await storeToCopy();
    const [directory, link, nested] = [join(home, 'directory'), join(home, 'link'), join(home, 'a/b/c')];
    await mkdir(directory);
    await symlink(directory, link);
    for (const target of [link, nested]) await copyTo(target);
    for (const target of [directory, nested]) expect(await namesIn(target)).toEqual(FILES);
  });

  test.each([
    ['file', 'is not a directory'],
    ['dangling', 'is not a directory'],
    ['full', 'is not empty'],
    ['store/', 'is not empty'],
  ])('is refused and unchanged: %s %s', async (name, message) => {
    const { home, copyTo } = await storeToCopy();
    await writeFile(join(home, 'file'), '');
    await symlink(join(home, 'nothing'), join(home, 'dangling'));
    await mkdir(join(home, 'full'));
    await writeFile(join(home, 'full', 'other'), '');
    const before = await namesIn(home);
    const target = join(home, name);
    await expect(copyTo(target)).rejects.toMatchObject({
      message: `${resolve(target)} ${message}`,
      hint: 'copy to an empty directory, or to one that does not exist yet',
    });
    expect(await namesIn(home)).toEqual(before);
  });

  test('cannot be the source', async () => {
    const { source, copyTo } = await storeToCopy();
    const message = `${source} is both the source and the target`;
    await expect(copyTo(source)).rejects.toMatchObject({ message, hint: 'name another target' });
    expect(await namesIn(source)).toEqual(FILES);
  });
});

describe.each([
  ['an empty directory', ['mounted']],
  ['no directory', []],
])('a copy to %s', (_, existing) => {
  /** The names of the file system calls of a copy. */
  async function callsOfCopy() {
    const { home, copyTo } = await storeToCopy();
    const calls: string[] = [];
    await copyTo(join(home, 'copy'), (name) => void calls.push(name));
    return calls;
  }

  test('leaves the target as before after any error, and nothing like a store if the process is killed', async () => {
    const calls = await callsOfCopy();
    const { home, copyTo } = await storeToCopy();
    for (const directory of existing) await mkdir(join(home, directory));
    const target = join(home, 'mounted', ...(existing.length > 0 ? [] : ['a', 'b']));
    const before = await namesIn(home);
    for (let failing = 0; failing < calls.length; failing++) {
      const killed = join(await temporaryDirectory(), 'killed');
      let call = 0;
      const copying = copyTo(target, async () => {
        if (call++ !== failing) return;
        await cp(target, killed, { recursive: true }).catch(() => {});
        throw errno('EIO');
      });
      const where = `call ${failing}: ${calls[failing]}`;
      await expect(copying, where).rejects.toThrow(/EIO/);
      expect(await namesIn(home), where).toEqual(before);

      const left = await namesIn(killed).catch((): string[] => []);
      if (left.includes('journal.ndjson')) expect(left, where).toEqual(FILES);
      else if (left.length > 0) {
        const refused = { message: expect.stringContaining(`${killed} contains an incomplete copy`) };
        await expect(copyTo(killed), where).rejects.toMatchObject(refused);
        await expect(open(killed), where).rejects.toMatchObject(refused);
        await expect(journalLocation(killed, clock).check(), where).rejects.toMatchObject(refused);
        expect(await namesIn(killed)).toEqual(left);
      }
    }
    await copyTo(target);
    expect(await namesIn(target)).toEqual(FILES);
  });

  test('leaves the target as before if it is interrupted', async () => {
    const calls = await callsOfCopy();
    const { home, copyTo } = await storeToCopy();
    for (const directory of existing) await mkdir(join(home, directory));
    const target = join(home, 'mounted');
    const before = await namesIn(home);
    const lastRead = calls.lastIndexOf('read');
    for (let interrupted = 0; interrupted < lastRead; interrupted++) {
      const interrupt = new AbortController();
      let call = 0;
      const copying = copyTo(
        target,
        () => {
          if (call++ === interrupted) interrupt.abort(new Error('interrupted'));
        },
        interrupt.signal,
      );
      await expect(copying, `call ${interrupted}`).rejects.toThrow(/^interrupted$/);
      expect(await namesIn(home)).toEqual(before);
    }
  });
});

test('of two copies to one target, one is complete and the other is refused', async () => {
  for (let round = 0; round < 5; round++) {
    const { home, copyTo } = await storeToCopy();
    const target = join(home, 'copy');
    const results = await Promise.allSettled([copyTo(target), copyTo(target)]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const { reason } = results.find((result) => result.status === 'rejected') as PromiseRejectedResult;
    expect(reason.message).toMatch(/contains an incomplete copy of a store: another command|is not empty/);
    expect(await namesIn(target)).toEqual(FILES);
  }
});

test('damage in the source is reported with the path in the source', async () => {
  const { home, source, copyTo } = await storeToCopy();
  const path = join(source, 'keys', 'till.json');
  await writeFile(path, `${await readFile(path, 'utf8')}x`);
  await expect(copyTo(join(home, 'copy'))).rejects.toThrow(new RegExp(`^${path} is damaged`));
});
