import { expect, test } from 'vitest';
import { createKey, type FleetServer, startFleet } from '../../helpers/postgres/fleet.ts';
import { underLoad } from '../../helpers/postgres/load.ts';
import { startCluster } from '../../helpers/postgres.ts';

test.each([
  [3, 3],
  [3, 8],
])('%i servers with %i connections together are ready, and serve all requests', async (size, connections) => {
  const cluster = await startCluster();
  const url = await cluster.createDatabase();
  const key = await createKey(url, { name: 'load', plan: 'enterprise' });
  // A server needs its connection before the next one starts, because a start uses one more for a moment.
  await cluster.sql('postgres', `alter role pets connection limit ${connections}`);
  const servers: FleetServer[] = [];
  for (let i = 0; i < size; i++) servers.push(...(await startFleet(url, 1)));
  const failures = await underLoad(servers, key, async ({ traffic, untilAdded }) => {
    for (const server of servers.keys())
      traffic.repeat(async () => void (await traffic.send(server, '/readyz')), 50);
    await untilAdded(200);
  });
  expect(failures).toEqual([]);
  for (const server of servers) expect(server.stderr()).toBe('');
});
