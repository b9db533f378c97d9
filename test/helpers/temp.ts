import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A directory of its own for one test, removed behind it. */
export async function temporaryDirectory(): Promise<string> {
  const directory = await makeTemporaryDirectory();
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** The same for who removes it himself. */
export async function makeTemporaryDirectory(): Promise<string> {
  return realpath(await mkdtemp(join(tmpdir(), 'pets-test-')));
}
