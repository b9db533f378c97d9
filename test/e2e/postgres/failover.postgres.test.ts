import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { createKey, expectOnlyOutages, startFleet } from '../../helpers/postgres/fleet.ts';
import { Follower } from '../../helpers/postgres/followers.ts';
import { Traffic } from '../../helpers/postgres/traffic.ts';
import { Writers } from '../../helpers/postgres/writers.ts';
import { movableAddress, startCluster, startSynchronousReplica, USER } from '../../helpers/postgres.ts';
import { report } from '../../helpers/report.ts';

// `npm run soak` causes more failovers.
const FAILOVERS = Number(process.env['PETS_POSTGRES_FAILOVERS'] ?? 1);
const WRITERS = 8;

/**
 * The primary server is killed, or it freezes and later accepts writes again, as if it did not know of the promotion. The
 * address of the database moves to the new primary server, or the URL contains the addresses of both servers.
 */
type Case = [failure: 'is killed' | 'freezes', url: 'an address that moves' | 'two hosts'];

test.each<Case>([
  ['is killed', 'an address that moves'],
  ['is killed', 'two hosts'],
  ['freezes', 'two hosts'],
])(
  `${FAILOVERS} failovers under load, when the primary server %s, lose no acknowledged animal with %s`,
  async (failure, kind) => {
    let primary = await startCluster();
    const name = new URL(await primary.createDatabase()).pathname.slice(1);
    let replica = await startSynchronousReplica(primary);
    const addresses = await Promise.all([primary, replica].map((server) => movableAddress(server)));
    const hosts = addresses.map(({ port }) => `127.0.0.1:${port}`);
    const hasSeveralHosts = kind === 'two hosts';
    const url = `postgres://${USER}@${hasSeveralHosts ? hosts.reverse() : hosts[0]}/${name}`;
    const servers = await startFleet(url);
    const key = await createKey(url, { name: 'load', plan: 'enterprise' });

    const traffic = new Traffic(servers, key);
    const writers = new Writers(traffic);
    for (let i = 0; i < WRITERS; i++) writers.start(i % 2 === 0);
    const follower = new Follower(traffic, 20);
    follower.start();
    const untilAdded = async (count: number) => {
      const before = writers.acknowledged.size;
      while (writers.acknowledged.size < before + count) await sleep(10);
    };
    const recoveries: number[] = [];
    await traffic.during(async () => {
      for (let failover = 1; failover <= FAILOVERS; failover++) {
        await untilAdded(20);
        await sleep(Math.random() * 300);
        if (failure === 'is killed') await primary.kill9();
        else {
          await primary.pause();
          for (const server of servers.keys())
            while ((await traffic.send(server, '/readyz'))?.status !== 503) await sleep(10);
        }
        await replica.promote();
        if (!hasSeveralHosts) addresses[0]?.moveTo(replica);
        const promoted = performance.now();
        for (const server of servers.keys()) {
          while ((await writers.add(server))?.status !== 201) await sleep(10);
        }
        recoveries.push(Math.round(performance.now() - promoted));
        primary.resume();
        await untilAdded(20);
        const old = primary;
        primary = replica;
        if (failover === FAILOVERS) continue;
        await old.kill9();
        replica = await startSynchronousReplica(primary);
        if (hasSeveralHosts) addresses[(failover - 1) % 2]?.moveTo(replica);
      }
    });
    await traffic.stop();

    report({
      failovers: FAILOVERS,
      'slowest recovery': Math.max(...recoveries),
      'acknowledged animals': writers.acknowledged.size,
      'unknown outcomes': writers.ambiguous.size,
      'failed requests': traffic.failures.length,
    });
    expect(new Set(traffic.failures.map(({ code }) => code))).toEqual(new Set(['unavailable']));
    for (const server of servers) expectOnlyOutages(server);
    const pets = await listAllPets({ url: servers[0]?.url ?? '', key });
    writers.check(pets);
    follower.checkIds(pets);
    await follower.checkPages();
  },
  600_000 + FAILOVERS * 60_000,
);
