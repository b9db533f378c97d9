import { userInfo } from 'node:os';
import type { StoreLocation } from '../../store/backend.ts';
import { StoreError, type StoreErrorCode } from '../../store/errors.ts';
import type { DatabaseLocation } from '../../store/postgres/postgres-location.ts';
import { toCliError, usageError } from '../core/errors.ts';
import { checkStoreArgument } from '../core/parsers.ts';
import { shellQuote } from '../core/shell-words.ts';
import { dataDirectory } from '../profiles/paths.ts';
import { type CommandContext, option } from '../program/command.ts';

export const dataOption = option(
  '--data <dir|url>',
  'store: directory or postgres:// URL (default: PETS_DATA, or a directory in your home)',
  checkStoreArgument,
);

/** Adds `--data` and the store to a command if the user gave this option. A password in the URL is left out. */
export function addDataOption(
  command: string,
  data: string | undefined,
  { place }: Pick<StoreLocation, 'place'>,
  platform: NodeJS.Platform,
): string {
  return data === undefined ? command : `${command} ${shellQuote(['--data', place], platform)}`;
}

/**
 * Finds the local service's store: the one of the argument, or else of PETS_DATA, or else in the user's data directory.
 *
 * @param argument a directory or URL, as the user has written it on the command line
 * @throws StoreError if the argument or PETS_DATA is not valid
 */
export async function findStoreLocation(
  argument: string | undefined,
  context: CommandContext,
): Promise<StoreLocation> {
  const { parseLocation } = await import('../../store/location.ts');
  // Environment and secret files often end with a line break.
  const place = argument ?? (context.env['PETS_DATA']?.trim() || dataDirectory(context));
  return parseLocation(place, { ...context, userName: userName() });
}

/** Like `findStoreLocation`, for a command that needs a database. @throws StoreError, CliError for a directory */
export async function findDatabase(
  argument: string | undefined,
  context: CommandContext,
): Promise<DatabaseLocation> {
  const location = await findStoreLocation(argument, context);
  if ('migrate' in location) return location as DatabaseLocation;
  throw usageError(
    'only a database has a schema; a store in a directory needs none',
    'give the postgres:// URL of a database, as an argument or in PETS_DATA',
  );
}

/** Returns an error handler that replaces the hints of errors of a store with these codes, and rethrows other errors. */
export const replaceHints =
  (hints: Partial<Record<StoreErrorCode, string>>) =>
  (error: unknown): never => {
    const hint = error instanceof StoreError ? hints[error.code] : undefined;
    throw hint === undefined ? error : toCliError(error).withHint(hint);
  };

/** Undefined if the user has no name, as in some containers. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}
