import { readFile, stat } from 'node:fs/promises';
import { DEFAULT_SOCKET_DIRECTORIES } from './socket-directory.ts';

export type PasswordQuery = { host: string; port: number; database: string; user: string };

/**
 * Finds the password for a connection in a file in the format of `~/.pgpass`, which has one line for each password:
 * `host:port:database:user:password`. As in libpq, a missing file is ignored, and one that other users can read is
 * ignored with a warning.
 *
 * @see https://www.postgresql.org/docs/current/libpq-pgpass.html
 */
export async function readPasswordFile(
  path: string,
  query: PasswordQuery,
): Promise<{ password?: string; warning?: string }> {
  try {
    const status = await stat(path);
    if (!status.isFile()) return { warning: `the password file ${path} is ignored: it is not a plain file` };
    if (status.mode & 0o077) {
      return {
        warning: `the password file ${path} is ignored: its mode lets other users read it. Make it private: chmod 600 ${path}`,
      };
    }
    const password = findPassword(await readFile(path, 'utf8'), query);
    return password ? { password } : {};
  } catch {
    return {};
  }
}

/** The password of the first line that matches; undefined if no line matches. */
export function findPassword(
  text: string,
  { host, port, database, user }: PasswordQuery,
): string | undefined {
  // As in libpq, a line for localhost also applies to the default directories of sockets.
  const wanted = [DEFAULT_SOCKET_DIRECTORIES.includes(host) ? 'localhost' : host, `${port}`, database, user];
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue;
    const match = /^((?:\\.|[^\\:])*):((?:\\.|[^\\:])*):((?:\\.|[^\\:])*):((?:\\.|[^\\:])*):(.*)$/.exec(line);
    if (!match) continue;
    const [password = '', ...fields] = [match[5], ...match.slice(1, 5)];
    if (fields.every((field, i) => field === '*' || removeBackslashes(field ?? '') === wanted[i])) {
      return removeBackslashes(password);
    }
  }
  return undefined;
}

const removeBackslashes = (text: string): string => text.replace(/\\(.)/g, '$1');
