import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { importing, interruptWait, limited } from '../helpers/import-commands.ts';

/** A user with a state directory that `block` makes unwritable. */
async function withStateDirectory() {
  const { run, directory } = await importing();
  const state = join(directory, 'state');
  return {
    run,
    directory,
    state,
    block: () => writeFile(state, ''),
    unblock: () => rm(state),
  };
}

const FALLBACK = `pets-state-${process.geteuid?.() ?? 'user'}`;
const NOTE = `recording the rows in DIRECTORY/${FALLBACK}; they are recognized only while this directory exists`;
const INTERRUPTED = { ...interruptWait, replies: { Bella: limited(30) }, code: 130, sends: 'Rex Bella' };
const REST = { sends: 'Bella Lola', stdout: /Lola/ };

test('if the state directory is not writable, a run is recorded and resumed in the directory for temporary files', async () => {
  const { run, block } = await withStateDirectory();
  await block();
  await run({ ...INTERRUPTED, stderr: NOTE }, { ...REST, stderr: NOTE });
});

test('a run that was recorded in the directory for temporary files is resumed there, even if the state directory is writable again', async () => {
  const { run, block, unblock, state } = await withStateDirectory();
  await block();
  await run({ ...INTERRUPTED });
  await unblock();
  await run({ args: '--dry-run', stderr: /would add 2/ }, { ...REST, stderr: NOTE });
  expect(await readdir(join(state, 'pets'))).not.toContain('imports');
});

test('a run in a writable state directory neither uses the directory for temporary files nor mentions it', async () => {
  const { run, directory } = await withStateDirectory();
  await run({ ...INTERRUPTED, lacks: 'recording' }, { ...REST, lacks: 'recording' });
  expect(await readdir(directory)).not.toContain(FALLBACK);
});
