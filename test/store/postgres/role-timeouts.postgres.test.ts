import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Backend, StoreLocation } from '../../../src/store/backend.ts';
import { databaseLocation, openDatabase } from '../../helpers/postgres/backends.ts';
import { untilBlocked } from '../../helpers/postgres/store-schema.ts';
import { connectTo, hasPgbouncer, startCluster, startPgbouncer } from '../../helpers/postgres.ts';
import { testIf } from '../../helpers/skip.ts';
import { animal, seedOf } from '../../helpers/store-fixtures.ts';

// docs/postgres.md recommends timeouts for the role if servers connect through pgbouncer. They must not end long tasks.

const LIMIT_MS = 100;

testIf(hasPgbouncer(), 'not installed: pgbouncer').each<
  [what: string, run: (backend: Backend, location: StoreLocation) => Promise<unknown>]
>([
  ['a reset', ({ reset }) => reset(seedOf(7n))],
  ['a check of the store', (_, location) => location.check()],
  ['a start', async (_, location) => (await openDatabase(location.place)).close()],
])('%s may take longer than the limits that are set for the user', async (_, run) => {
  const cluster = await startCluster();
  const url = await cluster.createDatabase();
  await (await databaseLocation(url)).migrate();
  // The connections that pgbouncer opens have the limits, because it starts later.
  for (const setting of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']) {
    await cluster.sql('postgres', `alter role pets set ${setting} = '${LIMIT_MS}ms'`);
  }
  const pgbouncer = await startPgbouncer(cluster);
  const place = `${pgbouncer.url(new URL(url).pathname.slice(1))}?prepare=off`;
  const location = await databaseLocation(place);
  const connect = () => connectTo(url.replace('pets@', 'postgres@'));
  const [client, observer] = [await connect(), await connect()];
  const backend = await openDatabase(place);
  await client.query('begin; lock table pets.meta, pets.animals in access exclusive mode');
  const running = run(backend, location);
  running.catch(() => {});
  await untilBlocked(observer);
  await sleep(2 * LIMIT_MS);
  await client.query('commit');
  await running;
  expect(await backend.store.add({ pet: animal() })).toMatchObject({ kind: 'added' });
});
