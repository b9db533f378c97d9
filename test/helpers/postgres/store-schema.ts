import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { migrate } from '../../../src/store/postgres/schema/migrate.ts';
import { connectTo, freshDatabase } from '../postgres.ts';

/** A new database with the schema of the store. */
export async function freshStore(): Promise<{ url: string; client: Client; connect: () => Promise<Client> }> {
  const url = await freshDatabase();
  const client = await connectTo(url);
  await migrate(client);
  return { url, client, connect: () => connectTo(url) };
}

export type Item = { status?: number; body?: string; key?: string | undefined };
export type Created = { kind: string; response: string | null };

/** Calls `create_v1`, and completes the responses as a server does. `at` is in milliseconds since 1970. */
export async function create(client: Client, items: readonly Item[], at?: number): Promise<Created[]> {
  const half = (text: string) => hash('sha256', text, 'buffer').subarray(0, 16);
  const bodies = items.map(({ body }) => body ?? ',"name":"Rex"}');
  const keys = items.map(({ key }) => (key === undefined ? null : half(key)));
  const hasKeys = keys.some((key) => key !== null);
  const { rows } = await client.query(
    `select kind, coalesce(response, '{"id":' || id || ($2::text[])[n]) as response
    from pets.create_v1($1, $2, $3, $4, $5) order by n`,
    [
      items.map(({ status }) => status ?? 0),
      bodies,
      hasKeys ? keys : null,
      hasKeys ? bodies.map((body, i) => keys[i] && half(body)) : null,
      at ?? null,
    ],
  );
  return rows;
}

export type Take = { caller: string; count: number; perMinute?: number; perDay?: number };
export type Taken = {
  granted: number;
  minute: number;
  minuteUsed: number;
  day: number;
  dayUsed: number;
  refusedWindow: number;
  firstRefused: number;
  counted: number[];
  bannedUntil: number;
  version: number;
  now: number;
};

export const callerHash = (caller: string): Buffer => hash('sha256', caller, 'buffer');

/** Calls `take_v1`. `at` is in milliseconds since 1970. */
export async function take(client: Client, takes: readonly Take[], at?: number): Promise<Taken[]> {
  const { rows } = await client.query('select * from pets.take_v1($1, $2, $3, $4, $5) order by n', [
    takes.map(({ caller }) => callerHash(caller)),
    takes.map(({ count }) => count),
    takes.map(({ perMinute }) => perMinute ?? 10),
    takes.map(({ perDay }) => perDay ?? 1_000),
    at ?? null,
  ]);
  return rows.map((row) => ({
    granted: row.granted,
    minute: Number(row.minute),
    minuteUsed: Number(row.minute_used),
    day: Number(row.day),
    dayUsed: Number(row.day_used),
    refusedWindow: Number(row.refused_window),
    firstRefused: Number(row.first_refused),
    counted: row.counted.map(Number),
    bannedUntil: Number(row.banned_until),
    version: Number(row.version),
    now: Number(row.now),
  }));
}

/**
 * Starts a call on `client`, and waits until another transaction blocks it. Returns the result of the call.
 *
 * @throws if the call completes without waiting
 */
export async function blocked<Result>(
  client: Client,
  observer: Client,
  call: () => Promise<Result>,
): Promise<{ result: Promise<Result> }> {
  const { rows } = await client.query('select pg_backend_pid() as pid');
  let isComplete = false;
  const result = call();
  const complete = () => {
    isComplete = true;
  };
  result.then(complete, complete);
  for (;;) {
    const { rows: waits } = await observer.query(
      'select from (select pg_blocking_pids($1) as pids) blocking where cardinality(pids) > 0',
      [rows[0].pid],
    );
    if (waits.length > 0) return { result };
    if (isComplete) throw new Error(`the call did not wait: ${JSON.stringify(await result)}`);
    await sleep(5);
  }
}
