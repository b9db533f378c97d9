import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ALL, bulkAdd, interruptWait, limited } from '../helpers/bulk-commands.ts';

/** A user with a runtime directory, and with a state directory that `block` makes unwritable. */
async function withRuntimeDirectory() {
  const { run, directory } = await bulkAdd();
  const runtime = join(directory, 'runtime');
  await mkdir(runtime);
  const state = join(directory, 'state');
  return {
    run,
    runtime,
    state,
    env: { XDG_RUNTIME_DIR: runtime },
    block: () => writeFile(state, ''),
    unblock: () => rm(state),
  };
}

const NOTE =
  'recording the rows in DIRECTORY/runtime/pets; an interrupted run can be resumed only while this directory exists';
const INTERRUPTED = { ...interruptWait, replies: { Bella: limited(30) }, code: 130, sends: 'Rex Bella' };
const REST = { sends: 'Bella Lola', results: ALL };

test('if the state directory is not writable, a run is recorded and resumed in the runtime directory', async () => {
  const { run, env, block } = await withRuntimeDirectory();
  await block();
  await run({ ...INTERRUPTED, env, stderr: NOTE }, { ...REST, env, stderr: NOTE });
});

test('a run that was recorded in the runtime directory is resumed there, even if the state directory is writable again', async () => {
  const { run, env, block, unblock, state } = await withRuntimeDirectory();
  await block();
  await run({ ...INTERRUPTED, env });
  await unblock();
  await run({ args: '--dry-run', env, stderr: /would add 2/ }, { ...REST, env, stderr: NOTE });
  expect(await readdir(join(state, 'pets'))).not.toContain('bulk');
});

test('a run in a writable state directory neither uses the runtime directory nor mentions it', async () => {
  const { run, env, runtime } = await withRuntimeDirectory();
  await run({ ...INTERRUPTED, env, lacks: 'recording' }, { ...REST, env, lacks: 'recording' });
  expect(await readdir(runtime)).toEqual([]);
});
