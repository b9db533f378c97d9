import { chmod, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { deleteLeftStores } from '../../src/cli/serve/options.ts';
import { acquireDirectoryLock } from '../../src/system/directory-lock.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

/** A directory for temporary files with the stores that killed servers have left. */
async function withLeftStores(...names: string[]) {
  const directory = await temporaryDirectory();
  const add = async (name: string, file = 'journal.ndjson') => {
    const path = join(directory, name);
    await mkdir(join(path, 'keys'), { recursive: true, mode: 0o700 });
    await writeFile(join(path, file), '');
    return path;
  };
  for (const name of names) await add(name);
  const sweep = () => deleteLeftStores({ temporaryDirectory: directory });
  return { directory, add, sweep, left: async () => (await readdir(directory)).sort() };
}

test('the stores of killed servers are deleted, and a store in use stays until its server has ended', async () => {
  const { add, sweep, left } = await withLeftStores('pets-ephemeral-left');
  const lock = await acquireDirectoryLock(await add('pets-ephemeral-used'));
  await sweep();
  expect(await left()).toEqual(['pets-ephemeral-used']);
  await lock.release();
  await sweep();
  expect(await left()).toEqual([]);
});

test.skipIf(process.platform === 'win32')(
  'everything else stays: other names, stores that are being created, links, files, and what others can read',
  async () => {
    const { directory, add, sweep, left } = await withLeftStores('pets-other', 'store');
    await add('pets-ephemeral-new', 'journal.ndjson.new-0123456789abcdef');
    await symlink(join(directory, 'store'), join(directory, 'pets-ephemeral-link'));
    await writeFile(join(directory, 'pets-ephemeral-file'), '');
    await chmod(await add('pets-ephemeral-open'), 0o755);
    const before = await left();
    await sweep();
    expect(await left()).toEqual(before);
    expect(await readdir(join(directory, 'store'))).toEqual(['journal.ndjson', 'keys']);
  },
);
