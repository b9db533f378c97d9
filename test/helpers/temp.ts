import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { StateDirectory } from '../../src/client/service-state.ts';

/** A new directory, removed after the test. */
export async function temporaryDirectory(): Promise<string> {
  const directory = await makeTemporaryDirectory();
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** A new directory that the caller removes. */
export async function makeTemporaryDirectory(): Promise<string> {
  return realpath(await mkdtemp(join(tmpdir(), 'pets-test-')));
}

/** A new state directory, removed after the test. */
export function stateDirectory(): StateDirectory {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'pets-test-')));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return { path, isTemporary: false };
}
