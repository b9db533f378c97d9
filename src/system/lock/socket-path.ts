import * as fs from 'node:fs/promises';
import { join } from 'node:path';
import { LockError } from './claim.ts';

/** The longest socket path on macOS in bytes; Linux allows 4 more. Node 20 silently truncates longer paths. */
const MAX_SOCKET_PATH = 103;
/** The length of the longest file name of a claim. */
const MAX_NAME_LENGTH = 'claim-4294967295-ffffffff'.length;

/**
 * Returns a path of the directory that is short enough for sockets in the directory. If the directory's own path is too
 * long, creates a symbolic link in the directory `temporary`. `remove` deletes the link.
 *
 * @throws LockError if the path of the link is too long as well, or the link cannot be created
 */
export async function shortPath(directory: string, temporary: string) {
  if (fits(directory)) return { directory, remove: async () => {} };
  // mkdtemp appends six characters.
  if (!fits(join(temporary, 'pets-xxxxxx', 'd'))) {
    throw new LockError(
      `the path ${directory} is too long for a socket, and so is the temporary directory ${temporary}`,
      'use a shorter path, or set TMPDIR to a shorter path',
    );
  }
  const { parent, link } = await createLink(directory, temporary).catch((error) => {
    throw new LockError(
      `the path ${directory} is too long for a socket, and no link to it can be created in the temporary directory: ${error.message}`,
      'use a shorter path, or set TMPDIR to a directory that you can write to',
    );
  });
  return {
    directory: link,
    async remove() {
      await fs.unlink(link).catch(() => {});
      await fs.rmdir(parent).catch(() => {});
    },
  };
}

async function createLink(directory: string, temporary: string) {
  const parent = await fs.mkdtemp(join(temporary, 'pets-'));
  const link = join(parent, 'd');
  await fs.symlink(directory, link);
  return { parent, link };
}

const fits = (directory: string) => Buffer.byteLength(directory) + 1 + MAX_NAME_LENGTH <= MAX_SOCKET_PATH;
