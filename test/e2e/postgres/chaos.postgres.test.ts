import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { createKey, expectOnlyOutages, startFleet } from '../../helpers/postgres/fleet.ts';
import { Follower } from '../../helpers/postgres/followers.ts';
import { type IncidentKind, Incidents } from '../../helpers/postgres/incidents.ts';
import { Traffic } from '../../helpers/postgres/traffic.ts';
import { WindowTakers } from '../../helpers/postgres/window-takers.ts';
import { Writers } from '../../helpers/postgres/writers.ts';
import { startCluster } from '../../helpers/postgres.ts';
import { report } from '../../helpers/report.ts';

// `npm run soak` causes more failures.
const count = (variable: `PETS_${string}`, few: number) => Number(process.env[variable] ?? few);
const KILLS = count('PETS_POSTGRES_SERVER_KILLS', 10);
const STOPS = count('PETS_POSTGRES_SERVER_STOPS', 2);
const RESTARTS = count('PETS_POSTGRES_RESTARTS', 4);
const PAUSES = count('PETS_POSTGRES_PAUSES', 1);
const READ_ONLY = count('PETS_POSTGRES_READ_ONLY', 1);
const FULL = count('PETS_POSTGRES_NO_CONNECTIONS', 1);
const LOCKS = count('PETS_POSTGRES_LOCKS', 1);

const WRITERS = 8;
const PER_MINUTE = 100;

/** Servers respond within 2.5 s. The rest is for a busy machine. */
const LONGEST_RESPONSE_MS = 10_000;

const WAYS_TO_RESTART: readonly IncidentKind[] = [
  'fast restart of the database',
  'kill -9 of the database',
  'SIGKILL of one backend',
  'SIGTERM of one backend',
];

const times = (number: number, kind: IncidentKind) => Array.from({ length: number }, () => kind);

function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, order: Math.random() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
}

test(
  `three servers and their database, killed ${KILLS} and ${RESTARTS} times, lose and change nothing`,
  async () => {
    const cluster = await startCluster();
    const url = await cluster.createDatabase();
    const servers = await startFleet(url);
    const key = await createKey(url, { name: 'load', plan: 'enterprise' });
    const quota = { perMinute: PER_MINUTE, perDay: 1_000_000 };
    const limitedKey = await createKey(url, { name: 'limited', plan: 'enterprise', quota });

    const traffic = new Traffic(servers, key);
    const writers = new Writers(traffic);
    for (let i = 0; i < WRITERS; i++) writers.start(i % 2 === 0);
    const followers = [
      new Follower(traffic, 10),
      new Follower(traffic, 50),
      new Follower(traffic, 20, 'pending'),
    ];
    for (const follower of followers) follower.start();
    const takers = new WindowTakers(writers, limitedKey, PER_MINUTE);
    for (const server of servers.keys()) traffic.repeat(() => takers.take(server), 50);

    const incidents = new Incidents(traffic, writers, cluster, url);
    await traffic.during(async () => {
      const kinds = shuffled([
        ...times(KILLS, 'kill -9 of a server'),
        ...times(STOPS, 'SIGSTOP of a server'),
        ...Array.from({ length: RESTARTS }, (_, i) => WAYS_TO_RESTART[i % 4] as IncidentKind),
        ...times(PAUSES, 'SIGSTOP of the database'),
        ...times(READ_ONLY, 'read-only database'),
        ...times(FULL, 'no free connections'),
        ...times(LOCKS, 'held lock'),
      ]);
      for (const kind of kinds) {
        await sleep(Math.random() * 300);
        await incidents.cause(kind);
      }
    });
    await traffic.stop();

    for (const figures of incidents.figures()) report(figures);
    report({
      requests: traffic.count,
      'failed requests': traffic.failures.length,
      'acknowledged animals': writers.acknowledged.size,
      'unknown outcomes': writers.ambiguous.size,
      repetitions: writers.repeats,
      'final pages': followers.reduce((sum, { pages }) => sum + pages, 0),
      'exact windows': takers.check(),
    });
    expect(incidents.unexplained()).toEqual([]);
    expect(incidents.slowestResponse()).toBeLessThan(LONGEST_RESPONSE_MS);
    expect(writers.ambiguous.size).toBeGreaterThan(0);
    for (const server of servers) expectOnlyOutages(server);
    const pets = await listAllPets({ url: servers[0]?.url ?? '', key });
    writers.check(pets);
    for (const follower of followers) {
      follower.checkIds(pets);
      await follower.checkPages();
    }
  },
  600_000 + KILLS * 20_000,
);
