import { expect, onTestFinished, test, vi } from 'vitest';
import { parseDatabaseTarget } from '../../../src/store/postgres/connect/database-url.ts';
import { PrimaryConnector } from '../../../src/store/postgres/connect/primary-connector.ts';
import { Pool } from '../../../src/store/postgres/pool.ts';
import { systemClock } from '../../../src/system/clock.ts';
import { openDatabase } from '../../helpers/postgres/backends.ts';
import { callFunction } from '../../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';
import { animal } from '../../helpers/store-fixtures.ts';

test('a call whose result nobody reads loses its locks', async () => {
  const url = await freshDatabase();
  const { store } = await openDatabase(url);
  await store.add({ pet: animal() });
  const connector = new PrimaryConnector(parseDatabaseTarget(url, { env: {}, userName: undefined }));
  const client = await connector.connect({ timeout: 4_000, isServer: true });
  const pool = new Pool({
    connect: async () => client,
    check: { name: 'check', text: 'select 1', values: [] },
    place: url,
    prepare: true,
    clock: systemClock,
    onWarning: () => {},
  });
  onTestFinished(() => pool.close());
  const [own] = await pool.call<{ pid: number }>({
    name: 'pid',
    text: 'select pg_backend_pid() as pid',
    values: [],
  });
  const other = await connectTo(url);
  const text = "select repeat('x', 20000000) from pets.meta for update";
  // The timer of this call never runs, as in a stopped process, so only PostgreSQL can end the connection.
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  const call = pool.call({ name: 'large', text, values: [] });
  await new Promise((resolve) => setImmediate(resolve));
  vi.useRealTimers();
  const failed = expect(call).rejects.toMatchObject({ outcome: 'unknown' });
  client.connection.stream.pause();
  const tryLock = () =>
    other.query('select from pets.meta for update nowait').then(
      () => 'free',
      () => 'locked',
    );
  // A call that sends its result has the lock. `tryLock` must not run before that: if the call had to wait for a lock, it
  // could fail before it has sent anything. On a busy machine, the connection may have ended before the first look.
  const notSent = `select from pg_stat_activity where pid = ${own?.pid} and wait_event is distinct from 'ClientWrite'`;
  await expect.poll(async () => (await other.query(notSent)).rowCount).toBe(0);
  await expect.poll(tryLock).toBe('free');
  client.connection.stream.resume();
  await failed;
});

test('large creations are committed although their server reads no results, so that they do not block others', async () => {
  const url = await freshDatabase();
  const { store } = await openDatabase(url);
  const client = await connectTo(url);
  const bodies = Array.from({ length: 300 }, () => `,"name":"${'x'.repeat(50_000)}"}`);
  await callFunction(client, 'count_animals');
  const [statuses, none] = [bodies.map(() => 0), null];
  callFunction(client, 'create_animals', statuses, bodies, none, none).catch(() => {});
  // `callFunction` already knows the id of the store, so it sends the call before the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  client.connection.stream.pause();
  await expect.poll(() => store.size()).toBe(bodies.length);
});
