import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { importing, interruptWait, limited, type Step } from '../helpers/import-commands.ts';

const FALLBACK = `pets-state-${process.geteuid?.() ?? 'user'}`;
const NOTE = `recording the rows in DIRECTORY/${FALLBACK}; they are recognized only while this directory exists`;
const INTERRUPTED: Step = {
  ...interruptWait,
  replies: { Bella: limited(30) },
  code: 130,
  sends: 'Rex Bella',
};
const REST: Step = { sends: 'Bella Lola', stdout: /Lola/ };

test('if the state directory is not writable, a run is recorded and resumed in the directory for temporary files, also later', async () => {
  const { run, directory } = await importing();
  const state = join(directory, 'state');
  await writeFile(state, '');
  await run({ ...INTERRUPTED, stderr: NOTE }, { args: '--dry-run', stderr: /would add 2/ });
  await rm(state);
  await run({ ...REST, stderr: NOTE });
  expect(await readdir(join(state, 'pets'))).not.toContain('imports');
});

test('a run in a writable state directory neither uses the directory for temporary files nor mentions it', async () => {
  const { run, directory } = await importing();
  await run({ ...INTERRUPTED, lacks: 'recording' }, { ...REST, lacks: 'recording' });
  expect(await readdir(directory)).not.toContain(FALLBACK);
});
