import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { report } from '../../helpers/cases.ts';
import { createKey, startFleet } from '../../helpers/postgres/fleet.ts';
import { underLoad } from '../../helpers/postgres/load.ts';
import { movableAddress, startCluster, startSynchronousReplica, USER } from '../../helpers/postgres.ts';

// `npm run soak` causes more failovers.
const FAILOVERS = Number(process.env['PETS_POSTGRES_FAILOVERS'] ?? 1);

/**
 * The primary server is killed, or it freezes and later accepts writes again, as if no replica had been promoted.
 * The address of the database moves to the new primary server, or the URL contains the addresses of both servers.
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

    const failures = await underLoad(servers, key, async (load) => {
      const { acknowledged, ambiguous, untilAdded } = load;
      for (let failover = 1; failover <= FAILOVERS; failover++) {
        await untilAdded(20);
        await sleep(Math.random() * 300);
        if (failure === 'is killed') await primary.kill9();
        else {
          await primary.pause();
          await load.untilReadyz(503);
        }
        await replica.promote();
        if (!hasSeveralHosts) addresses[0]?.moveTo(replica);
        await load.untilAllWork();
        primary.resume();
        await untilAdded(20);
        const old = primary;
        primary = replica;
        if (failover === FAILOVERS) continue;
        await old.kill9();
        replica = await startSynchronousReplica(primary);
        if (hasSeveralHosts) addresses[(failover - 1) % 2]?.moveTo(replica);
      }
      report({ 'acknowledged animals': acknowledged.size, 'unknown outcomes': ambiguous.size });
    });
    expect(['503 storage_unreachable', '503 unavailable']).toEqual(expect.arrayContaining(failures));
    expect(failures).toContain('503 storage_unreachable');
  },
  600_000 + FAILOVERS * 60_000,
);
