import { writeFileSync } from 'node:fs';
import { encodeCursor } from '../../src/server/routes.ts';
import type { Bench, Suite } from '../bench.ts';
import { BenchDatabase } from '../database.ts';
import { processorTime } from '../processes.ts';
import { missing, type Row, rowIfKnown, single } from '../rows.ts';
import type { Server } from '../servers.ts';
import { compareRates, type Load, timesPerRequest, underLoad } from '../wrk.ts';

const ANIMALS = 20_000;
const CPU_SECONDS = 3;
const DISTANCE_SECONDS = 5;
const ROUND_TRIPS = [0, 5, 50];

const TABLE = `create table single_rows (id bigserial primary key, body text);
grant all on single_rows, single_rows_id_seq to public;`;
const INSERT = `insert into single_rows (body)
  values ('{"id":1,"name":"Rex","categoryId":1,"status":"available"}');`;
const SELECT = `\\set after random(1, ${ANIMALS - 20})
select id, body from pets.animals where id > :after order by id limit 20;`;

const post: Load = { method: 'POST', connections: 32 };
const keyed: Load = { ...post, keyed: true };

/** `least` is the smallest ratio to pgbench that meets the target. wrk opens 32 connections to each server. */
const creations: readonly { what: string; load: Load; servers: number; least: number }[] = [
  { what: 'POST', load: post, servers: 1, least: 0.4 },
  { what: 'POST', load: post, servers: 2, least: 0.5 },
  { what: 'POST', load: post, servers: 3, least: 0.5 },
  { what: 'POST with an Idempotency-Key', load: keyed, servers: 1, least: 0.3 },
  { what: 'POST with an Idempotency-Key', load: keyed, servers: 3, least: 0.4 },
];
const reads: readonly { servers: number; least: number }[] = [
  { servers: 1, least: 0.22 },
  { servers: 2, least: 0.2 },
  { servers: 3, least: 0.2 },
];

const named = (count: number) => `${count} ${count === 1 ? 'server' : 'servers'} on PostgreSQL`;

/** Compares servers of a store in PostgreSQL with pgbench, which sends the simplest statement for the same task. */
export const postgres: Suite = {
  usesPeers: false,
  async run(bench) {
    const database = await BenchDatabase.start(bench.lab);
    if (!database) return [missing('servers on PostgreSQL', 'PostgreSQL is missing: apt install postgresql')];
    try {
      return [
        ...(await measureCreations(bench, database)),
        ...(await measureReads(bench, database)),
        await compareSizes(bench, database),
        ...(await measureDistances(bench, database)),
      ];
    } finally {
      await database.remove();
    }
  },
};

async function measureCreations(bench: Bench, database: BenchDatabase): Promise<Row[]> {
  const store = await database.createStore(0);
  await database.sql(store.url, TABLE);
  const rows: Row[] = [];
  for (const { what, load, servers, least } of creations) {
    const row = await compareRates(bench, {
      what: `${what}, ${named(servers)}: rate ÷ pgbench inserting a row`,
      least,
      start: async () => ({
        ours: underLoad(bench, load, ...(await database.serve(store, servers))),
        peer: database.pgbench(store.url, INSERT),
      }),
    });
    rows.push(row);
    if (servers === 1) rows.push(...(await measureProcessors(bench, database, store, what, load)));
  }
  return rows;
}

async function measureReads(bench: Bench, database: BenchDatabase): Promise<Row[]> {
  const store = await database.createStore(ANIMALS);
  const load = randomPages(bench, ANIMALS);
  const rows: Row[] = [];
  for (const { servers, least } of reads) {
    const row = await compareRates(bench, {
      what: `GET, another page each, ${named(servers)}: rate ÷ pgbench selecting 20 rows`,
      least,
      start: async () => ({
        ours: underLoad(bench, load, ...(await database.serve(store, servers))),
        peer: database.pgbench(store.url, SELECT),
      }),
    });
    rows.push(row);
    if (servers === 1) rows.push(...(await measureProcessors(bench, database, store, 'GET', load)));
  }
  return rows;
}

async function compareSizes(bench: Bench, database: BenchDatabase): Promise<Row> {
  const start = async (count: number) => {
    const servers = await database.serve(await database.createStore(count), 1);
    return underLoad(bench, randomPages(bench, count), ...servers);
  };
  return compareRates(bench, {
    what: 'GET on PostgreSQL: rate with a million animals ÷ with a thousand',
    least: 0.85,
    most: 1.15,
    start: async () => ({ ours: await start(1_000_000), peer: await start(1_000) }),
  });
}

/** Measures the rate of a server for each of the `ROUND_TRIPS` to the database, in milliseconds. */
async function measureDistances(bench: Bench, database: BenchDatabase): Promise<Row[]> {
  const store = await database.createStore(ANIMALS);
  const rows: Row[] = [];
  for (const milliseconds of ROUND_TRIPS) {
    for (const load of [post, randomPages(bench, ANIMALS)]) {
      const what = `${load.method}, one server, a round trip of ${milliseconds} ms to PostgreSQL`;
      if (!bench.wrk) {
        rows.push(missing(what, 'wrk is missing: apt install wrk, or brew install wrk'));
        continue;
      }
      const proxy = await database.delayed(milliseconds);
      const servers = await database.serve({ ...store, url: proxy.urlOf(store.url) }, 1);
      const contestant = underLoad(bench, load, ...servers);
      const rates: number[] = [];
      await contestant.rate(DISTANCE_SECONDS);
      for (let round = 0; round < bench.rounds; round++) rates.push(await contestant.rate(DISTANCE_SECONDS));
      await contestant.stop();
      proxy.close();
      // Each request needs two round trips, one after the other: to count it, and to carry it out.
      const limit = (load.connections * 1_000) / (2 * milliseconds);
      rows.push(single(what, '/s', rates, milliseconds === 50 ? { least: 180, most: limit } : undefined));
    }
  }
  return rows;
}

/** Measures how much processor time a request takes in the server and in the database. */
async function measureProcessors(
  bench: Bench,
  database: BenchDatabase,
  store: { url: string; key: string },
  what: string,
  load: Load,
): Promise<Row[]> {
  const samples: { server: number | undefined; database: number | undefined }[] = [];
  const [server] = (await database.serve(store, 1)) as [Server];
  const contestant = underLoad(bench, load, server);
  await contestant.rate(CPU_SECONDS);
  for (let round = 0; round < bench.rounds; round++) {
    const [ofServer, ofDatabase] = await timesPerRequest(contestant, CPU_SECONDS, () => [
      processorTime(server.pid),
      database.processorTime(),
    ]);
    samples.push({ server: ofServer, database: ofDatabase });
  }
  await contestant.stop();
  return (['server', 'database'] as const).map((side) => {
    const name = `${what} on PostgreSQL: processor time per request, ${side}`;
    return rowIfKnown(name, [samples.map((sample) => sample[side])], (times = []) =>
      single(name, 'µs', times),
    );
  });
}

/** Requests for pages at 1,000 positions of a store with `count` animals. */
function randomPages({ lab }: Bench, count: number): Load {
  const file = lab.path(`pages-${count}`);
  const paths = Array.from({ length: 1_000 }, (_, i) => {
    const after = BigInt(Math.floor((((i * 7919) % 1_000) / 1_000) * (count - 20)));
    return `/v1/pets?limit=20&cursor=${encodeCursor(after)}\n`;
  });
  writeFileSync(file, paths.join(''));
  return { method: 'GET', connections: 32, paths: file };
}
