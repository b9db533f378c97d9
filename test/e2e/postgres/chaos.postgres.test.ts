import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { report } from '../../helpers/cases.ts';
import type { Cluster } from '../../helpers/postgres/cluster.ts';
import { USER } from '../../helpers/postgres/databases.ts';
import { createKey, type FleetServer, startFleet } from '../../helpers/postgres/fleet.ts';
import { type Load, underLoad } from '../../helpers/postgres/load.ts';
import { startCluster } from '../../helpers/postgres.ts';

// `npm run soak` causes more failures.
const ROUNDS = Number(process.env['PETS_POSTGRES_ROUNDS'] ?? 1);

/** Longer than every time limit of a server. */
const LONG_MS = 3_000;

test(
  `three servers and their database, which fail in every way ${ROUNDS} times, lose and change nothing`,
  async () => {
    const cluster = await startCluster();
    const url = await cluster.createDatabase();
    const servers = await startFleet(url);
    const key = await createKey(url, { name: 'load', plan: 'enterprise' });
    const failures = await underLoad(servers, key, async (load) => {
      const ways = Object.values(failuresOf(load, servers, cluster, new URL(url).pathname.slice(1)));
      for (let round = 0; round < ROUNDS; round++) {
        // A random order
        for (const fail of ways.toSorted(() => Math.random() - 0.5)) {
          await sleep(Math.random() * 300);
          await fail();
          await load.untilAllWork();
          await load.untilReadyz(200);
        }
      }
      const { acknowledged, ambiguous } = load;
      report({ 'acknowledged animals': acknowledged.size, 'unknown outcomes': ambiguous.size });
      expect(ambiguous.size).toBeGreaterThan(0);
    });
    // A server that starts again responds before its store is open.
    expect(['0', '503 starting', '503 storage_unreachable', '503 unavailable']).toEqual(
      expect.arrayContaining(failures),
    );
  },
  600_000 + ROUNDS * 60_000,
);

/** The ways in which servers and their database can fail. Each function returns when the failure has ended. */
function failuresOf(
  { untilReadyz }: Load,
  servers: readonly FleetServer[],
  cluster: Cluster,
  database: string,
) {
  const sql = (text: string) => cluster.sql('postgres', text);
  const anyServer = () => servers[Math.floor(Math.random() * servers.length)];
  const killBackend = async (signal: NodeJS.Signals) => {
    const backends = `from pg_stat_activity where datname = '${database}'`;
    const [row] = await sql(`select pid ${backends} order by random() limit 1`);
    process.kill(Number(row?.['pid']), signal);
  };
  return {
    'kill -9 of a server': () => anyServer()?.killAndRestart(),
    async 'SIGSTOP of a server'() {
      const server = anyServer();
      server?.signal('SIGSTOP');
      await sleep(LONG_MS);
      server?.signal('SIGCONT');
    },
    'fast restart of the database': () => cluster.restart(),
    async 'kill -9 of the database'() {
      await cluster.kill9();
      await untilReadyz(503);
      await cluster.start();
    },
    async 'SIGKILL of one backend'() {
      await killBackend('SIGKILL');
      // PostgreSQL restarts itself.
      while (!(await sql('select 1').catch(() => undefined))) await sleep(10);
    },
    'SIGTERM of one backend': () => killBackend('SIGTERM'),
    async 'SIGSTOP of the database'() {
      await cluster.pause();
      await Promise.all([sleep(LONG_MS), untilReadyz(503)]);
      cluster.resume();
    },
    async 'read-only database'() {
      await cluster.setReadOnly(true);
      await untilReadyz(503);
      await cluster.setReadOnly(false);
    },
    async 'no free connections'() {
      await sql(`alter role ${USER} connection limit 0`);
      await sql(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${USER}'`);
      await untilReadyz(503);
      await sql(`alter role ${USER} connection limit -1`);
    },
    async 'held lock'() {
      const lock = `begin; select from pets.meta for update; select pg_sleep(${LONG_MS / 1_000}); rollback`;
      await Promise.all([cluster.sql(database, lock), untilReadyz(503)]);
    },
  };
}
