import { hash } from 'node:crypto';
import { join, resolve } from 'node:path';
import * as z from 'zod/mini';
import type { Clock } from '../contract/clock.ts';
import { describeIssues, says } from '../contract/issues.ts';
import { MAX_QUOTA, PlanName, plans, type Quota } from '../contract/plans.ts';
import { fileError, StoreDamagedError, StoreError, StoreNotFoundError, StoreRequestError } from './errors.ts';
import {
  ensureDirectory,
  errnoOf,
  type Files,
  isMissing,
  readAll,
  realFiles,
  syncUpward,
  withFile,
  writeAll,
} from './files.ts';
import { Instant, readStored, Sha256 } from './stored-json.ts';

/** A directory below the store's that holds a file for each API key (design D16). */
const KEYS = 'keys';
const MAX_FILE_BYTES = 2 ** 16;

const quotaRange = 'must be an integer from 1 to 10^15';
const quota = z.optional(
  z.custom<number>(
    (value) => Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= MAX_QUOTA,
    says(quotaRange),
  ),
);
const KeyName = z
  .string(says('must be a string'))
  .check(
    z.regex(
      /^[a-z0-9][a-z0-9._-]{0,63}$/,
      'must be 1 to 64 of a-z, 0-9, dot, dash and underscore, and begin with a letter or a digit',
    ),
  );

const bothOrNone = (key: { perMinute?: number | undefined; perDay?: number | undefined }) =>
  (key.perMinute === undefined) === (key.perDay === undefined);

const NewKey = z.object({ name: KeyName, plan: PlanName, perMinute: quota, perDay: quota }).check(
  z.refine((key) => key.plan === 'enterprise' || (key.perMinute ?? key.perDay) === undefined, {
    path: ['plan'],
    error: 'must be enterprise where a key has a quota of its own',
  }),
  z.refine(bothOrNone, { error: 'a quota needs both: requests per minute and per day' }),
);

/** A key as its file has it: the key itself is nowhere. `created` is an instant of ISO 8601. */
export type StoredKey = z.infer<typeof StoredKey>;
const StoredKey = z.extend(z.object(NewKey.shape, says('must be a JSON object')), {
  sha256: Sha256,
  created: Instant,
});

/** `quota` only with the plan enterprise; without one that plan's own holds. `key` where it was minted before. */
export type KeyRequest = { name: string; plan: PlanName; quota?: Quota | undefined; key?: string };

/** `key` is shown this once, and then nobody can tell it. */
export type CreatedKey = { name: string; plan: PlanName; quota: Quota; key: string };

export type Random = (bytes: number) => Uint8Array;

/** A new API key: 256 random bits behind a prefix that a search for lost keys recognises. */
export const mintKey = (random: Random): string => `pets_${Buffer.from(random(32)).toString('base64url')}`;

/**
 * Makes an API key of the store in `directory`.
 *
 * @throws StoreRequestError where the request is not valid
 * @throws StoreError where the name is taken, or the file cannot be written: there is no such key then
 */
export async function createKey(
  directory: string,
  { name, plan, quota: own, key: minted }: KeyRequest,
  { clock, random, files = realFiles }: { clock: Clock; random: Random; files?: Files },
): Promise<CreatedKey> {
  const parsed = NewKey.safeParse({ name, plan, ...own });
  if (!parsed.success) {
    const message = `no such key can be made: ${describeIssues(parsed.error)}`;
    throw new StoreRequestError(message, 'see: pets help keys add');
  }
  const key = minted ?? mintKey(random);
  const created = new Date(clock.now()).toISOString();
  const stored: StoredKey = { ...parsed.data, sha256: hashKey(key), created };
  const folder = keyFolder(directory);
  const temporary = join(folder, `${name}.new-${Buffer.from(random(8)).toString('hex')}`);
  try {
    await ensureDirectory(files, folder);
    await withFile(await files.open(temporary, 'create'), async (file) => {
      await writeAll(file, Buffer.from(`${JSON.stringify(stored)}\n`), 0);
      await file.datasync();
    });
    await linkExclusively(files, temporary, join(folder, `${name}.json`), name);
    await syncUpward(files, folder).catch(async (error) => {
      // Nobody has seen the key yet: one that may not last is none.
      await files.unlink(join(folder, `${name}.json`)).catch(() => {});
      throw error;
    });
  } catch (error) {
    throw fileError(error, `write the key ${name} in ${folder}`);
  } finally {
    await files.unlink(temporary).catch(() => {});
  }
  return { name, plan, quota: quotaOf(stored), key };
}

/** Gives a file its name; unlike a rename it never takes the place of one that is there. */
async function linkExclusively(files: Files, from: string, to: string, name: string): Promise<void> {
  try {
    await files.link(from, to);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw new StoreError(`a key named ${name} exists`, `choose another name, or pets keys revoke ${name}`);
  }
}

/**
 * The keys of the store in `directory`, by name.
 *
 * @throws StoreError where a key's file is damaged, naming it
 */
export async function listKeys(directory: string, files: Files = realFiles): Promise<StoredKey[]> {
  const names = await keyNames(directory, files);
  const keys = await Promise.all(names.map((name) => readKey(directory, name, files)));
  return keys.filter((key) => key !== undefined);
}

/**
 * Removes a key; a server of the store refuses it within a second.
 *
 * @throws StoreError where there is no key of that name
 */
export async function revokeKey(directory: string, name: string, files: Files = realFiles): Promise<void> {
  const names = await keyNames(directory, files);
  const folder = keyFolder(directory);
  try {
    // Only a name that was listed becomes part of a path.
    if (!names.includes(name)) throw noKey(name, names);
    await files.unlink(join(folder, `${name}.json`));
    await files.syncDirectory(folder);
  } catch (error) {
    throw isMissing(error) ? noKey(name, names) : fileError(error, `remove the key ${name} in ${folder}`);
  }
}

/** The quota that holds for a key. */
export function quotaOf({
  plan,
  perMinute,
  perDay,
}: Pick<StoredKey, 'plan' | 'perMinute' | 'perDay'>): Quota {
  return { perMinute: perMinute ?? plans[plan].perMinute, perDay: perDay ?? plans[plan].perDay };
}

/** What the store keeps of a key: its SHA-256, hexadecimal. */
export const hashKey = (key: string): string => hash('sha256', key);

/** The names of the keys there are, sorted. */
export async function keyNames(directory: string, files: Files = realFiles): Promise<string[]> {
  try {
    const found = await files.readdir(keyFolder(directory));
    const names = found
      .filter((file) => file.endsWith('.json'))
      .map((file) => file.slice(0, -'.json'.length));
    return names.filter((name) => KeyName.safeParse(name).success).sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw fileError(error, `read the keys in ${directory}`);
  }
}

/** Where the keys are kept, and each of them. */
export const keyFolder = (directory: string): string => join(resolve(directory), KEYS);
export const keyPath = (directory: string, name: string): string =>
  join(keyFolder(directory), `${name}.json`);

/** One key; undefined where it was revoked meanwhile. */
export async function readKey(
  directory: string,
  name: string,
  files: Files = realFiles,
): Promise<StoredKey | undefined> {
  const path = keyPath(directory, name);
  let text: string;
  try {
    const buffer = Buffer.alloc(MAX_FILE_BYTES);
    text = await withFile(await files.open(path, 'read'), async (file) => {
      return buffer.toString('utf8', 0, await readAll(file, buffer, 0));
    });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw fileError(error, `read ${path}`);
  }
  const stored = readStored(StoredKey, text);
  if ('data' in stored && stored.data.name === name) return stored.data;
  const why = 'data' in stored ? `it is that of ${stored.data.name}` : stored.why;
  throw new StoreDamagedError(
    `${path} is damaged: ${why}`,
    `pets keys revoke ${name}, and make the key anew`,
  );
}

function noKey(name: string, names: string[]): StoreError {
  const there =
    names.length > 0 ? `the keys are: ${names.join(', ')}` : 'the store has no keys: pets keys add';
  return new StoreNotFoundError(`there is no key named ${JSON.stringify(name)}`, there);
}
