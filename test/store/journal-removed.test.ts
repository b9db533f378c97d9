import { appendFile, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { StoreFailedError } from '../../src/store/errors.ts';
import { openJournalStore } from '../../src/store/journal-store.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Somebody tidies up under a running server: what would be lost without a word must not be acknowledged.

const pet = { name: 'Rex', categoryId: 1n, status: 'available' } as const;

async function openWithOne() {
  const directory = await temporaryDirectory();
  const path = join(directory, 'journal.ndjson');
  const failures: Error[] = [];
  const store = await openJournalStore({ directory, onFailure: (error) => failures.push(error) });
  await store.add({ pet });
  return { directory, path, store, failures };
}

describe.skipIf(process.platform === 'win32')('a journal that under the running store', () => {
  it.each<[string, (path: string, directory: string) => Promise<unknown>, RegExp]>([
    ['is removed', (path) => rm(path), /was removed under the running server/],
    ['is removed with its directory', (_, directory) => rm(directory, { recursive: true }), /was removed/],
    [
      'is replaced',
      (path) => writeFile(`${path}.x`, '').then(() => rename(`${path}.x`, path)),
      /was removed/,
    ],
    ['is emptied', (path) => truncate(path), /something else has changed it/],
    ['is cut', (path) => truncate(path, 10), /something else has changed it/],
    ['is appended to', (path) => appendFile(path, '{}\n{}\n{}\n{}\n{}\n'.repeat(100)), /something else has/],
  ])('%s: the next animal is not acknowledged, and nothing more is accepted', async (_name, change, says) => {
    const { directory, path, store, failures } = await openWithOne();
    await change(path, directory);
    const adding = store.add({ pet });
    await expect(adding).rejects.toThrow(StoreFailedError);
    await expect(adding).rejects.toThrow(says);
    await expect(adding).rejects.toThrow(path);
    await expect(store.list({ limit: 1 })).rejects.toThrow(StoreFailedError);
    expect(failures).toHaveLength(1);
    await store.close();
  });

  it('has another name now goes on: nothing is lost', async () => {
    const { path, store } = await openWithOne();
    await rename(path, `${path}.moved`);
    await store.add({ pet });
    await store.close();
    expect((await readFile(`${path}.moved`, 'utf8')).trim().split('\n')).toHaveLength(3);
  });
});
