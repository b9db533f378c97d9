import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { isOwnDirectory } from '../../client/service-state.ts';
import { API_PREFIX, type PlanName } from '../../contract/api.ts';
import { HOST_NAME_PATTERN } from '../../contract/headers.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { StoreError, type StoreErrorCode } from '../../store/errors.ts';
import { JOURNAL_FILE } from '../../store/journal/format.ts';
import type { DatabaseLocation } from '../../store/postgres/postgres-location.ts';
import { isAddressBlock } from '../../system/address-blocks.ts';
import { acquireDirectoryLock } from '../../system/directory-lock.ts';
import type { Context } from '../core/context.ts';
import { fileError, toCliError, usageError } from '../core/errors.ts';
import { ArgumentError } from '../core/values.ts';
import { shellQuote } from '../output/text.ts';
import { dataDirectory, expandHome } from '../profiles/paths.ts';
import { parseBaseUrl } from '../profiles/profile.ts';
import { type CommandContext, option } from '../program/command.ts';

export type ServeOptions = {
  port?: number;
  host: string;
  data?: string;
  ephemeral?: boolean;
  resettable?: boolean;
  /** A file, or true for the sample data. */
  seed?: string | true;
  plan?: PlanName;
  keyFile?: string;
  profile: boolean;
  /** The delay of responses, in milliseconds. */
  latency?: { min: number; max: number };
  failRate?: number;
  faultSeed?: number;
  /** The path of a JSON file. */
  faults?: string;
  banAfter: number;
  /** The length of a ban, in seconds. */
  banFor: number;
  publicUrl?: string;
  trustProxy?: string[];
  allowHost?: string[];
  cors?: string[];
  log?: boolean;
  /** True with `--page`, false with `--no-page`. */
  page?: boolean;
  /** The words of the command after `--`. Empty without a command. */
  command: string[];
};

export const DEFAULT_PLAN: PlanName = 'pro';

/** Parses the value of --latency: a number or a range of milliseconds, such as `200` or `100-300`. */
export function parseLatency(text: string): { min: number; max: number } {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  const min = Number(match?.[1]);
  const max = Number(match?.[2] ?? match?.[1]);
  if (!match || min > max)
    throw new ArgumentError('must be milliseconds up to 99999, or a range, for example 200 or 100-300');
  return { min, max };
}

export function parseHostName(text: string): string {
  if (HOST_NAME_PATTERN.test(text)) return text.toLowerCase();
  throw new ArgumentError('must be a host name or an address (IPv6 in brackets), without a port');
}

/** Parses the value of --public-url. Returns the base URL, which ends with /v1 even if that part is left out. */
export function parsePublicUrl(text: string): string {
  const url = parseBaseUrl(text);
  if (url === undefined)
    throw new ArgumentError(
      'must be a valid http(s) URL without user, query or fragment, for example https://shop.example/inventory',
    );
  return url.endsWith(API_PREFIX) ? url : url + API_PREFIX;
}

export function parseAddressBlock(text: string): string {
  if (isAddressBlock(text)) return text;
  throw new ArgumentError('must be an IP address or a CIDR block, for example 10.0.0.0/8');
}

/** Matches a scheme, which may be that of an app or a browser extension, a host, and perhaps a port. */
const ORIGIN = /^(?!(?:wss?|ftp|file|data|blob):)[a-z][a-z0-9+.-]*:\/\/[\w.:[\]-]+$/;

/** Parses the value of --cors: `*`, or one origin as browsers send it in the Origin header. Patterns are not supported. */
export function parseOrigin(text: string): string {
  const origin = text.toLowerCase().replace(/\/$/, '');
  if (origin === '*') return origin;
  if (!ORIGIN.test(origin) || !URL.canParse(origin))
    throw new ArgumentError(
      'must be * alone, or an origin without *, such as http://localhost:5173 or tauri://localhost',
    );
  // A browser leaves out the usual port.
  return /^https?:/.test(origin) ? new URL(origin).origin : origin;
}

/**
 * Returns the directory or URL of a store unchanged. @throws ArgumentError if it begins or ends with white space, or is
 * empty: an unset shell variable must not mean the current or the default directory
 */
export function checkStoreArgument(text: string): string {
  if (text === '') throw new ArgumentError('must be the name of a directory or the URL of a database');
  if (text !== text.trim()) throw new ArgumentError('must not begin or end with white space');
  return text;
}

export const dataOption = option(
  '--data <dir|url>',
  'store: directory or postgres:// URL (default: PETS_DATA, or a directory in your home)',
  checkStoreArgument,
);

/** Adds `--data` and the store to a command, unless it is the default store. `place` has no password. */
export function addDataOption(
  command: string,
  data: string | undefined,
  { place }: Pick<StoreLocation, 'place'>,
  { env, platform }: Pick<Context, 'env' | 'platform'>,
): string {
  return data || env['PETS_DATA'] ? `${command} ${shellQuote(['--data', place], platform)}` : command;
}

/**
 * Finds the local service's store: the one of the argument, or else of PETS_DATA, or else in the user's data directory.
 *
 * @param argument a directory or URL, as the user has written it on the command line
 * @throws StoreError if the argument or PETS_DATA is not valid, CliError if it is not UTF-8 text
 */
export async function findStoreLocation(
  argument: string | undefined,
  context: CommandContext,
): Promise<StoreLocation> {
  const { parseLocation } = await import('../../store/location.ts');
  const place = expandHome(argument ?? context.env['PETS_DATA'] ?? '', context) || dataDirectory(context);
  const location = await parseLocation(place, { ...context, userName: userName() });
  if (location.isShared || !resolve(place).includes('\ufffd')) return location;
  throw usageError(`the path ${resolve(place)} is not UTF-8`, 'rename it, or choose another one');
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

/** Returns a function that throws the error it gets. An error of a store with one of these codes gets this hint. */
export const replaceHints =
  (hints: Partial<Record<StoreErrorCode, string>>) =>
  (error: unknown): never => {
    const hint = error instanceof StoreError ? hints[error.code] : undefined;
    throw hint === undefined ? error : toCliError(error).withHint(hint);
  };

/** The name of the user; undefined if there is none, as in some containers. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

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
