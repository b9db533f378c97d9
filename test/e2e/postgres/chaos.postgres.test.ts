import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { report } from '../../helpers/cases.ts';
import type { Cluster } from '../../helpers/postgres/cluster.ts';
import { USER } from '../../helpers/postgres/databases.ts';
import { createKey, expectOnlyOutages, startFleet } from '../../helpers/postgres/fleet.ts';
import {
  type Exchange,
  type Load,
  type Period,
  type Traffic,
  underLoad,
  type Writers,
} from '../../helpers/postgres/load.ts';
import { startCluster } from '../../helpers/postgres.ts';

// `npm run soak` causes more failures.
const count = (variable: `PETS_${string}`, few: number) => Number(process.env[variable] ?? few);
const KILLS = count('PETS_POSTGRES_SERVER_KILLS', 5);
const RESTARTS = count('PETS_POSTGRES_RESTARTS', 4);
const WAYS_TO_RESTART: readonly IncidentKind[] = [
  'fast restart of the database',
  'kill -9 of the database',
  'SIGKILL of one backend',
  'SIGTERM of one backend',
];

/** All failures, in random order. */
function kinds(): IncidentKind[] {
  const times = (number: number, kind: IncidentKind) => Array.from({ length: number }, () => kind);
  return [
    ...times(KILLS, 'kill -9 of a server'),
    ...times(count('PETS_POSTGRES_SERVER_STOPS', 2), 'SIGSTOP of a server'),
    ...Array.from({ length: RESTARTS }, (_, i) => WAYS_TO_RESTART[i % 4] as IncidentKind),
    ...times(count('PETS_POSTGRES_PAUSES', 1), 'SIGSTOP of the database'),
    ...times(count('PETS_POSTGRES_READ_ONLY', 1), 'read-only database'),
    ...times(count('PETS_POSTGRES_NO_CONNECTIONS', 1), 'no free connections'),
    ...times(count('PETS_POSTGRES_LOCKS', 1), 'held lock'),
  ]
    .map((kind) => ({ kind, order: Math.random() }))
    .sort((one, other) => one.order - other.order)
    .map(({ kind }) => kind);
}

test(
  `three servers and their database, killed ${KILLS} and ${RESTARTS} times, lose and change nothing`,
  async () => {
    const cluster = await startCluster();
    const url = await cluster.createDatabase();
    const servers = await startFleet(url);
    const key = await createKey(url, { name: 'load', plan: 'enterprise' });
    const failures = await underLoad(servers, key, async (load) => {
      const incidents = new Incidents(load, cluster, url);
      for (const kind of kinds()) {
        await sleep(Math.random() * 300);
        await incidents.cause(kind);
      }
      const { acknowledged, ambiguous } = load.writers;
      report({ 'acknowledged animals': acknowledged.size, 'unknown outcomes': ambiguous.size });
      expect(ambiguous.size).toBeGreaterThan(0);
      expect(load.traffic.failures.filter((failure) => !incidents.explain(failure))).toEqual([]);
    });
    report({ 'failed requests': failures.length });
    for (const server of servers) expectOnlyOutages(server);
  },
  600_000 + KILLS * 20_000,
);

/** A failure that a test caused. It ends when all servers work again. `server` is undefined if the database failed. */
type Incident = Period & { kind: IncidentKind; server: number | undefined };

type IncidentKind = keyof ReturnType<typeof failuresOf>;

/** Longer than every time limit of a server. */
const LONG_MS = 3_000;

class Incidents {
  #all: Incident[] = [];
  #traffic: Traffic;
  #writers: Writers;
  #failures: ReturnType<typeof failuresOf>;

  constructor({ traffic, writers }: Load, cluster: Cluster, databaseUrl: string) {
    this.#traffic = traffic;
    this.#writers = writers;
    this.#failures = failuresOf(traffic, cluster, new URL(databaseUrl).pathname.slice(1));
  }

  /** Causes a failure, ends it, and waits until all servers work again. */
  async cause(kind: IncidentKind): Promise<void> {
    const from = performance.now();
    const server = await this.#failures[kind]();
    await Promise.all(
      this.#traffic.servers.map(async (_, index) => {
        while ((await this.#writers.add(index))?.status !== 201) await sleep(10);
        while ((await this.#traffic.send(index, '/v1/pets?limit=1'))?.status !== 200) await sleep(10);
      }),
    );
    await untilReady(this.#traffic, 200);
    this.#all.push({ kind, server, from, to: performance.now() });
  }

  /** Whether an incident explains a failed request. */
  explain(failure: Exchange): boolean {
    return this.#all.some((incident) => overlap(failure, incident) && explains(incident, failure));
  }
}

const overlap = (one: Period, other: Period): boolean => one.from <= other.to && other.from <= one.to;

/** Whether a request may fail in this way during an incident. */
function explains(incident: Incident, { server, method, path, status, code }: Exchange): boolean {
  if (incident.server !== undefined && incident.server !== server) return false;
  // The server that starts again responds before its store is open.
  if (incident.kind === 'kill -9 of a server') return status === 0 || code === 'starting';
  if (incident.kind === 'held lock' && method === 'GET' && path !== '/readyz') return false;
  return status === 503 && (code === 'unavailable' || code === 'storage_unreachable');
}

/** Waits until each server reports with this status whether it is ready. */
async function untilReady(traffic: Traffic, status: 200 | 503): Promise<void> {
  const wait = async (index: number) => {
    while ((await traffic.send(index, '/readyz'))?.status !== status) await sleep(50);
  };
  await Promise.all(traffic.servers.map((_, index) => wait(index)));
}

/**
 * The ways in which servers and their database can fail. Each function returns when the failure has ended. It returns
 * the server that failed; undefined if the database failed.
 */
function failuresOf(traffic: Traffic, cluster: Cluster, database: string) {
  const { servers } = traffic;
  const anyServer = () => Math.floor(Math.random() * servers.length);
  const killBackend = async (signal: NodeJS.Signals) => {
    const [row] = await cluster.sql(
      'postgres',
      `select pid from pg_stat_activity where datname = '${database}' order by random() limit 1`,
    );
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
    async 'fast restart of the database'() {
      await cluster.restart();
      return undefined;
    },
    async 'kill -9 of the database'() {
      await cluster.kill9();
      await untilReady(traffic, 503);
      await cluster.start();
      return undefined;
    },
    async 'SIGKILL of one backend'() {
      await killBackend('SIGKILL');
      // PostgreSQL restarts itself.
      while (!(await cluster.sql('postgres', 'select 1').catch(() => undefined))) await sleep(10);
      return undefined;
    },
    async 'SIGTERM of one backend'() {
      await killBackend('SIGTERM');
      return undefined;
    },
    async 'SIGSTOP of the database'() {
      await cluster.pause();
      await Promise.all([sleep(LONG_MS), untilReady(traffic, 503)]);
      cluster.resume();
      return undefined;
    },
    async 'read-only database'() {
      await cluster.setReadOnly(true);
      await untilReady(traffic, 503);
      await cluster.setReadOnly(false);
      return undefined;
    },
    async 'no free connections'() {
      const ofServers = `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${USER}'`;
      await cluster.sql('postgres', `alter role ${USER} connection limit 0`);
      await cluster.sql('postgres', ofServers);
      await untilReady(traffic, 503);
      await cluster.sql('postgres', `alter role ${USER} connection limit -1`);
      return undefined;
    },
    async 'held lock'() {
      const lock = 'begin; select from pets.meta for update';
      await Promise.all([
        cluster.sql(database, `${lock}; select pg_sleep(${LONG_MS / 1_000}); rollback`),
        untilReady(traffic, 503),
      ]);
      return undefined;
    },
  };
}
