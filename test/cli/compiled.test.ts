import { chmod, chown, lstat, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compiledDirectory } from '../../src/cli/compiled.ts';
import { version } from '../../src/cli/version.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// What stands there is run as code.

async function machine() {
  const homeDirectory = await temporaryDirectory();
  const state = join(homeDirectory, '.local', 'state', 'pets');
  await mkdir(state, { recursive: true, mode: 0o700 });
  const compiled = join(state, 'compiled');
  return { state, compiled, find: () => compiledDirectory({ env: {}, platform: 'linux', homeDirectory }) };
}

test('is a directory of the user alone, apart for each version', async () => {
  const { compiled, find } = await machine();
  expect(find()).toBe(join(compiled, version));
  for (const path of [compiled, join(compiled, version)])
    expect((await lstat(path)).mode & 0o777).toBe(0o700);
});

test('stays while the version stays; what another one has left goes', async () => {
  const { compiled, find } = await machine();
  await mkdir(join(compiled, '0.0.1'), { recursive: true });
  find();
  await writeFile(join(compiled, version, 'kept'), '');
  expect(find()).toBe(join(compiled, version));
  expect(await readdir(compiled)).toEqual([version]);
  expect(await readdir(join(compiled, version))).toEqual(['kept']);
});

test('is not made where no command has left anything', async () => {
  const homeDirectory = await temporaryDirectory();
  expect(compiledDirectory({ env: {}, platform: 'linux', homeDirectory })).toBeUndefined();
  expect(await readdir(homeDirectory)).toEqual([]);
});

const isUnix = process.getuid !== undefined;

test.runIf(isUnix).each<[string, (at: { state: string; compiled: string }) => Promise<unknown>]>([
  ['the directory above', ({ state }) => chmod(state, 0o770)],
  ['the directory itself', ({ compiled }) => mkdir(compiled).then(() => chmod(compiled, 0o777))],
  [
    'that of the version',
    async ({ compiled }) => {
      await mkdir(join(compiled, version), { recursive: true });
      await chmod(join(compiled, version), 0o775);
    },
  ],
])('is not used where others may write to %s', async (_what, widen) => {
  const { state, compiled, find } = await machine();
  await widen({ state, compiled });
  expect(find()).toBeUndefined();
});

test.runIf(isUnix)('is not used where it is a link', async () => {
  const { compiled, find } = await machine();
  await symlink(await temporaryDirectory(), compiled);
  expect(find()).toBeUndefined();
});

test.runIf(process.getuid?.() === 0)("is not used where it is another user's", async () => {
  const { compiled, find } = await machine();
  await mkdir(compiled, { mode: 0o700 });
  await chown(compiled, 12_345, 12_345);
  expect(find()).toBeUndefined();
});

test('is not used where something else stands in its place', async () => {
  const { compiled, find } = await machine();
  await writeFile(compiled, '');
  expect(find()).toBeUndefined();
});
