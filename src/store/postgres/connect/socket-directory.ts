import { access } from 'node:fs/promises';
import { join } from 'node:path';

/** The directories in which servers create their sockets: on Debian and Red Hat, and by default. */
export const DEFAULT_SOCKET_DIRECTORIES: readonly string[] = ['/var/run/postgresql', '/tmp'];

/** The first of the directories with the socket of a server on this port; undefined if there is none. */
export async function findSocketDirectory(
  port: number,
  directories = DEFAULT_SOCKET_DIRECTORIES,
): Promise<string | undefined> {
  for (const directory of directories) {
    const exists = await access(join(directory, `.s.PGSQL.${port}`)).then(
      () => true,
      () => false,
    );
    if (exists) return directory;
  }
  return undefined;
}
