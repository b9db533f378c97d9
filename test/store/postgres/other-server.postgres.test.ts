import { randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import { expect, test } from 'vitest';
import type { Backend } from '../../../src/store/backend.ts';
import { hashKey } from '../../../src/store/keys.ts';
import { SCHEMA_VERSION, statementForCall } from '../../../src/store/postgres/database.ts';
import { CALLS, databaseLocation, openDatabase } from '../../helpers/postgres/backends.ts';
import { createSchema, storeIdOf } from '../../helpers/postgres/store-schema.ts';
import {
  connectTo,
  freshDatabase,
  hasPgbouncer,
  movableAddress,
  startCluster,
  startPgbouncer,
  startSynchronousReplica,
} from '../../helpers/postgres.ts';
import { animal } from '../../helpers/store-fixtures.ts';

// A server that is running may find another server of PostgreSQL at its address, or another store in its database.

/** The result of each call: `done`, or the outcome and the message of its error. */
async function outcomesOf(backend: Backend, sha256: string): Promise<Record<string, unknown>> {
  const results: Record<string, unknown> = {};
  for (const [name, call] of Object.entries(CALLS)) {
    results[name] = await call(backend, sha256).then(
      () => 'done',
      ({ outcome, message }) => [outcome, message],
    );
  }
  return results;
}

const all = (outcome: unknown) => Object.fromEntries(Object.keys(CALLS).map((name) => [name, outcome]));

/** The result of a call that reaches a standby server. */
const STANDBY = ['not_done', expect.stringMatching(/standby server/)];

/** Reads until a read fails because it has reached the standby server. No read may succeed. */
async function untilStandby({ store }: Backend): Promise<void> {
  const results: unknown[] = [];
  const read = async () => {
    const result = await store.get(1n).catch(({ outcome, message }) => [outcome, message]);
    results.push(result);
    return result;
  };
  await expect.poll(read).toEqual(STANDBY);
  expect(results.filter((result) => !Array.isArray(result))).toEqual([]);
}

/** Opens a store as a server, which adds an animal. After `forget`, the server reads the API keys again. */
async function openWithKey(url: string) {
  const location = await databaseLocation(url);
  await location.migrate();
  const { key } = await location.manageKeys((keys) => keys.create({ name: 'till', plan: 'pro' }));
  let later = 0;
  const clock = { now: Date.now, elapsed: () => performance.now() + later };
  const server = await openDatabase(url, { clock });
  await server.store.add({ pet: animal() });
  const forget = () => {
    later += 10_000;
  };
  return { location, sha256: hashKey(key), server, forget };
}

test.each([
  ['directly', false],
  ...(hasPgbouncer() ? [['through a pooler, which keeps the connection open', true] as const] : []),
] as const)(
  'no call reads from a standby server at the same address, and all work again with the primary server: %s',
  async (_, hasPooler) => {
    const primary = await startCluster();
    const address = await movableAddress(primary);
    const database = new URL(await primary.createDatabase()).pathname.slice(1);
    const standby = await startSynchronousReplica(primary);
    const url = hasPooler
      ? `${(await startPgbouncer(address)).url(database)}?prepare=off`
      : address.url(database);
    const { server, sha256, forget } = await openWithKey(url);
    address.moveTo(standby);
    forget();
    await untilStandby(server);
    expect(await outcomesOf(server, sha256)).toEqual(all(STANDBY));
    address.moveTo(primary);
    await expect.poll(() => server.store.get(1n).catch(() => undefined)).toContain('"id":1');
    expect(await server.store.size()).toBe(1);
  },
);

test('no call uses another store in the same database, and the reason is reported', async () => {
  const url = await freshDatabase();
  const { location, server, sha256, forget } = await openWithKey(url);
  await (await connectTo(url)).query('drop schema pets cascade');
  await location.migrate();
  await location.manageKeys((keys) => keys.create({ name: 'till', plan: 'pro' }));
  forget();
  const { id } = await location.check();
  const reason = new RegExp(`does not contain the store ${server.store.id} any more; it contains ${id}$`);
  const refused = ['not_done', expect.stringMatching(reason)];
  expect(await outcomesOf(server, sha256)).toEqual(all(refused));
  expect(await location.check()).toMatchObject({ animals: 0, keys: 1 });
});

/** The arguments after the store id and the schema version, for functions whose behavior depends on them. Other functions get only nulls. */
const VALUES: Record<string, unknown[][]> = {
  read_pages: [[[null], [1], [1]]],
  take: [0, 1].map((count) => [[Buffer.alloc(32)], [count], [1], [1], 0, 0, null]),
  check_writable: [[false], [true]],
};

/** The functions that wait for locks during requests. */
const WAITING = ['create_animals', 'take', 'lift_ban', 'check_writable'];

test('every function refuses a standby server, another store, and another version', async () => {
  const primary = await startCluster();
  const url = await primary.createDatabase();
  const client = await connectTo(url);
  await createSchema(client);
  const standby = await startSynchronousReplica(primary);
  const onStandby = await connectTo(standby.url(new URL(url).pathname.slice(1)));
  const id = await storeIdOf(client);
  const { rows: functions } = await client.query(
    `select proname as name, pronargs - 2 as count, provolatile as volatility, proconfig as settings from pg_proc
    where pronamespace = 'pets'::regnamespace`,
  );
  expect(functions.map(({ name }) => name)).toEqual(expect.arrayContaining(Object.keys(VALUES)));
  const calls = functions.flatMap(({ name, count, ...rest }) =>
    (VALUES[name] ?? [Array(count).fill(null)]).map((values) => ({ name, values, ...rest })),
  );
  for (const { name, values, volatility, settings } of calls) {
    const { text } = statementForCall(name, id, values);
    const codeOf = (at: Client, ...parameters: unknown[]) =>
      at.query(text, parameters).then(
        () => 'done',
        ({ code }) => code,
      );
    // On a standby server, a function that locks rows fails with 25006 before it can check the server.
    expect(['PETS1', '25006'], name).toContain(await codeOf(onStandby, id, SCHEMA_VERSION, ...values));
    expect(await codeOf(client, randomUUID(), SCHEMA_VERSION, ...values), name).toBe('PETS1');
    for (const other of [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
      expect(await codeOf(client, id, other, ...values), name).toBe('PETS1');
    // pgpool-II sends calls of functions that are not volatile to standby servers.
    expect(volatility, name).toBe('v');
    expect(settings, name).toContain('search_path=pg_catalog, pets, pg_temp');
    // A pooler does not pass on the lock timeout that a server asks for when it connects.
    if (WAITING.includes(name)) expect(settings, name).toContain('lock_timeout=1400ms');
  }
  expect(await client.query('select from pets.callers')).toMatchObject({ rowCount: 0 });
});
