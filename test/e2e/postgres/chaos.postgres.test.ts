import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { report } from '../../helpers/cases.ts';
import type { Cluster } from '../../helpers/postgres/cluster.ts';
import { USER } from '../../helpers/postgres/databases.ts';
import { createKey, type FleetServer, startFleet } from '../../helpers/postgres/fleet.ts';
import { type Failure, type Load, type Period, underLoad } from '../../helpers/postgres/load.ts';
import { startCluster } from '../../helpers/postgres.ts';

// `npm run soak` causes more failures.
const count = (variable: `PETS_${string}`, few: number) => Number(process.env[variable] ?? few);
const KILLS = count('PETS_POSTGRES_SERVER_KILLS', 5);
const RESTARTS = count('PETS_POSTGRES_RESTARTS', 4);

type Kind = keyof ReturnType<typeof failuresOf>;
const WAYS_TO_RESTART: readonly Kind[] = [
  'fast restart of the database',
  'kill -9 of the database',
  'SIGKILL of one backend',
  'SIGTERM of one backend',
];

/** All failures, in random order. */
function kinds(): Kind[] {
  const times = (number: number, ...kinds: Kind[]) =>
    Array.from({ length: number }, (_, i) => kinds[i % kinds.length] as Kind);
  return [
    ...times(KILLS, 'kill -9 of a server'),
    ...times(count('PETS_POSTGRES_SERVER_STOPS', 2), 'SIGSTOP of a server'),
    ...times(RESTARTS, ...WAYS_TO_RESTART),
    ...times(count('PETS_POSTGRES_PAUSES', 1), 'SIGSTOP of the database'),
    ...times(count('PETS_POSTGRES_READ_ONLY', 1), 'read-only database'),
    ...times(count('PETS_POSTGRES_NO_CONNECTIONS', 1), 'no free connections'),
    ...times(count('PETS_POSTGRES_LOCKS', 1), 'held lock'),
  ]
    .map((kind) => ({ kind, order: Math.random() }))
    .sort((one, other) => one.order - other.order)
    .map(({ kind }) => kind);
}

/** A failure that the test caused. It ends when all servers work again. `server` is undefined if the database failed. */
type Incident = Period & { kind: Kind; server: number | undefined };

test(
  `three servers and their database, killed ${KILLS} and ${RESTARTS} times, lose and change nothing`,
  async () => {
    const cluster = await startCluster();
    const url = await cluster.createDatabase();
    const servers = await startFleet(url);
    const key = await createKey(url, { name: 'load', plan: 'enterprise' });
    const incidents: Incident[] = [];
    const failures = await underLoad(
      servers.map((server) => server.url),
      key,
      async (load) => {
        const cause = failuresOf(load, servers, cluster, new URL(url).pathname.slice(1));
        for (const kind of kinds()) {
          await sleep(Math.random() * 300);
          const from = performance.now();
          const server = await cause[kind]();
          await load.untilAllWork();
          await load.untilReadyz(200);
          incidents.push({ kind, server: server ?? undefined, from, to: performance.now() });
        }
        const { acknowledged, ambiguous } = load;
        report({ 'acknowledged animals': acknowledged.size, 'unknown outcomes': ambiguous.size });
        expect(ambiguous.size).toBeGreaterThan(0);
      },
    );
    report({ 'failed requests': failures.length });
    const unexplained = failures.filter((failure) => !incidents.some((each) => explains(each, failure)));
    expect(unexplained).toEqual([]);
    for (const server of servers) server.expectOnlyOutages();
  },
  600_000 + KILLS * 20_000,
);

/** Whether a request may fail in this way because of an incident. */
function explains(incident: Incident, { server, method, path, status, code, from, to }: Failure): boolean {
  if (from > incident.to || incident.from > to) return false;
  if (incident.server !== undefined && incident.server !== server) return false;
  // The server that starts again responds before its store is open.
  if (incident.kind === 'kill -9 of a server') return status === 0 || code === 'starting';
  if (incident.kind === 'held lock' && method === 'GET' && path !== '/readyz') return false;
  return status === 503 && (code === 'unavailable' || code === 'storage_unreachable');
}

/** Longer than every time limit of a server. */
const LONG_MS = 3_000;

/**
 * The ways in which servers and their database can fail. Each function returns when the failure has ended. It returns
 * the server that failed, or nothing if the database failed.
 */
function failuresOf(
  { untilReadyz }: Load,
  servers: readonly FleetServer[],
  cluster: Cluster,
  database: string,
) {
  const sql = (text: string) => cluster.sql('postgres', text);
  const anyServer = () => Math.floor(Math.random() * servers.length);
  const killBackend = async (signal: NodeJS.Signals) => {
    const backends = `from pg_stat_activity where datname = '${database}'`;
    const [row] = await sql(`select pid ${backends} order by random() limit 1`);
    process.kill(Number(row?.['pid']), signal);
  };
  return {
    async 'kill -9 of a server'() {
      const server = anyServer();
      await servers[server]?.kill();
      await servers[server]?.start();
      return server;
    },
    async 'SIGSTOP of a server'() {
      const server = anyServer();
      servers[server]?.pause();
      await sleep(LONG_MS);
      servers[server]?.resume();
      return server;
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
