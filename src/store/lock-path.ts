import * as fs from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from './errors.ts';

/** What a socket's address holds on macOS; on Linux it is four more. Node 20 cuts what is longer without a word. */
const MAX_SOCKET_PATH = 103;
/** The longest name of a claim: `claim-`, a process id, a dash and eight digits. */
const NAME_LENGTH = 'claim-4294967295-ffffffff'.length;

/** Another path to a directory, short enough that a socket in it can be reached. */
export type ShortPath = { directory: string; remove(): Promise<void> };

/** @throws StoreError where not even `temporary` is short enough */
export async function shortPath(directory: string, temporary: string): Promise<ShortPath> {
  if (fits(directory)) return { directory, remove: async () => {} };
  // What mkdtemp appends is six characters.
  if (!fits(join(temporary, 'pets-xxxxxx', 'd'))) {
    throw new StoreError(
      `the path ${directory} is too long for a socket, and so is that of the temporary directory ${temporary}`,
      'choose a shorter --data, or set TMPDIR to a shorter path',
    );
  }
  const private_ = await fs.mkdtemp(join(temporary, 'pets-'));
  const link = join(private_, 'd');
  await fs.symlink(directory, link);
  return {
    directory: link,
    async remove() {
      await fs.unlink(link).catch(() => {});
      await fs.rmdir(private_).catch(() => {});
    },
  };
}

const fits = (directory: string) => Buffer.byteLength(directory) + 1 + NAME_LENGTH <= MAX_SOCKET_PATH;
