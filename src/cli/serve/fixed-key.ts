import { API_KEY_PATTERN } from '../../contract/headers.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { readTextFile } from '../../system/files.ts';
import type { Context } from '../context.ts';
import { fileError, usageError } from '../errors/errors.ts';

const VARIABLE = 'PETS_SERVE_KEY';
const MAX_BYTES = 2 ** 16;

/** An API key that the user has chosen. `source` is the file or the environment variable that contains it. */
export type FixedKey = { key: string; source: string };

/**
 * Reads the API key in the file of `--key-file`, or else in PETS_SERVE_KEY. There is no option for the key itself, because
 * other users can see the arguments of a process.
 *
 * @returns undefined if there is neither
 * @throws CliError if the file cannot be read or the key is invalid
 */
export async function readFixedKey(
  keyFile: string | undefined,
  { env }: Pick<Context, 'env'>,
): Promise<FixedKey | undefined> {
  const source = keyFile ?? VARIABLE;
  const text = keyFile === undefined ? env[VARIABLE] : await readKeyFile(keyFile);
  if (keyFile !== undefined && text === undefined) throw usageError(`the key file ${keyFile} does not exist`);
  if (text === undefined) return undefined;
  // Files and secrets of CI systems often end with a line break.
  const key = text.trim();
  if (!API_KEY_PATTERN.test(key)) {
    throw usageError(
      `the key in ${source} is ${key === '' ? 'empty' : 'not valid'}`,
      'a key consists of visible ASCII characters without spaces',
    );
  }
  return { key, source };
}

/** Reads a file that contains an API key. Undefined if the file does not exist. @throws CliError */
export const readKeyFile = (path: string): Promise<string | undefined> =>
  readTextFile(realFileSystem, path, MAX_BYTES).catch((error) => {
    throw fileError('read', path, error);
  });
