import { hash } from 'node:crypto';
import type { Client } from 'pg';
import { expect } from 'vitest';
import {
  beginSql,
  createStoreIfMissing,
  readIdentity,
  statementForCall,
} from '../../../src/store/postgres/database.ts';
import { connectTo, freshDatabase } from '../postgres.ts';

/** Creates the schema of the store in `database`, by default an empty one in the shared server. */
export async function freshStore(
  database = freshDatabase(),
): Promise<{ url: string; client: Client; connect: () => Promise<Client> }> {
  const url = await database;
  const client = await connectTo(url);
  await createSchema(client);
  return { url, client, connect: () => connectTo(url) };
}

/** Creates the schema in a transaction, as a server does. Returns whether there was none. */
export async function createSchema(client: Client): Promise<boolean> {
  await client.query(beginSql('read committed'));
  try {
    return await createStoreIfMissing(client);
  } finally {
    // After an error, this rolls back.
    await client.query('commit');
  }
}

/** Calls a function of the schema `pets` as a server does. */
export async function callFunction(client: Client, name: string, ...values: unknown[]) {
  const { text, values: all } = statementForCall(name, await storeIdOf(client), values);
  return (await client.query(text, all)).rows;
}

/** Caches the store id of each connection, because a query in a transaction could change what a test observes. */
const storeIds = new WeakMap<Client, Promise<string>>();

export function storeIdOf(client: Client): Promise<string> {
  const known = storeIds.get(client) ?? readIdentity(client, '').then(({ id }) => id);
  storeIds.set(client, known);
  return known;
}

export type Item = { status?: number; body?: string; key?: string | undefined };

/** Calls `create_animals`, and completes the responses as a server does. `at` is in milliseconds since the epoch. */
export async function create(client: Client, items: readonly Item[], at?: number) {
  const half = (text: string) => hash('sha256', text, 'buffer').subarray(0, 16);
  const bodies = items.map(({ body }) => body ?? ',"name":"Rex"}');
  const keys = items.map(({ key }) => (key === undefined ? null : half(key)));
  const rows = await callFunction(
    client,
    'create_animals',
    items.map(({ status }) => status ?? 0),
    bodies,
    keys,
    bodies.map((body, i) => keys[i] && half(body)),
    at ?? null,
  );
  return rows
    .sort((a, b) => a.n - b.n)
    .map(({ n, kind, id, response }) => ({
      kind: kind as string,
      response: (response ?? (id === null ? null : `{"id":${id}${bodies[n - 1]}`)) as string | null,
    }));
}

export type Take = { caller: string; count: number; perMinute?: number; perDay?: number };

const callerHash = (caller: string): Buffer => hash('sha256', caller, 'buffer');

/**
 * Calls `take` with the rule that `after` refused requests ban a caller for `milliseconds`. `at` is in milliseconds
 * since the epoch.
 */
export async function take(
  client: Client,
  takes: readonly Take[],
  at?: number,
  { after, milliseconds } = { after: 10, milliseconds: 300_000 },
) {
  const rows = await callFunction(
    client,
    'take',
    takes.map(({ caller }) => callerHash(caller)),
    takes.map(({ count }) => count),
    takes.map(({ perMinute }) => perMinute ?? 10),
    takes.map(({ perDay }) => perDay ?? 1_000),
    after,
    milliseconds,
    at ?? null,
  );
  return rows
    .sort((a, b) => a.n - b.n)
    .map((row) => ({
      granted: row.granted as number,
      refused: row.refused as number,
      beginsBan: row.begins_ban as boolean,
      minuteEnd: Number(row.minute_end),
      minuteUsed: Number(row.minute_used),
      dayEnd: Number(row.day_end),
      dayUsed: Number(row.day_used),
      bannedUntil: Number(row.banned_until),
      now: Number(row.now),
    }));
}

/** Waits until this number of calls in the database of `observer` wait for other transactions. */
export async function untilBlocked(observer: Client, count = 1): Promise<void> {
  const blocked = `select from pg_stat_activity where datname = current_database() and pg_blocking_pids(pid) <> '{}'`;
  await expect.poll(() => observer.query(blocked)).toMatchObject({ rowCount: count });
}
