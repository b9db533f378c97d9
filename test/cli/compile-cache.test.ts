import { chmod, lstat, mkdir, rmdir, symlink } from 'node:fs/promises';
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

test('is a private directory, and not used if other users may write to the state directory, or it is a link', async () => {
  const { state, compiled, find } = await machine();
  expect([find(), find()]).toEqual([compiled, compiled]);
  expect((await lstat(compiled)).mode & 0o777).toBe(0o700);
  if (process.getuid === undefined) return;
  await chmod(state, 0o770);
  expect(find()).toBeUndefined();
  await chmod(state, 0o700);
  await rmdir(compiled);
  await symlink(await temporaryDirectory(), compiled);
  expect(find()).toBeUndefined();
});

test('is never in a directory that replaces an unwritable state directory', async () => {
  const own = await temporaryDirectory();
  const context = { platform: 'linux', homeDirectory: '/proc/nohome' } as const;
  expect(compileCacheDirectory({ ...context, env: {} })).toBeUndefined();
  const env = { PETS_STATE_DIR: own };
  expect(compileCacheDirectory({ ...context, env })).toBe(join(own, 'compiled'));
});
