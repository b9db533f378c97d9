import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isOwnDirectory } from '../../client/state-directory.ts';
import { JOURNAL_FILE } from '../../store/journal/format.ts';
import { acquireDirectoryLock } from '../../system/directory-lock.ts';
import type { Context } from '../core/context.ts';
import { fileError } from '../core/errors.ts';

// The stores of `pets serve --ephemeral`, in the directory for temporary files.

const PREFIX = 'pets-ephemeral-';

/** Creates an empty directory for a store that the server deletes when it stops. @throws CliError */
export const makeTemporaryDirectory = ({ temporaryDirectory }: Context): Promise<string> =>
  mkdtemp(join(temporaryDirectory, PREFIX)).catch((error) => {
    const hint =
      'set TMPDIR (on Windows: TEMP) to a directory that you can write to, or use --data <dir> instead of --ephemeral';
    throw fileError('create a temporary directory in', temporaryDirectory, error, hint);
  });

/** Deletes the temporary stores that killed servers of this user have left. Ignores errors: the next start tries again. */
export async function deleteLeftStores({
  temporaryDirectory,
}: Pick<Context, 'temporaryDirectory'>): Promise<void> {
  const names = await readdir(temporaryDirectory).catch(() => []);
  for (const name of names)
    if (name.startsWith(PREFIX)) await deleteIfLeft(join(temporaryDirectory, name)).catch(() => {});
}

async function deleteIfLeft(directory: string): Promise<void> {
  // A symbolic link is not a directory here. A server that starts creates its directory first, and the journal only after
  // it has locked the directory.
  if (!isOwnDirectory(directory, 0o077) || !existsSync(join(directory, JOURNAL_FILE))) return;
  const lock = await acquireDirectoryLock(directory);
  try {
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  } finally {
    await lock.release();
  }
}
