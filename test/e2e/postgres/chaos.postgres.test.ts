import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { report } from '../../helpers/cases.ts';
import { createKey, expectOnlyOutages, startFleet } from '../../helpers/postgres/fleet.ts';
import { type IncidentKind, Incidents } from '../../helpers/postgres/incidents.ts';
import { underLoad } from '../../helpers/postgres/load.ts';
import { startCluster } from '../../helpers/postgres.ts';

// `npm run soak` causes more failures.
const count = (variable: `PETS_${string}`, few: number) => Number(process.env[variable] ?? few);
const KILLS = count('PETS_POSTGRES_SERVER_KILLS', 10);
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
