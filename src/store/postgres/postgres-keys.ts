import type { Client } from 'pg';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import type { KeyManager, StoreContents } from '../backend.ts';
import { StoreError } from '../errors.ts';
import type { ReadKeys } from '../keys/key-cache.ts';
import {
  type CreatedKey,
  type KeyRequest,
  keyExistsError,
  keyNotFoundError,
  makeKey,
  StoredKey,
} from '../keys/keys.ts';
import { type CallFunction, functionsOn } from './database.ts';
import { sqlStateOf } from './failures.ts';

const UNIQUE_VIOLATION = '23505';

type KeyRow = {
  name: string;
  plan: string;
  per_minute: string | null;
  per_day: string | null;
  sha256: string;
  created: string;
};

/** Reads the keys of a store for a server. @throws the error of the call */
export async function readKeys(call: CallFunction): ReturnType<ReadKeys> {
  return (await call<KeyRow>('list_keys')).map(parseKey);
}

/** Like `readKeys`. @throws StoreError if this version does not understand a key */
export async function requireKeys(call: CallFunction): Promise<StoredKey[]> {
  return (await readKeys(call)).map(requireKey);
}

/** Reads the end of each ban, by the SHA-256 of the key, in a transaction of `Database.run`. */
export async function readBans(client: Client): Promise<StoreContents['bans']> {
  const { rows } = await client.query<{ caller: string; until: string }>(
    `select encode(caller, 'hex') as caller, banned_until as until from pets.callers where banned_until > 0`,
  );
  return new Map(rows.map(({ caller, until }) => [caller, Number(until)]));
}

/** The API keys in the table `pets.keys`, in a transaction of `Database.run`. */
export class PostgresKeys implements KeyManager {
  #client: Client;
  #call: CallFunction;

  constructor(client: Client, storeId: string) {
    this.#client = client;
    this.#call = functionsOn(client, storeId);
  }

  async names(): Promise<string[]> {
    return (await this.#call<KeyRow>('list_keys')).map(({ name }) => name);
  }

  async get(name: string): Promise<StoredKey | undefined> {
    const key = (await readKeys(this.#call)).find((each) => each.name === name);
    return key && requireKey(key);
  }

  list(): Promise<StoredKey[]> {
    return requireKeys(this.#call);
  }

  bans(): Promise<StoreContents['bans']> {
    return readBans(this.#client);
  }

  async create(request: KeyRequest): Promise<CreatedKey> {
    // The database sets the time of creation, so the time 0 is not used.
    const { created, stored } = makeKey(request, 0);
    const { name, plan, sha256, perMinute = null, perDay = null } = stored;
    const insert = `insert into pets.keys (sha256, name, plan, per_minute, per_day) values (decode($1, 'hex'), $2, $3, $4, $5)`;
    await this.#client.query(insert, [sha256, name, plan, perMinute, perDay]).catch((error) => {
      throw sqlStateOf(error) === UNIQUE_VIOLATION ? keyExistsError(name) : error;
    });
    return created;
  }

  async revoke(name: string): Promise<void> {
    const names = await this.names();
    if (!names.includes(name)) throw keyNotFoundError(name, names);
    const { rowCount } = await this.#client.query('delete from pets.keys where name = $1', [name]);
    if (rowCount === 0) throw keyNotFoundError(name, names);
  }
}

type ParsedKey = Awaited<ReturnType<ReadKeys>>[number];

function parseKey({ per_minute: perMinute, per_day: perDay, created, ...row }: KeyRow): ParsedKey {
  const parsed = z.safeParse(StoredKey, {
    ...row,
    created: new Date(Number(created)).toISOString(),
    ...(perMinute !== null && { perMinute: Number(perMinute) }),
    ...(perDay !== null && { perDay: Number(perDay) }),
  });
  if (parsed.success) return parsed.data;
  const error = new StoreError(
    `the key ${JSON.stringify(row.name)} in the table pets.keys is not valid: ${describeIssues(parsed.error)}`,
    'revoke the key, then create it again',
  );
  return { name: row.name, error };
}

function requireKey(key: ParsedKey): StoredKey {
  if ('error' in key) throw key.error;
  return key;
}
