import { connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { BatchQueue } from '../../../src/store/batch-queue.ts';
import { KeyManager } from '../../../src/store/keys.ts';
import { PrimaryConnector, parseDatabaseTarget } from '../../../src/store/postgres/connector.ts';
import { postgresKeys } from '../../../src/store/postgres/contents.ts';
import { createStoreIfMissing, runTransaction } from '../../../src/store/postgres/database.ts';
import { CONNECT_TIMEOUT_MS, Pool } from '../../../src/store/postgres/pool.ts';
import { systemClock } from '../../../src/system/clock.ts';
import { listenOnLoopback } from '../../helpers/listen.ts';
import { CALLS, openDatabase } from '../../helpers/postgres/backends.ts';
import { type Cluster, createCluster } from '../../helpers/postgres/cluster.ts';
import { storeIdOf } from '../../helpers/postgres/store-schema.ts';
import { connectTo } from '../../helpers/postgres.ts';
import { outcomes } from '../../helpers/store-fixtures.ts';

/** Calls must end within 2.5 s. The rest is for a busy machine. */
const LONGEST_CALL_MS = 5_000;

const INSERT = { name: 'insert', text: 'insert into items select * from unnest($1::int[]) returning n' };

/** Inserting this number takes a minute. */
const SLOW = 60;

let cluster: Cluster;
let url: string;
let database: string;

beforeAll(async () => {
  cluster = await createCluster({ settings: { max_connections: 20 } });
});

afterAll(() => cluster.remove());

beforeEach(async () => {
  url = await cluster.createDatabase();
  database = new URL(url).pathname.slice(1);
  await cluster.sql(
    database,
    `create table items (n int primary key); grant all on items to public;
     create function sleep() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return new; end $$;
     create trigger sleep before insert on items for each row when (new.n = ${SLOW}) execute function sleep()`,
  );
});

function openQueue(place = url) {
  const named = `${place}?application_name=queue`;
  const connector = new PrimaryConnector(parseDatabaseTarget(named, { env: {}, userName: undefined }));
  const pool = new Pool({
    place,
    check: { name: 'check', text: 'select 1', values: [] },
    prepare: true,
    clock: systemClock,
    onWarning: () => {},
    connect: () => connector.connect({ timeout: CONNECT_TIMEOUT_MS, isServer: true }),
  });
  const queue = new BatchQueue<number, number>({
    async run(items) {
      const rows = await pool.call<{ n: number }>({ ...INSERT, values: [items] });
      return rows.map(({ n }) => n);
    },
  });
  onTestFinished(async () => {
    await queue.close();
    await pool.close();
  });
  return { pool, queue };
}

/** Adds an item until that succeeds. */
async function untilAdded(queue: BatchQueue<number, number>, item: number): Promise<void> {
  await expect.poll(() => outcomes([queue.add(item)])).toEqual([item]);
}

async function timed<T>(promise: Promise<T>): Promise<T> {
  const started = performance.now();
  const result = await promise;
  expect(performance.now() - started).toBeLessThan(LONGEST_CALL_MS);
  return result;
}

async function stored(): Promise<unknown[]> {
  return (await cluster.sql(database, 'select n from items order by n')).map(({ n }) => n);
}

/** Waits until the call of the queue waits for this event inside the database. */
async function untilWaitingFor(event: 'relation' | 'PgSleep'): Promise<void> {
  const waiting = () =>
    cluster.sql(
      'postgres',
      `select from pg_stat_activity where application_name = 'queue' and wait_event = '${event}'`,
    );
  await expect.poll(waiting).toHaveLength(1);
}

const killBackends = () =>
  cluster.sql(
    'postgres',
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'queue'",
  );

test.each<[name: string, fail: () => Promise<unknown>, recover: () => unknown]>([
  ['is stopped with SIGSTOP', () => cluster.pause(), () => cluster.resume()],
  ['is killed with SIGKILL', () => cluster.kill9(), () => cluster.start()],
  ['is restarted', () => cluster.restart(), () => {}],
  ['loses a backend', killBackends, () => {}],
])(
  'if the database %s during a call, the outcome is unknown, and later calls succeed again',
  async (_name, fail, recover) => {
    const { queue } = openQueue();
    expect(await queue.add(1)).toBe(1);
    const added = [queue.add(SLOW)];
    await untilWaitingFor('PgSleep');
    added.push(queue.add(3), queue.add(4));
    const settled = timed(outcomes(added));
    await fail();
    expect(await settled).toEqual(['unknown', 'not_done', 'not_done']);
    await recover();
    const recovered = systemClock.elapsed();
    await untilAdded(queue, 5);
    expect(systemClock.elapsed() - recovered).toBeLessThan(LONGEST_CALL_MS);
    expect(await stored()).toEqual([1, 5]);
  },
);

test('if another transaction holds a lock, nothing is stored, and calls continue after it', async () => {
  const { queue } = openQueue();
  await queue.add(1);
  const other = await connectTo(cluster.url(database, 'postgres'));
  await other.query('begin; lock table items');
  const added = [queue.add(2)];
  await untilWaitingFor('relation');
  added.push(queue.add(3));
  expect(await timed(outcomes(added))).toEqual(['not_done', 'not_done']);
  await other.query('commit');
  expect(await queue.add(4)).toBe(4);
  expect(await stored()).toEqual([1, 4]);
});

test.each<[name: string, handle: (socket: Socket) => void]>([
  ['accepts connections and never responds', () => {}],
  ['closes connections at once', (socket) => socket.destroy()],
  ['does not speak the protocol', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')],
])('a server that %s stores nothing, and is used when it responds', async (_name, handle) => {
  let respond = handle;
  const port = await listenOnLoopback(
    createServer((socket) => {
      socket.on('error', () => {});
      respond(socket);
    }),
  );
  const { queue } = openQueue(url.replace(/:\d+/, `:${port}`));
  expect(await timed(outcomes([queue.add(1), queue.add(2)]))).toEqual(['not_done', 'not_done']);
  respond = (socket) => {
    const upstream = connect(cluster.port, '127.0.0.1');
    upstream.on('error', () => {});
    socket.pipe(upstream).pipe(socket);
  };
  await untilAdded(queue, 3);
  expect(await stored()).toEqual([3]);
});

test('a commit that no synchronous replica has confirmed is unknown, although the server reports success', async () => {
  const { queue } = openQueue();
  await queue.add(1);
  onTestFinished(() => cluster.set('synchronous_standby_names', ''));
  await cluster.set('synchronous_standby_names', 'missing');
  const added = outcomes([queue.add(2)]);
  const cancel = () =>
    cluster.sql(
      'postgres',
      `select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'queue' and wait_event = 'SyncRep'`,
    );
  await expect.poll(cancel).toHaveLength(1);
  expect(await added).toEqual(['unknown']);
});

test('a command ends although no synchronous replica confirms its commit or another transaction holds a lock', async () => {
  const connector = new PrimaryConnector(parseDatabaseTarget(url, { env: {}, userName: undefined }));
  const manage = <Result>(task: (keys: KeyManager) => Promise<Result>, timeout = 10_000) =>
    runTransaction(
      connector,
      async (client) => task(new KeyManager(postgresKeys(client, await storeIdOf(client)), Date)),
      { timeout },
    );
  await runTransaction(connector, (client) => createStoreIfMissing(client));
  onTestFinished(() => cluster.set('synchronous_standby_names', ''));
  await cluster.set('synchronous_standby_names', 'missing');
  const created = manage((keys) => keys.create({ name: 'till', plan: 'free' }), 1_000);
  await expect(created).rejects.toMatchObject({
    outcome: 'unknown',
    message: expect.stringContaining('commit'),
  });
  await cluster.set('synchronous_standby_names', '');
  const names = () => manage((keys) => keys.names());
  await expect.poll(names).toEqual(['till']);
  const other = await connectTo(url);
  await other.query('begin; lock table pets.keys in access exclusive mode');
  const revoked = manage((keys) => keys.revoke('till'), 500);
  await expect(revoked).rejects.toMatchObject({ outcome: 'not_done' });
  await other.query('commit');
  expect(await names()).toEqual(['till']);
});

test('an error after which the connection ends is unknown', async () => {
  await cluster.sql(
    database,
    `create function end_session() returns trigger language plpgsql security definer as $$ begin
       perform pg_terminate_backend(pg_backend_pid());
       raise exception using errcode = '53100';
     end $$;
     create trigger end_session before insert on items for each row execute function end_session()`,
  );
  const { queue } = openQueue();
  expect(await timed(outcomes([queue.add(1)]))).toEqual(['unknown']);
});

test('one connection is enough for everything that a server does, and no listener stays on it', async () => {
  await cluster.sql('postgres', 'alter role pets connection limit 1');
  onTestFinished(() => cluster.sql('postgres', 'alter role pets connection limit -1').then(() => {}));
  const backend = await openDatabase(url);
  const calls = Array.from({ length: 5 }, () => Object.values(CALLS)).flat();
  await Promise.all(calls.map((call) => call(backend, '00'.repeat(32))));
  expect(await backend.store.size()).toBeGreaterThan(0);
  const { hint } = await openQueue()
    .queue.add(1)
    .catch((error) => error);
  expect(hint).toContain('ALTER ROLE');
  await backend.close();

  const { pool, queue } = openQueue();
  const listeners = () =>
    pool.lend(async (client) =>
      [client, client.connection, client.connection.stream].map((emitter) =>
        emitter.eventNames().map((name) => [name, emitter.listenerCount(name)]),
      ),
    );
  await expect.poll(() => outcomes([queue.add(1)])).toEqual([1]);
  const before = await listeners();
  for (let item = 2; item < 20; item++) await queue.add(item);
  expect(await listeners()).toEqual(before);
});

test('after a frozen database goes on, all connections are new, and calls of any number succeed', async () => {
  const { pool } = openQueue();
  const statement = { name: 'pid', text: 'select pg_backend_pid() as pid, pg_sleep(0.005)', values: [] };
  const pids = async () => {
    const rows = await Promise.all(Array.from({ length: 30 }, () => pool.call<{ pid: number }>(statement)));
    return rows.flatMap((each) => each.map(({ pid }) => pid));
  };
  const before = await pids();
  await cluster.pause();
  const calls = Array.from({ length: 30 }, () => pool.call(statement));
  const results = await timed(Promise.allSettled(calls));
  expect(results.map(({ status }) => status)).toEqual(Array(30).fill('rejected'));
  cluster.resume();
  let after: number[] = [];
  const isUsable = async () => {
    after = await pids().catch(() => []);
    return after.length;
  };
  await expect.poll(isUsable).toBe(30);
  expect(after.filter((pid) => before.includes(pid))).toEqual([]);
});
