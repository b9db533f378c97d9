import type { Client } from 'pg';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import type { KeyManager, StoreContents } from '../backend.ts';
import { StoreDamagedError } from '../errors.ts';
import type { ReadKeys } from '../keys/key-cache.ts';
import {
  type CreatedKey,
  type KeyRequest,
  keyExistsError,
  keyNotFoundError,
  makeKey,
  quotaOf,
  StoredKey,
} from '../keys/keys.ts';
import { type CallFunction, type Database, functionsOn } from './database.ts';
import { sqlStateOf } from './failures.ts';
import { readIdentity } from './schema.ts';

const UNIQUE_VIOLATION = '23505';

type KeyRow = {
  name: string;
  plan: string;
  per_minute: string | null;
  per_day: string | null;
  sha256: string;
  created: string;
};

/**
 * The keys of a store.
 *
 * @throws StoreDamagedError, or the error of the call
 */
export const readKeys = async (call: CallFunction): Promise<StoredKey[]> =>
  (await call<KeyRow>('list_keys')).map(parseKey);

/** Reads the end of each ban, by the SHA-256 of the key, in a transaction of `Database.run`. */
export async function readBans(client: Client): Promise<StoreContents['bans']> {
  const { rows } = await client.query<{ caller: string; until: string }>(
    `select encode(caller, 'hex') as caller, banned_until as until from pets.callers where banned_until > 0`,
  );
  return new Map(rows.map(({ caller, until }) => [caller, Number(until)]));
}

/**
 * The API keys in the table `pets.keys`. Each method is a transaction of its own, and throws a StoreMissingError if the
 * database has no store.
 */
export class PostgresKeys implements KeyManager {
  #database: Database;
  #timeout: number;

  /** @param timeout how long a call can take, in milliseconds: other commands can hold locks, and replicas be silent */
  constructor(database: Database, timeout = 10_000) {
    this.#database = database;
    this.#timeout = timeout;
  }

  async names(): Promise<string[]> {
    return (await this.#call<KeyRow>('list_keys')).map(({ name }) => name);
  }

  async get(name: string): Promise<StoredKey | undefined> {
    const row = (await this.#call<KeyRow>('list_keys')).find((each) => each.name === name);
    return row && parseKey(row);
  }

  list(): Promise<StoredKey[]> {
    return readKeys(this.#call);
  }

  bans(): Promise<StoreContents['bans']> {
    return this.#run(readBans);
  }

  async create(request: KeyRequest): Promise<CreatedKey> {
    // The database sets the time of creation, so the time 0 is not used.
    const { created, stored } = makeKey(request, 0);
    const { name, plan, sha256, perMinute = null, perDay = null } = stored;
    await this.#call('add_key', sha256, name, plan, perMinute, perDay).catch((error) => {
      throw sqlStateOf(error) === UNIQUE_VIOLATION ? keyExistsError(name) : error;
    });
    return created;
  }

  async revoke(name: string): Promise<void> {
    const names = await this.names();
    const [row] = names.includes(name) ? await this.#call<{ result: boolean }>('revoke_key', name) : [];
    if (!row?.result) throw keyNotFoundError(name, names);
  }

  /** The id of the store. */
  storeId(): Promise<string> {
    return this.#run(async (_, id) => id);
  }

  #call: CallFunction = (name, ...values) =>
    this.#run((client, id) => functionsOn(client, id)(name, ...values));

  #run<Result>(task: (client: Client, storeId: string) => Promise<Result>): Promise<Result> {
    const { place } = this.#database;
    return this.#database.run(async (client) => task(client, (await readIdentity(client, place)).id), {
      timeout: this.#timeout,
    });
  }
}

/** Reads the keys for a server. Leaves out keys that this version does not understand, after a warning. */
export function keyReader(call: CallFunction, onWarning: (message: string) => void): ReadKeys {
  const warned = new Set<string>();
  return async () =>
    (await call<KeyRow>('list_keys')).flatMap((row) => {
      try {
        const key = parseKey(row);
        return [{ ...key, quota: quotaOf(key) }];
      } catch (error) {
        if (!warned.has(row.name)) onWarning((error as Error).message);
        warned.add(row.name);
        return [];
      }
    });
}

/** @throws StoreDamagedError */
function parseKey({ per_minute: perMinute, per_day: perDay, created, ...row }: KeyRow): StoredKey {
  const parsed = z.safeParse(StoredKey, {
    ...row,
    created: new Date(Number(created)).toISOString(),
    ...(perMinute !== null && { perMinute: Number(perMinute) }),
    ...(perDay !== null && { perDay: Number(perDay) }),
  });
  if (parsed.success) return parsed.data;
  throw new StoreDamagedError(
    `the key ${JSON.stringify(row.name)} in the table pets.keys is not valid: ${describeIssues(parsed.error)}`,
    'revoke the key, then create it again',
  );
}
