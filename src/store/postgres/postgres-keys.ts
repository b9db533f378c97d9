import type { Client } from 'pg';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import { StoreError } from '../errors.ts';
import { type KeyOrError, type KeyTable, type StoredBans, StoredKey } from '../keys/keys.ts';
import { createFunctionCaller, type FunctionCaller } from './database.ts';

type KeyRow = {
  name: string;
  plan: string;
  per_minute: string | null;
  per_day: string | null;
  sha256: string;
  created: string;
};

/** Reads the keys of a store. @throws the error of the call */
export async function readKeys(call: FunctionCaller): Promise<KeyOrError[]> {
  return (await call<KeyRow>('list_keys')).map(parseKey);
}

/** Reads the end of each ban, by the SHA-256 of the key, in a transaction of `runTransaction`. */
export async function readBans(client: Client): Promise<StoredBans> {
  const { rows } = await client.query<{ caller: string; until: string }>(
    `select encode(caller, 'hex') as caller, banned_until as until from pets.callers where banned_until > 0`,
  );
  return new Map(rows.map(({ caller, until }) => [caller, Number(until)]));
}

/** The API keys in the table `pets.keys`, in a transaction of `runTransaction`. */
export const postgresKeys = (client: Client, storeId: string): KeyTable => ({
  read: () => readKeys(createFunctionCaller(client, storeId)),
  bans: () => readBans(client),
  // The database sets the time of creation.
  async add({ sha256, name, plan, perMinute = null, perDay = null }) {
    const { rowCount } = await client.query(
      `insert into pets.keys (sha256, name, plan, per_minute, per_day)
      values (decode($1, 'hex'), $2, $3, $4, $5) on conflict do nothing`,
      [sha256, name, plan, perMinute, perDay],
    );
    return rowCount !== 0;
  },
  async remove(name) {
    const { rowCount } = await client.query('delete from pets.keys where name = $1', [name]);
    return rowCount !== 0;
  },
});

function parseKey({ per_minute: perMinute, per_day: perDay, created, ...row }: KeyRow): KeyOrError {
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
