import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../../src/contract/int64.ts';
import type { Backend, StoreLocation } from '../../../src/store/backend.ts';
import type { StoreContents } from '../../../src/store/contents.ts';
import { copyStore } from '../../../src/store/copy-store.ts';
import { saveBans } from '../../../src/store/journal/ban-file.ts';
import { journalLocation } from '../../../src/store/journal/journal-location.ts';
import { openJournalStore } from '../../../src/store/journal/journal-store.ts';
import { KeyFiles } from '../../../src/store/journal/key-files.ts';
import { hashKey } from '../../../src/store/keys/keys.ts';
import { migrate, openIdentity, pendingSql, readIdentity } from '../../../src/store/postgres/migrate.ts';
import { postgresLocation } from '../../../src/store/postgres/postgres-location.ts';
import { commitCopy, writeDatabase } from '../../../src/store/postgres/write-database.ts';
import type { Store } from '../../../src/store/store.ts';
import { manualClock } from '../../helpers/clock.ts';
import {
  connectTo,
  freshDatabase,
  hasPgbouncer,
  sharedCluster,
  startPgbouncer,
} from '../../helpers/postgres.ts';
import { addAnimals, collect, REPEATABLE, REPEATABLE_NAME } from '../../helpers/store-copy.ts';
import { allTexts, animal, idempotency, noLock } from '../../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../../helpers/temp.ts';

const BANNED = hashKey('banned');

/** A directory for stores, and functions that open databases with the same clock. */
async function shop() {
  const clock = manualClock();
  const home = await temporaryDirectory();
  const inDirectory = (name: string) => journalLocation(join(home, name), clock);
  const at = (url: string): StoreLocation =>
    postgresLocation(url, {
      clock,
      env: {},
      homeDirectory: home,
      userName: 'pets',
      random: Math.random,
      testTime: clock.now,
    });
  async function openServer(location: StoreLocation): Promise<Backend> {
    const backend = await location.open({
      clock,
      bans: { after: 10, milliseconds: 3_600_000 },
      sleep: async (milliseconds) => void clock.advance(milliseconds),
      onWarning: () => {},
      onFailure: () => {},
    });
    onTestFinished(() => backend.close());
    return backend;
  }
  /** A directory with a store to which `fill` has added animals, with two keys and a ban. */
  async function directoryWith(fill: (store: Store) => Promise<unknown>) {
    const directory = join(home, 'store');
    await mkdir(directory);
    const store = await openJournalStore({ directory, clock, lock: noLock });
    await fill(store);
    await store.close();
    const keys = new KeyFiles(directory, { clock });
    await keys.create({ name: 'till', plan: 'free' });
    await keys.create({ name: 'import', plan: 'enterprise', quota: { perMinute: 1, perDay: 10 ** 15 } });
    await saveBans(directory, new Map([[BANNED, clock.now() + 3_600_000]]));
    return inDirectory('store');
  }
  return { clock, home, inDirectory, at, openServer, directoryWith };
}

const many = (count: number) => (store: Store) =>
  store.seed({
    pets: Array.from({ length: count }, (_, i) => ({ id: BigInt(i + 1), ...animal() })),
    orders: [{ id: 1 }],
  });

/** What is in the schema `pets`; undefined if there is none. */
async function stateOf(url: string) {
  const client = await connectTo(url);
  const { rows } = await client.query("select from pg_namespace where nspname = 'pets'");
  if (rows.length === 0) return undefined;
  const tables = ['meta', 'animals', 'orders', 'idempotency', 'keys', 'callers'];
  const state: Record<string, unknown> = {};
  for (const table of tables) state[table] = (await client.query(`select * from pets.${table}`)).rows;
  return state;
}

test('copies from a directory to a database, to another database and back lose and change nothing', async () => {
  const { inDirectory, at, directoryWith } = await shop();
  const source = await directoryWith(async (store) => {
    const ids = [INT64_MIN, -1n, 0n, 7n];
    const pets = ids.map((id) => ({ id, ...animal(`${id}`, { categoryId: INT64_MAX, status: 'pending' }) }));
    await store.seed({ pets, orders: [{ id: 123456789012345678901234567890n }, [], null, '\0 \ud800 🐕'] });
    await addAnimals(store);
  });
  const expected = await source.read(collect);
  const places = [source, at(await freshDatabase()), at(await freshDatabase()), inDirectory('back')] as const;
  for (const [i, place] of places.slice(1).entries()) {
    const { source: before, copy } = await copyStore(places[i] as StoreLocation, place);
    expect(copy).toEqual({ ...before, sequence: copy.sequence });
    expect(await place.read(collect)).toEqual(expected);
    expect(await place.check()).toEqual(copy);
  }
});

test('orders keep all their digits in a database', async () => {
  const { at, inDirectory, directoryWith } = await shop();
  const source = await directoryWith((store) => store.add({ pet: animal() }));
  const orders = ['{"price":1.10,"big":1e400,"n":12345678901234567890123456789}', '-0.0', '"\\u0000\\ud800"'];
  const withOrders: StoreLocation = {
    ...source,
    read: (task, signal) =>
      source.read(
        (contents) => task({ ...contents, orders, report: { ...contents.report, orders: 3 } }),
        signal,
      ),
  };
  const database = at(await freshDatabase());
  await copyStore(withOrders, database);
  await copyStore(database, inDirectory('back'));
  expect((await inDirectory('back').read(collect)).orders).toEqual(orders);
});

test('long animals are read one by one', async () => {
  const { at, directoryWith } = await shop();
  const source = await directoryWith(async (store) => {
    const pets = [600_000, 600_000, 2_000_000, 1].map((length, i) => ({
      id: BigInt(i),
      ...animal('x'.repeat(length)),
    }));
    await store.seed({ pets, orders: [] });
  });
  const database = at(await freshDatabase());
  await copyStore(source, database);
  for (const place of [source, database]) {
    const lengths = await place.read(async ({ animals }) => {
      const all: number[] = [];
      for await (const part of animals()) all.push(part.length);
      return all;
    });
    expect(lengths).toEqual([2, 1, 1]);
  }
});

test('idempotency keys are copied in whatever order the table has them', async () => {
  const { at, directoryWith } = await shop();
  const source = await directoryWith(async (store) => {
    for (const key of ['a', 'b', 'c']) await store.add({ pet: animal(), idempotency: idempotency(key) });
  });
  const url = await freshDatabase();
  await copyStore(source, at(url));
  const expected = await at(url).read(collect);
  // An update moves the row behind the others.
  await (await connectTo(url)).query(`update pets.idempotency set at = at where response like '{"id":1,%'`);
  expect(await at(url).read(collect)).toEqual(expected);
});

test('a user who may not change the schema can copy to it', async () => {
  const { at, directoryWith } = await shop();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const sql = await pendingSql(await connectTo(url));
  const database = new URL(url).pathname.slice(1);
  await sharedCluster().sql('postgres', `revoke create on database ${database} from public`);
  await sharedCluster().sql(database, sql);
  await copyStore(source, at(url));
  expect(await at(url).read(collect)).toEqual(await source.read(collect));
});

test('stores are copied through pgbouncer in transaction mode', async ({ skip }) => {
  if (!hasPgbouncer()) return skip('pgbouncer is not installed');
  const { at, inDirectory, directoryWith } = await shop();
  const source = await directoryWith(addAnimals);
  const database = new URL(await freshDatabase()).pathname.slice(1);
  const url = (await startPgbouncer(sharedCluster())).url(database);
  await copyStore(source, at(`${url}?prepare=off`));
  await copyStore(at(`${url}?prepare=off`), inDirectory('back'));
  expect(await inDirectory('back').read(collect)).toEqual(await source.read(collect));
});

test('ids up to the highest int64 can be copied', async () => {
  const { at, inDirectory, directoryWith } = await shop();
  const source = await directoryWith((store) =>
    store.seed({ pets: [{ id: INT64_MAX, ...animal() }], orders: [] }),
  );
  const database = at(await freshDatabase());
  await copyStore(source, database);
  await copyStore(database, inDirectory('back'));
  expect(await inDirectory('back').read(collect)).toEqual(await source.read(collect));
});

test('a server on the copy continues as the server on the store would', async () => {
  const { clock, at, openServer, directoryWith } = await shop();
  let before: string[] = [];
  const source = await directoryWith(async (store) => {
    await addAnimals(store);
    before = await allTexts(store);
  });
  clock.advance(1_000);
  // The ids of these animals were issued, but the animals were lost.
  const last = BigInt(before.length);
  const withLostAnimals: StoreLocation = {
    ...source,
    read: (task) => source.read((contents) => task({ ...contents, nextId: last + 11n })),
  };
  const database = at(await freshDatabase());
  await copyStore(withLostAnimals, database);
  const { store, keys, limiter } = await openServer(database);
  expect(await allTexts(store)).toEqual(before);
  const repeat = (bodyHash = REPEATABLE.bodyHash) =>
    store.add({ pet: animal(REPEATABLE_NAME), idempotency: { ...REPEATABLE, bodyHash } });
  expect(await repeat()).toEqual({ kind: 'replayed', pet: before.at(-1) });
  expect(await repeat('0'.repeat(64))).toEqual({ kind: 'mismatch' });
  expect(await store.add({ pet: animal() })).toMatchObject({
    pet: expect.stringContaining(`{"id":${last + 11n},`),
  });
  for (const { name, sha256 } of (await source.read(collect)).keys) {
    expect(await keys.find(sha256)).toMatchObject({ name });
  }
  const quota = { perMinute: 10, perDay: 100 };
  expect(await limiter.peek(BANNED, quota)).toMatchObject({ banned: true });
  clock.advance(24 * 3_600_000);
  expect(await repeat()).toMatchObject({ kind: 'added' });
  expect(await limiter.peek(BANNED, quota)).not.toHaveProperty('banned');
});

test('a database that contains no store is created by the copy, also if only store migrate has used it', async () => {
  const { at, directoryWith } = await shop();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const client = await connectTo(url);
  await migrate(client);
  await copyStore(source, at(url));
  expect(await readIdentity(client)).toMatchObject({ id: (await source.check()).id });
});

describe('a database is refused and unchanged', () => {
  test.each<[string, string, RegExp]>([
    ['an animal', "insert into pets.animals values (1, 0, '{}')", /is not empty$/],
    ['an order', "insert into pets.orders values (1, '{}')", /is not empty$/],
    [
      'an idempotency key',
      `insert into pets.idempotency values (decode(repeat('00', 16), 'hex'), decode(repeat('00', 16), 'hex'), '', now())`,
      /is not empty$/,
    ],
    ['an API key', "insert into pets.keys values (sha256(''), 'till', 'free')", /is not empty$/],
    ['a caller', "insert into pets.callers values (sha256(''))", /is not empty$/],
    ['lost ids', 'update pets.meta set last_id = 3', /is not empty$/],
  ])('with %s', async (_, sql, message) => {
    const { at, directoryWith } = await shop();
    const source = await directoryWith(addAnimals);
    const url = await freshDatabase();
    const client = await connectTo(url);
    await migrate(client);
    await client.query(sql);
    const before = await stateOf(url);
    await expect(copyStore(source, at(url))).rejects.toMatchObject({
      message: expect.stringMatching(message),
      hint: expect.stringContaining('drop schema pets cascade'),
    });
    expect(await stateOf(url)).toEqual(before);
  });

  test('with an empty store that a server has opened', async () => {
    const { at, openServer, directoryWith } = await shop();
    const source = await directoryWith(addAnimals);
    const url = await freshDatabase();
    await (await openServer(at(url))).close();
    const before = await stateOf(url);
    await expect(copyStore(source, at(url))).rejects.toThrow(/a server has used the store in postgres:/);
    expect(await stateOf(url)).toEqual(before);
  });

  test('with the store itself, by another address', async () => {
    const { at } = await shop();
    const url = await freshDatabase();
    await migrate(await connectTo(url));
    const before = await stateOf(url);
    const other = url.replace('127.0.0.1', 'localhost');
    await expect(copyStore(at(url), at(url))).rejects.toThrow(/is both the source and the target$/);
    await expect(copyStore(at(url), at(other))).rejects.toThrow(/contains this store or a copy of it$/);
    expect(await stateOf(url)).toEqual(before);
  });
});

describe.each([
  ['without a schema', false],
  ['with an empty schema', true],
])('a database %s is as before', (_, hasSchema) => {
  async function target() {
    const all = await shop();
    const source = await all.directoryWith(many(2_500));
    const url = await freshDatabase();
    if (hasSchema) await migrate(await connectTo(url));
    const before = await stateOf(url);
    const terminate = () =>
      sharedCluster().sql(
        'postgres',
        `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = '${new URL(url).pathname.slice(1)}' and state = 'idle in transaction'`,
      );
    return { ...all, source, url, before, terminate };
  }

  /** What happens to a copy at each of its steps. */
  const failures: [string, (at: { terminate(): Promise<unknown>; abort(): void }) => unknown, RegExp][] = [
    ['fails', () => Promise.reject(new Error('injected')), /injected/],
    ['is interrupted', ({ abort }) => abort(), /^interrupted$/],
    ['loses its connection', ({ terminate }) => terminate(), /terminat|connection/i],
  ];
  test.each(failures)('after each step at which a copy %s', async (_, fail, message) => {
    const { source, url, at, before, terminate } = await target();
    const steps = 8;
    let failing = 0;
    for (; ; failing++) {
      let step = 0;
      const interrupt = new AbortController();
      const abort = () => interrupt.abort(new Error('interrupted'));
      const next = async () => {
        if (step++ === failing) await fail({ terminate, abort });
      };
      const watched = (contents: StoreContents): StoreContents => ({
        ...contents,
        async *animals() {
          for await (const part of contents.animals()) {
            await next();
            yield part;
          }
          await next();
        },
      });
      const from: StoreLocation = {
        ...source,
        read: (task, signal) => source.read((contents) => task(watched(contents)), signal),
      };
      const real = at(url);
      const to: StoreLocation = {
        ...real,
        write: (contents, verify, signal) =>
          real.write(contents, (written) => verify(watched(written)), signal),
      };
      const copying = copyStore(from, to, { signal: interrupt.signal });
      if (failing === steps) {
        await copying;
        break;
      }
      await expect(copying, `step ${failing}`).rejects.toThrow(message);
      expect(await stateOf(url), `step ${failing}`).toEqual(before);
    }
    expect((await at(url).check()).animals).toBe(2_500);
  });

  test('if the comparison finds a difference', async () => {
    const { source, url, at, before } = await target();
    const real = at(url);
    const planted: StoreLocation = {
      ...real,
      write: (contents, verify) => real.write({ ...contents, nextId: contents.nextId + 1n }, verify),
    };
    await expect(copyStore(source, planted)).rejects.toThrow(/differs from .*: next id$/);
    expect(await stateOf(url)).toEqual(before);
  });

  test('until the commit', async () => {
    const { source, url, before } = await target();
    const client = await connectTo(url);
    await source.read((contents) => writeDatabase(client, url, contents, async () => {}));
    expect(await stateOf(url)).toEqual(before);
    await commitCopy(client, url);
    expect(await stateOf(url)).not.toEqual(before);
  });

  test('if the transaction is lost at the commit', async () => {
    const { source, url, before, terminate } = await target();
    const client = await connectTo(url);
    await source.read((contents) => writeDatabase(client, url, contents, async () => {}));
    await terminate();
    await expect(commitCopy(client, url)).rejects.toMatchObject({ outcome: 'unknown' });
    expect(await stateOf(url)).toEqual(before);
    const failed = await connectTo(url);
    await failed.query('begin');
    await failed.query('nonsense').catch(() => {});
    await expect(commitCopy(failed, url)).rejects.toThrow('has rolled back the copy');
  });
});

test('of two copies to one database, one is complete and the other is refused', async () => {
  const { at, directoryWith } = await shop();
  const source = await directoryWith(many(2_500));
  for (let round = 0; round < 3; round++) {
    const url = await freshDatabase();
    const results = await Promise.allSettled([copyStore(source, at(url)), copyStore(source, at(url))]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const { reason } = results.find((result) => result.status === 'rejected') as PromiseRejectedResult;
    expect(reason.message).toMatch(/contains this store or a copy of it/);
    expect((await at(url).check()).animals).toBe(2_500);
  }
});

test('nothing can be added to the target during a copy', async () => {
  const { directoryWith } = await shop();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const copier = await connectTo(url);
  await migrate(copier);
  await source.read((contents) => writeDatabase(copier, url, contents, async () => {}));
  const statements = [
    "insert into pets.keys values (sha256(''), 'late', 'free')",
    "insert into pets.callers values (sha256(''))",
    'select * from pets.create_v1(\'{0}\', \'{",\\"name\\":\\"Rex\\"}"}\', null, null)',
    'select pets.expire_v1()',
  ];
  for (const statement of statements) {
    const other = await connectTo(url);
    await other.query("set lock_timeout = '20ms'");
    await expect(other.query(statement), statement).rejects.toThrow(/lock timeout/);
  }
});

test('a server that starts during a copy waits, and then uses the id of the copy', async () => {
  const { at, directoryWith } = await shop();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const [copier, server] = [await connectTo(url), await connectTo(url)];
  await migrate(server);
  await source.read((contents) => writeDatabase(copier, url, contents, async () => {}));
  let isOpen = false;
  const opening = openIdentity(server).then((identity) => {
    isOpen = true;
    return identity;
  });
  await expect
    .poll(() => sharedCluster().sql(new URL(url).pathname.slice(1), 'select from pg_locks where not granted'))
    .toHaveLength(1);
  expect(isOpen).toBe(false);
  await commitCopy(copier, url);
  expect(await opening).toMatchObject({ id: (await source.check()).id });
  expect(await at(url).check()).toMatchObject({ animals: (await source.check()).animals });
});

test('a copy of a database is consistent while a server adds animals', async () => {
  const { at, inDirectory, openServer } = await shop();
  const location = at(await freshDatabase());
  const { store } = await openServer(location);
  let [added, isDone] = [0, false];
  const adding = (async () => {
    while (!isDone) {
      await Promise.all(Array.from({ length: 20 }, () => store.add({ pet: animal() })));
      added += 20;
    }
  })();
  for (let copy = 1; copy <= 3; copy++) {
    await expect.poll(() => added).toBeGreaterThan(100 * copy);
    const before = added;
    await copyStore(location, inDirectory(`copy-${copy}`));
    const { all } = await inDirectory(`copy-${copy}`).read(collect);
    expect(all.length).toBeGreaterThanOrEqual(before);
    expect(all.map(({ id }) => id)).toEqual(all.map((_, i) => BigInt(i + 1)));
  }
  isDone = true;
  await adding;
});

describe('a check of a database fails', () => {
  test.each<[string, string, RegExp]>([
    [
      'an animal that is not JSON',
      `update pets.animals set body = '{' where id = 2`,
      /pets.animals \(id 2\)/,
    ],
    [
      'an animal with another status',
      'update pets.animals set status = 1 where id = 3',
      /pets.animals \(id 3\)/,
    ],
    ['an order that is not JSON', `update pets.orders set body = '{'`, /pets.orders \(order 1\)/],
    ['a key that is not valid', `update pets.keys set plan = 'x'`, /pets.keys/],
    [
      'the response of an idempotency key that is not an animal',
      `insert into pets.idempotency values (decode(repeat('00', 16), 'hex'), decode(repeat('00', 16), 'hex'), '{"id":9', now() + interval '10 years')`,
      /pets.idempotency/,
    ],
  ])('because of %s', async (_, sql, message) => {
    const { home, at, directoryWith, inDirectory } = await shop();
    const url = await freshDatabase();
    await copyStore(await directoryWith(many(3)), at(url));
    await (await connectTo(url)).query(sql);
    await expect(at(url).check()).rejects.toThrow(message);
    if (sql.includes('idempotency')) {
      await expect(copyStore(at(url), inDirectory('copy'))).rejects.toThrow(message);
      expect(await readdir(home)).toEqual(['store']);
    }
  });

  test('because it contains no store', async () => {
    const { at, inDirectory } = await shop();
    const url = await freshDatabase();
    await expect(at(url).check()).rejects.toThrow('the database contains no store');
    await expect(copyStore(at(url), inDirectory('copy'))).rejects.toThrow('the database contains no store');
    expect(await stateOf(url)).toBeUndefined();
  });
});
