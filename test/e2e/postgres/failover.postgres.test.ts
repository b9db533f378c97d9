import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { createKey, expectOnlyOutages, startFleet } from '../../helpers/postgres/fleet.ts';
import { Follower } from '../../helpers/postgres/followers.ts';
import { Traffic } from '../../helpers/postgres/traffic.ts';
import { Writers } from '../../helpers/postgres/writers.ts';
import { movableAddress, startCluster, startSynchronousReplica } from '../../helpers/postgres.ts';
import { report } from '../../helpers/report.ts';

// `npm run soak` causes more failovers.
const FAILOVERS = Number(process.env['PETS_POSTGRES_FAILOVERS'] ?? 1);
const WRITERS = 8;

test(
  `${FAILOVERS} failovers to a synchronous replica under load lose no acknowledged animal`,
  async () => {
    let primary = await startCluster();
    const address = await movableAddress(primary);
    const database = new URL(await primary.createDatabase()).pathname.slice(1);
    let replica = await startSynchronousReplica(primary);
    const url = address.url(database);
    const servers = await startFleet(url);
    const key = await createKey(url, { name: 'load', plan: 'enterprise' });

    const traffic = new Traffic(servers, key);
    const writers = new Writers(traffic);
    for (let i = 0; i < WRITERS; i++) writers.start(i % 2 === 0);
    const follower = new Follower(traffic, 20);
    follower.start();
    const recoveries: number[] = [];
    await traffic.during(async () => {
      for (let failover = 1; failover <= FAILOVERS; failover++) {
        const before = writers.acknowledged.size;
        await expect.poll(() => writers.acknowledged.size).toBeGreaterThan(before + 20);
        await sleep(Math.random() * 300);
        await primary.kill9();
        await replica.promote();

        address.moveTo(replica);
        const moved = performance.now();
        for (const server of servers.keys()) {
          while ((await writers.add(server))?.status !== 201) await sleep(10);
        }
        recoveries.push(Math.round(performance.now() - moved));
        primary = replica;
        if (failover < FAILOVERS) replica = await startSynchronousReplica(primary);
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
