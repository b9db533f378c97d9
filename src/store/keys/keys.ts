import { hash, randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import * as z from 'zod/mini';
import type { Clock } from '../../contract/clock.ts';
import { describeIssues, fieldError } from '../../contract/issues.ts';
import { MAX_QUOTA, PlanName, plans, type Quota } from '../../contract/plans.ts';
import { fsyncAncestors, makeDirectory } from '../../system/directories.ts';
import { errnoOf, type FileSystem, isMissing, realFileSystem } from '../../system/file-system.ts';
import { createFile, readTextFile, temporaryName } from '../../system/files.ts';
import {
  StoreDamagedError,
  StoreError,
  StoreNotFoundError,
  StoreRequestError,
  toStoreError,
} from '../errors.ts';
import { Instant, readStored, Sha256 } from '../stored-json.ts';

const MAX_FILE_BYTES = 2 ** 16;

const quota = z.optional(
  z.custom<number>(
    (value) => Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= MAX_QUOTA,
    fieldError('must be an integer from 1 to 10^15'),
  ),
);
const KeyName = z
  .string(fieldError('must be a string'))
  .check(
    z.regex(
      /^[a-z0-9][a-z0-9._-]{0,63}$/,
      'must have 1 to 64 characters (a-z, 0-9, dot, dash, underscore) and begin with a letter or digit',
    ),
  );

const hasBothOrNoQuota = (key: { perMinute?: number | undefined; perDay?: number | undefined }) =>
  (key.perMinute === undefined) === (key.perDay === undefined);

const NewKey = z.object({ name: KeyName, plan: PlanName, perMinute: quota, perDay: quota }).check(
  z.refine((key) => key.plan === 'enterprise' || (key.perMinute ?? key.perDay) === undefined, {
    path: ['plan'],
    error: 'must be enterprise for a key with its own quota',
  }),
  z.refine(hasBothOrNoQuota, { error: 'a quota needs both requests per minute and requests per day' }),
);

/** The contents of the file of an API key. The file has only a hash of the key. `created` is an ISO 8601 time. */
export type StoredKey = z.infer<typeof StoredKey>;
const StoredKey = z.extend(z.object(NewKey.shape, fieldError('must be a JSON object')), {
  sha256: Sha256,
  created: Instant,
});

/** Only enterprise keys can have their own `quota`. `key` is generated if it is missing. */
export type KeyRequest = { name: string; plan: PlanName; quota?: Quota | undefined; key?: string };

/** A new key. `key` cannot be recovered later. */
export type CreatedKey = { name: string; plan: PlanName; quota: Quota; key: string };

/** An API key with 256 random bits. The prefix lets secret scanners recognise it. */
export const generateKey = (): string => `pets_${randomBytes(32).toString('base64url')}`;

/** The SHA-256 of an API key in hexadecimal. */
export const hashKey = (key: string): string => hash('sha256', key);

/** The directory of the key files (docs/service.md, D16). */
export const keyDirectory = (directory: string): string => join(resolve(directory), 'keys');

export const keyPath = (directory: string, name: string): string =>
  join(keyDirectory(directory), `${name}.json`);

/** The API key's own quota if it has one, otherwise the quota of its plan. */
export function quotaOf(key: Pick<StoredKey, 'plan' | 'perMinute' | 'perDay'>): Quota {
  const { perMinute, perDay } = plans[key.plan];
  return { perMinute: key.perMinute ?? perMinute, perDay: key.perDay ?? perDay };
}

/**
 * Creates an API key of the store in `directory`.
 *
 * @throws StoreRequestError if the request is not valid
 * @throws StoreError if the name is taken or the file cannot be written
 */
export async function createKey(
  directory: string,
  { name, plan, quota: ownQuota, key: givenKey }: KeyRequest,
  clock: Clock,
  files: FileSystem = realFileSystem,
): Promise<CreatedKey> {
  const parsed = NewKey.safeParse({ name, plan, ...ownQuota });
  if (!parsed.success) {
    throw new StoreRequestError(
      `cannot create the key: ${describeIssues(parsed.error)}`,
      'see: pets help keys add',
    );
  }
  const key = givenKey ?? generateKey();
  const created = new Date(clock.now()).toISOString();
  const stored: StoredKey = { ...parsed.data, sha256: hashKey(key), created };
  const path = keyPath(directory, name);
  const temporary = join(keyDirectory(directory), temporaryName(name));
  try {
    await makeDirectory(files, keyDirectory(directory));
    await createFile(files, temporary, [Buffer.from(`${JSON.stringify(stored)}\n`)]);
    // Unlike a rename, a link never replaces the file of another key.
    await files.link(temporary, path);
    await fsyncAncestors(files, keyDirectory(directory)).catch(async (error) => {
      // The caller gets an error instead of the key, so the file must not stay.
      await files.unlink(path).catch(() => {});
      throw error;
    });
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') {
      throw new StoreError(
        `a key named ${name} already exists`,
        `choose another name, or run pets keys revoke ${name}`,
      );
    }
    throw toStoreError(error, `write ${path}`);
  } finally {
    await files.unlink(temporary).catch(() => {});
  }
  return { name, plan, quota: quotaOf(stored), key };
}

/**
 * The API keys of the store in `directory`, sorted by name.
 *
 * @throws StoreError if a file is damaged or cannot be read
 */
export async function listKeys(directory: string, files: FileSystem = realFileSystem): Promise<StoredKey[]> {
  const names = await keyNames(directory, files);
  const keys = await Promise.all(names.map((name) => readKey(directory, name, files)));
  return keys.filter((key) => key !== undefined);
}

/**
 * Deletes an API key. A running server rejects the key within a second.
 *
 * @throws StoreNotFoundError if no key has this name
 */
export async function revokeKey(
  directory: string,
  name: string,
  files: FileSystem = realFileSystem,
): Promise<void> {
  const names = await keyNames(directory, files);
  try {
    // Do not build a path from a name that is not in the list, because the path may be in another directory.
    if (!names.includes(name)) throw keyNotFound(name, names);
    await files.unlink(keyPath(directory, name));
    await files.syncDirectory(keyDirectory(directory));
  } catch (error) {
    if (isMissing(error)) throw keyNotFound(name, names);
    throw toStoreError(error, `delete ${keyPath(directory, name)}`);
  }
}

/** The names of all keys, sorted. */
export async function keyNames(directory: string, files: FileSystem = realFileSystem): Promise<string[]> {
  try {
    const fileNames = await files.readdir(keyDirectory(directory));
    const names = fileNames.flatMap((fileName) => /^(.+)\.json$/.exec(fileName)?.[1] ?? []);
    return names.filter((name) => KeyName.safeParse(name).success).sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw toStoreError(error, `read the keys in ${directory}`);
  }
}

/** Reads a key; undefined if it does not exist. @throws StoreDamagedError, StoreError */
export async function readKey(
  directory: string,
  name: string,
  files: FileSystem = realFileSystem,
): Promise<StoredKey | undefined> {
  const path = keyPath(directory, name);
  const text = await readTextFile(files, path, MAX_FILE_BYTES).catch((error) => {
    throw toStoreError(error, `read ${path}`);
  });
  if (text === undefined) return undefined;
  const stored = readStored(StoredKey, text);
  if ('data' in stored && stored.data.name === name) return stored.data;
  const why = 'data' in stored ? `it contains the key named ${stored.data.name}` : stored.why;
  throw new StoreDamagedError(
    `${path} is damaged: ${why}`,
    `run pets keys revoke ${name}, then create the key again`,
  );
}

function keyNotFound(name: string, names: string[]): StoreError {
  const hint =
    names.length > 0
      ? `existing keys: ${names.join(', ')}`
      : 'the store has no keys. Create one: pets keys add <name> --plan <plan>';
  return new StoreNotFoundError(`there is no key named ${JSON.stringify(name)}`, hint);
}
