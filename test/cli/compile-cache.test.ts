import { chmod, chown, lstat, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compileCacheDirectory } from '../../src/cli/run.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Cached code is executed, so no other user may write to the directory.

async function machine() {
  const homeDirectory = await temporaryDirectory();
  const state = join(homeDirectory, '.local', 'state', 'pets');
  await mkdir(state, { recursive: true, mode: 0o700 });
  const compiled = join(state, 'compiled');
  return {
    state,
    compiled,
    find: () => compileCacheDirectory({ env: {}, platform: 'linux', homeDirectory }),
  };
}

test('is a private directory', async () => {
  const { compiled, find } = await machine();
  expect([find(), find()]).toEqual([compiled, compiled]);
  expect((await lstat(compiled)).mode & 0o777).toBe(0o700);
});

test('is never in a directory that replaces an unwritable state directory', async () => {
  const own = await temporaryDirectory();
  const context = { platform: 'linux', homeDirectory: '/proc/nohome' } as const;
  expect(compileCacheDirectory({ ...context, env: {} })).toBeUndefined();
  const env = { PETS_STATE_DIR: own };
  expect(compileCacheDirectory({ ...context, env })).toBe(join(own, 'compiled'));
});

const isUnix = process.getuid !== undefined;

type Directories = { state: string; compiled: string };
type Case = [string, (directories: Directories) => Promise<unknown>];

/** Only root can give a directory to another user. */
const OTHER_USER: Case = [
  'it belongs to another user',
  ({ compiled }) => mkdir(compiled, { mode: 0o700 }).then(() => chown(compiled, 12_345, 12_345)),
];

test
  .runIf(isUnix)
  .each<Case>([
    ['others may write to the state directory', ({ state }) => chmod(state, 0o770)],
    ['others may write to it', ({ compiled }) => mkdir(compiled).then(() => chmod(compiled, 0o777))],
    ['it is a symbolic link', async ({ compiled }) => symlink(await temporaryDirectory(), compiled)],
    ['it is a file', ({ compiled }) => writeFile(compiled, '')],
    ...(process.getuid?.() === 0 ? [OTHER_USER] : []),
  ])('is not used if %s', async (_what, prepare) => {
  const { state, compiled, find } = await machine();
  await prepare({ state, compiled });
  expect(find()).toBeUndefined();
});
