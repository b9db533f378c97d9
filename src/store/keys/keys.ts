import { hash, randomBytes } from 'node:crypto';
import * as z from 'zod/mini';
import { describeIssues, fieldError } from '../../contract/issues.ts';
import { MAX_QUOTA, PlanName, plans, type Quota } from '../../contract/plans.ts';
import type { Clock } from '../../system/clock.ts';
import { StoreError } from '../errors.ts';
import { IsoTime, Sha256 } from '../stored-json.ts';

const quota = z.optional(
  z.custom<number>(
    (value) => Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= MAX_QUOTA,
    fieldError('must be an integer from 1 to 10^15'),
  ),
);
export const KeyName = z
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

/** An API key as a store keeps it: only a hash of the key. `created` is an ISO 8601 time. */
export type StoredKey = z.infer<typeof StoredKey>;
export const StoredKey = z.extend(z.object(NewKey.shape, fieldError('must be a JSON object')), {
  sha256: Sha256,
  created: IsoTime,
});

/** Only enterprise keys can have their own `quota`. `key` is generated if it is missing. */
export type KeyRequest = { name: string; plan: PlanName; quota?: Quota | undefined; key?: string };

/** A new key. `key` cannot be recovered later. */
export type CreatedKey = { name: string; plan: PlanName; quota: Quota; key: string };

/** An API key with 256 random bits. The prefix lets secret scanners recognize it. */
export const generateKey = (): string => `pets_${randomBytes(32).toString('base64url')}`;

export const hashKey = (key: string): string => hash('sha256', key);

/** The API key's own quota if it has one, otherwise the quota of its plan. */
export function quotaOf(key: Pick<StoredKey, 'plan' | 'perMinute' | 'perDay'>): Quota {
  const { perMinute, perDay } = plans[key.plan];
  return { perMinute: key.perMinute ?? perMinute, perDay: key.perDay ?? perDay };
}

/** A key, or the reason why it cannot be read. */
export type KeyOrError = StoredKey | { name: string; error: StoreError };

/** Returns the keys. @throws the error of a key that cannot be read */
export const requireValidKeys = (keys: readonly KeyOrError[]): StoredKey[] =>
  keys.map((key) => {
    if ('error' in key) throw key.error;
    return key;
  });

/** The end of each ban, in milliseconds since the epoch, by the SHA-256 of the API key in hexadecimal. */
export type StoredBans = ReadonlyMap<string, number>;

/** Where a store keeps its API keys. Changes are durable when a promise resolves. */
export interface KeyTable {
  /** All keys, sorted by name. @throws StoreError */
  read(): Promise<readonly KeyOrError[]>;
  /** Adds a key. Returns false if its name is taken. @throws StoreError */
  add(key: StoredKey): Promise<boolean>;
  /** Deletes a key that `read` has returned. Returns false if it does not exist any more. @throws StoreError */
  remove(name: string): Promise<boolean>;
  /** The stored bans. Some may have ended. @throws StoreError if they are damaged */
  bans(): Promise<StoredBans>;
}

/** Creates, lists and revokes API keys (docs/service.md, D16). Every method can throw a StoreError. */
export class KeyManager {
  #table: KeyTable;
  #clock: Clock;

  constructor(table: KeyTable, clock: Clock) {
    this.#table = table;
    this.#clock = clock;
  }

  /** The names of all keys, sorted, also of damaged ones. */
  async names(): Promise<string[]> {
    return (await this.#table.read()).map(({ name }) => name);
  }

  async get(name: string): Promise<StoredKey | undefined> {
    return requireValidKeys((await this.#table.read()).filter((key) => key.name === name))[0];
  }

  /** All keys, sorted by name. */
  async list(): Promise<StoredKey[]> {
    return requireValidKeys(await this.#table.read());
  }

  bans(): Promise<StoredBans> {
    return this.#table.bans();
  }

  /** @throws StoreError if the request is not valid (`key_request`), or if the name is taken */
  async create(request: KeyRequest): Promise<CreatedKey> {
    const { created, stored } = makeKey(request, this.#clock.now());
    if (await this.#table.add(stored)) return created;
    throw new StoreError(
      `a key named ${stored.name} already exists`,
      'choose another name, or revoke that key first',
    );
  }

  /** @throws StoreError if there is no key with this name (`key_missing`) */
  async revoke(name: string): Promise<void> {
    const names = await this.names();
    // A name that is not in the list must not become a part of a path.
    if (names.includes(name) && (await this.#table.remove(name))) return;
    const hint = names.length > 0 ? `existing keys: ${names.join(', ')}` : 'the store has no keys';
    throw new StoreError(`there is no key named ${JSON.stringify(name)}`, hint, { code: 'key_missing' });
  }
}

/**
 * Checks the request for a new API key, and generates a missing key. `now` is in milliseconds since the epoch.
 *
 * @throws StoreError with the code `key_request` if the request is not valid
 */
export function makeKey(
  { name, plan, quota: ownQuota, key = generateKey() }: KeyRequest,
  now: number,
): { created: CreatedKey; stored: StoredKey } {
  const parsed = NewKey.safeParse({ name, plan, ...ownQuota });
  if (!parsed.success) {
    throw new StoreError(`cannot create the key: ${describeIssues(parsed.error)}`, 'correct the request', {
      code: 'key_request',
    });
  }
  const stored = { ...parsed.data, sha256: hashKey(key), created: new Date(now).toISOString() };
  return { created: { name, plan, quota: quotaOf(stored), key }, stored };
}
