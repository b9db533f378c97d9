import { readFile, writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/contract/clock.ts';
import { StoreError } from '../../../src/store/errors.ts';
import { BatchQueue } from '../../../src/store/postgres/calls/batch-queue.ts';
import { DatabaseConnection } from '../../../src/store/postgres/calls/connection.ts';
import { ConnectionPool } from '../../../src/store/postgres/calls/connection-pool.ts';
import { BadItemError } from '../../../src/store/postgres/calls/failures.ts';
import { driverLimits } from '../../../src/store/postgres/calls/time-limits.ts';
import { connectClient } from '../../../src/store/postgres/connect/connect-client.ts';
import { migrate } from '../../../src/store/postgres/schema/migrate.ts';
import { listenOnLoopback } from '../../helpers/listen.ts';
import { type Cluster, createCluster } from '../../helpers/postgres/cluster.ts';
import { outcomes } from '../../helpers/postgres/outcomes.ts';
import { connectTo, hasPgbouncer, startPgbouncer } from '../../helpers/postgres.ts';

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
    `create table items (n int primary key check (n <> 13)); grant all on items to public;
     create function sleep() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return new; end $$;
     create trigger sleep before insert on items for each row when (new.n = ${SLOW}) execute function sleep()`,
  );
});

type QueueOptions = { place?: string; prepare?: boolean; password?: () => string; maxWaiting?: number };

/** A queue that inserts numbers, and its connection. */
function openQueue({
  place = url,
  prepare = true,
  password = () => '',
  maxWaiting = 1_000,
}: QueueOptions = {}) {
  const { hostname, port, username, pathname } = new URL(place);
  const settings = {
    host: hostname,
    port: Number(port),
    user: username,
    database: pathname.slice(1),
    application_name: 'queue',
    password,
  };
  const connection = new DatabaseConnection({
    place,
    prepare,
    maxWaiting,
    clock: systemClock,
    connect: () =>
      connectClient(
        { attempts: [settings], requiresChannelBinding: false, warnings: [] },
        driverLimits(prepare),
      ),
  });
  const queue = new BatchQueue<number, number>({
    place,
    async run(items) {
      const rows = await connection.query<{ n: number }>(INSERT, [items]);
      return rows.map(({ n }) => n);
    },
  });
  onTestFinished(async () => {
    await queue.close();
    await connection.close();
  });
  return { connection, queue };
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

/** Makes calls wait. Returns a function that lets them continue. */
async function lockItems(): Promise<() => Promise<unknown>> {
  const client = await connectTo(cluster.url(database, 'postgres'));
  await client.query('begin; lock table items');
  return () => client.query('commit');
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

test.each<[name: string, fail: () => Promise<unknown>, recover: () => unknown]>([
  ['is stopped with SIGSTOP', () => cluster.pause(), () => cluster.resume()],
  ['is killed with SIGKILL', () => cluster.kill9(), () => cluster.start()],
  ['is stopped', () => cluster.stop(), () => cluster.start()],
  ['is restarted', () => cluster.restart(), () => {}],
  ['loses a backend', () => cluster.killBackend('queue'), () => {}],
])(
  'if the database %s during a call, the outcome is unknown, and later calls succeed again',
  async (_name, fail, recover) => {
    const { connection, queue } = openQueue();
    expect(await queue.add(1)).toBe(1);
    const added = [queue.add(SLOW)];
    await untilWaitingFor('PgSleep');
    added.push(queue.add(3), queue.add(4));
    const settled = timed(outcomes(added));
    await fail();
    expect(await settled).toEqual(['unknown', 'not_done', 'not_done']);
    await recover();
    const recovered = systemClock.elapsed();
    await expect.poll(() => connection.isFailing).toBe(false);
    expect(systemClock.elapsed() - recovered).toBeLessThan(LONGEST_CALL_MS);
    expect(await timed(queue.add(5))).toBe(5);
    expect(await stored()).toEqual([1, 5]);
  },
);

test('if another transaction holds a lock, nothing is stored, and calls continue after it', async () => {
  const { queue } = openQueue();
  await queue.add(1);
  const unlock = await lockItems();
  const added = [queue.add(2)];
  await untilWaitingFor('relation');
  added.push(queue.add(3));
  expect(await timed(outcomes(added))).toEqual(['not_done', 'not_done']);
  await unlock();
  expect(await queue.add(4)).toBe(4);
  expect(await stored()).toEqual([1, 4]);
});

test('while the database is stopped, calls are rejected at once; afterwards, it is connected again without a call', async () => {
  const { connection, queue } = openQueue();
  await queue.add(1);
  await cluster.stop();
  await expect.poll(() => connection.isFailing).toBe(true);
  expect(await outcomes([queue.add(2)])).toEqual(['not_done']);
  await cluster.start();
  await expect.poll(() => connection.isFailing).toBe(false);
  expect(await outcomes([queue.add(3)])).toEqual([3]);
});

test('a database that becomes read-only stores nothing, and is used again when it is writable', async () => {
  const { connection, queue } = openQueue();
  await queue.add(1);
  await cluster.setReadOnly(true);
  expect(await timed(outcomes([queue.add(2)]))).toEqual(['not_done']);
  await cluster.setReadOnly(false);
  await expect.poll(() => connection.isFailing).toBe(false);
  expect(await queue.add(3)).toBe(3);
  expect(await stored()).toEqual([1, 3]);
});

test('a server without a free connection stores nothing, and is used when it has one', async () => {
  const others: Client[] = [];
  const fill = async (): Promise<never> => {
    for (;;) others.push(await connectTo(url));
  };
  await expect(fill()).rejects.toMatchObject({ code: '53300' });
  const { connection, queue } = openQueue();
  expect(await timed(outcomes([queue.add(1)]))).toEqual(['not_done']);
  await Promise.all(others.map((client) => client.end()));
  await expect.poll(() => connection.isFailing).toBe(false);
  expect(await queue.add(2)).toBe(2);
});

test('a wrong password stores nothing and is never printed, and the right one is used later', async () => {
  await cluster.sql(database, `create role shop login password 'right-password'`);
  const file = join(cluster.directory, 'data', 'pg_hba.conf');
  const rules = await readFile(file, 'utf8');
  await writeFile(file, `host all shop 127.0.0.1/32 scram-sha-256\n${rules}`);
  await cluster.sql('postgres', 'select pg_reload_conf()');
  let password = 'wrong-password';
  const place = cluster.url(database, 'shop');
  const { connection, queue } = openQueue({ place, password: () => password });
  const error = await timed(queue.add(1).catch((reason) => reason));
  expect(error).toMatchObject({ outcome: 'not_done', hint: expect.stringContaining('password') });
  expect(error.message).toContain(place);
  expect(JSON.stringify([error.message, error.hint, error.cause])).not.toContain('wrong-password');
  password = 'right-password';
  await expect.poll(() => connection.isFailing).toBe(false);
  expect(await queue.add(2)).toBe(2);
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
  const { connection, queue } = openQueue({ place: url.replace(/:\d+/, `:${port}`) });
  expect(await timed(outcomes([queue.add(1), queue.add(2)]))).toEqual(['not_done', 'not_done']);
  expect(connection.isFailing).toBe(true);
  respond = (socket) => {
    const upstream = connect(cluster.port, '127.0.0.1');
    upstream.on('error', () => {});
    socket.pipe(upstream).pipe(socket);
  };
  await expect.poll(() => connection.isFailing).toBe(false);
  expect(await queue.add(3)).toBe(3);
  expect(await stored()).toEqual([3]);
});

test('only the items that break a constraint are rejected', async () => {
  const { queue } = openQueue();
  const items = [1, 2, 13, 4, 1, 6];
  expect(await outcomes(items.map((item) => queue.add(item)))).toEqual([
    1,
    2,
    BadItemError,
    4,
    BadItemError,
    6,
  ]);
});

test('a call is repeated after a serialization failure', async () => {
  await cluster.sql(
    database,
    `create sequence attempts; grant all on sequence attempts to public;
     create function fail_twice() returns trigger language plpgsql as $$ begin
       if nextval('attempts') < 3 then raise exception using errcode = '40001'; end if;
       return new;
     end $$;
     create trigger fail_twice before insert on items for each row execute function fail_twice()`,
  );
  const { queue } = openQueue();
  expect(await queue.add(1)).toBe(1);
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

test('close completes the call in flight, and rejects later calls', async () => {
  const { connection, queue } = openQueue();
  await queue.add(1);
  const unlock = await lockItems();
  const added = [queue.add(2)];
  await untilWaitingFor('relation');
  const closed = queue.close().then(() => connection.close());
  added.push(queue.add(3));
  const settled = outcomes(added);
  await unlock();
  expect(await settled).toEqual([2, StoreError]);
  await closed;
  await expect(connection.query(INSERT, [[4]])).rejects.toThrow(StoreError);
});

test.skipIf(!hasPgbouncer())(
  'through pgbouncer in transaction mode, calls succeed, and an outage ends',
  async () => {
    const pgbouncer = await startPgbouncer(cluster, { server_login_retry: 1 });
    const { connection, queue } = openQueue({ place: pgbouncer.url(database), prepare: false });
    const numbers = Array.from({ length: 100 }, (_, i) => i + 100);
    expect(await outcomes(numbers.map((n) => queue.add(n)))).toEqual(numbers);
    await cluster.stop();
    const [failed] = await timed(outcomes([queue.add(1)]));
    expect(['not_done', 'unknown']).toContain(failed);
    await cluster.start();
    await expect.poll(async () => (await outcomes([queue.add(2)]))[0], { interval: 100 }).toBe(2);
    expect(connection.isFailing).toBe(false);
  },
);

test('reads of a pool run on several connections, and each gets its rows', async () => {
  const connections = [1, 2, 3].map(() => openQueue().connection) as [
    DatabaseConnection,
    DatabaseConnection,
    DatabaseConnection,
  ];
  const pool = new ConnectionPool(connections);
  const statement = { name: 'echo', text: 'select $1::int as n' };
  const numbers = Array.from({ length: 500 }, (_, i) => i);
  const rows = await Promise.all(numbers.map((n) => pool.query<{ n: number }>(statement, [n])));
  expect(rows).toEqual(numbers.map((n) => [{ n }]));
  const backends = await cluster.sql(
    'postgres',
    `select from pg_stat_activity where application_name = 'queue'`,
  );
  expect(backends).toHaveLength(3);
  await pool.close();
  await expect(pool.query(statement, [1])).rejects.toThrow(StoreError);
});

test('a connection accepts no more calls than maxWaiting', async () => {
  const { connection } = openQueue({ maxWaiting: 2 });
  const sleep = { name: 'nap', text: 'select pg_sleep(0.1)' };
  const calls = [1, 2, 3].map(() => connection.query(sleep));
  const settled = await Promise.allSettled(calls);
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
});

test.skipIf(!hasPgbouncer()).each([
  [
    'create_v1',
    'select from pets.meta for update',
    `select * from pets.create_v1('{0}', array[',"name":"Rex"}'], null, null)`,
  ],
  [
    'take_v1',
    "insert into pets.callers (caller) values (sha256(''))",
    `select * from pets.take_v1(array[sha256('')], '{1}', '{9}', '{9}')`,
  ],
])('behind pgbouncer, %s stores nothing if another transaction holds the lock', async (name, lock, text) => {
  const superuser = await connectTo(cluster.url(database, 'postgres'));
  await migrate(superuser);
  await superuser.query(
    'grant usage on schema pets to public; grant all on all tables in schema pets to public',
  );
  await superuser.query(`begin; ${lock}`);
  const pgbouncer = await startPgbouncer(cluster);
  const { connection } = openQueue({ place: pgbouncer.url(database), prepare: false });
  const call = connection.query({ name, text }).catch((error) => error.outcome);
  expect(await timed(call)).toBe('not_done');
  await superuser.query('commit');
  expect(await connection.query({ name, text })).toHaveLength(1);
});
