import { hash, randomBytes } from 'node:crypto';
import * as z from 'zod/mini';
import { MAX_QUOTA, PlanName, plans, type Quota } from '../contract/api.ts';
import { describeIssues, fieldError } from '../contract/json.ts';
import type { Clock, SteadyClock } from '../system/clock.ts';
import { StoreError } from './errors.ts';
import { IsoTime, Sha256 } from './stored-text.ts';

const limit = z.optional(
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

const NewKey = z.object({ name: KeyName, plan: PlanName, perMinute: limit, perDay: limit }).check(
  z.refine((key) => key.plan === 'enterprise' || (key.perMinute ?? key.perDay) === undefined, {
    path: ['plan'],
    error: 'must be enterprise for a key with its own quota',
  }),
  z.refine(hasBothOrNoQuota, { error: 'a quota needs both requests per minute and requests per day' }),
);

/** An API key as a store keeps it: with a hash instead of the key itself. `created` is an ISO 8601 time. */
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

/** Returns the keys. @throws the StoreError of the first key that cannot be read */
export const requireValidKeys = (keys: readonly KeyOrError[]): StoredKey[] =>
  keys.map((key) => {
    if ('error' in key) throw key.error;
    return key;
  });

/** The end of each ban, in milliseconds since the epoch, by the SHA-256 of the API key in hexadecimal. */
export type StoredBans = ReadonlyMap<string, number>;

/**
 * Where a store keeps its API keys. Changes are durable when a promise resolves, or when the transaction is committed.
 * Each method can throw a StoreError, or in a transaction an error of the driver.
 */
export interface KeyTable {
  /** All keys, sorted by name. */
  read(): Promise<readonly KeyOrError[]>;
  /** Adds a key. Returns false if its name is taken; in a database, also if another name has the same key. */
  add(key: StoredKey): Promise<boolean>;
  /** Deletes a key that `read` has returned. Returns false if it does not exist any more. */
  remove(name: string): Promise<boolean>;
  /** The stored bans. Some may have ended. */
  bans(): Promise<StoredBans>;
}

/** Creates, lists and revokes API keys (docs/service.md, D16). Every method can throw the errors of `KeyTable`. */
export class KeyManager {
  #table: KeyTable;
  #clock: Clock;

  constructor(table: KeyTable, clock: Clock) {
    this.#table = table;
    this.#clock = clock;
  }

  /** The names of all keys, sorted, including damaged ones. */
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

  /** @throws StoreError if the request is not valid (`key_request`), or if the name is taken (`key_exists`) */
  async create({ name, plan, quota: ownQuota, key = generateKey() }: KeyRequest): Promise<CreatedKey> {
    const parsed = NewKey.safeParse({ name, plan, ...ownQuota });
    if (!parsed.success) {
      const message = `cannot create the key: ${describeIssues(parsed.error)}`;
      throw new StoreError(message, 'correct the request', { code: 'key_request' });
    }
    const created = new Date(this.#clock.now()).toISOString();
    const stored = { ...parsed.data, sha256: hashKey(key), created };
    if (await this.#table.add(stored)) return { name, plan, quota: quotaOf(stored), key };
    const message = `a key named ${stored.name} already exists`;
    throw new StoreError(message, 'choose another name, or revoke that key first', { code: 'key_exists' });
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

type KeyCacheOptions = {
  clock: SteadyClock;
  sleep(milliseconds: number): Promise<void>;
  /** Called once for each key that cannot be read. Such a key is left out. */
  onWarning(message: string): void;
};

/** For this long after a read has begun, a known key needs no other read. So a revocation takes effect within 1 s. */
const FRESH_MS = 900;
/** After this time, a request with a known key causes another read, but is accepted without waiting for it. */
const REFRESH_MS = 500;
/** Unknown keys, which anyone can send, cause at most one read of the keys in this time. */
const UNKNOWN_KEY_MS = 100;

/** The properties of an API key that a server needs. */
type AcceptedKey = Pick<StoredKey, 'name' | 'plan' | 'sha256'> & { quota: Quota };

/** The API keys that a server accepts: a new key within 0.1 s after it was added, and a revoked key for at most 1 s. */
export type AcceptedKeys = Pick<KeyCache, 'find' | 'list' | 'addTemporary'>;

/** The API keys of a store, in memory. Changes of the stored keys take effect without a restart. */
export class KeyCache {
  #readKeys: KeyTable['read'];
  #options: KeyCacheOptions;
  #warned = new Set<string>();
  #temporary = new Map<string, AcceptedKey>();
  #byHash = new Map<string, AcceptedKey>();
  /** When the last read began, and when the last complete read began, as `clock.elapsed()`. */
  #startedAt = Number.NEGATIVE_INFINITY;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  /** A read that is planned but has not begun. */
  #nextRead: Promise<void> | undefined;

  constructor(readKeys: KeyTable['read'], options: KeyCacheOptions) {
    this.#readKeys = readKeys;
    this.#options = options;
  }

  /**
   * Adds a key that exists only in this process, and returns it. By default, generates the key. Its name, such as
   * `(fixed)`, should not be a valid name of a stored key.
   */
  addTemporary(name: string, plan: PlanName, key: string = generateKey()): string {
    const sha256 = hashKey(key);
    this.#temporary.set(sha256, { name, plan, sha256, quota: plans[plan] });
    return key;
  }

  /**
   * Finds a key by its SHA-256 in hexadecimal. Returns a promise only if the keys must be read.
   *
   * @throws StoreError, in most cases StoreUnavailableError, if it is not known whether the key is valid
   */
  find(sha256: string): AcceptedKey | undefined | Promise<AcceptedKey | undefined> {
    const temporary = this.#temporary.get(sha256);
    if (temporary) return temporary;
    const age = this.#age;
    const cached = age < FRESH_MS ? this.#byHash.get(sha256) : undefined;
    // If this read fails, known keys are accepted until `age` is `FRESH_MS`. Then, `#lookUp` reads again.
    if (cached && age >= REFRESH_MS) this.#read().catch(() => {});
    return cached ?? this.#lookUp(sha256);
  }

  /** All keys that are valid now, even one that was just added, sorted by name. @throws the same errors as `find` */
  async list(): Promise<AcceptedKey[]> {
    await this.#readLater();
    const all = new Map([...this.#byHash, ...this.#temporary]);
    return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The time since the last complete read began, in milliseconds. */
  get #age(): number {
    return this.#options.clock.elapsed() - this.#readAt;
  }

  async #lookUp(sha256: string): Promise<AcceptedKey | undefined> {
    if (this.#byHash.has(sha256)) {
      // A read that is already running may be recent enough to show whether the key was revoked.
      await this.#read();
      if (this.#age < FRESH_MS) return this.#byHash.get(sha256);
    }
    // The key may just have been added, so the read must begin after this call.
    await this.#readLater();
    return this.#temporary.get(sha256) ?? this.#byHash.get(sha256);
  }

  /** Waits for a read that begins after this call. */
  #readLater(): Promise<void> {
    this.#nextRead ??= this.#readSoon();
    return this.#nextRead;
  }

  async #readSoon(): Promise<void> {
    const wait = this.#startedAt + UNKNOWN_KEY_MS - this.#options.clock.elapsed();
    if (wait > 0) await this.#options.sleep(wait);
    await this.#reading?.catch(() => {});
    this.#nextRead = undefined;
    await this.#read();
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    const startedAt = this.#options.clock.elapsed();
    this.#startedAt = startedAt;
    const byHash = new Map<string, AcceptedKey>();
    for (const key of await this.#readKeys()) {
      if ('error' in key) this.#warnOnce(key.name, key.error);
      else byHash.set(key.sha256, { ...key, quota: quotaOf(key) });
    }
    this.#byHash = byHash;
    this.#readAt = startedAt;
  }

  #warnOnce(name: string, { message, hint }: StoreError): void {
    if (!this.#warned.has(name)) this.#options.onWarning(`${message}; ${hint}`);
    this.#warned.add(name);
  }
}
