import { expect, test } from 'vitest';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { createKey, startFleet } from '../../helpers/postgres/fleet.ts';
import { Traffic } from '../../helpers/postgres/traffic.ts';
import { Writers } from '../../helpers/postgres/writers.ts';
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
  const servers = [];
  for (let i = 0; i < size; i++) servers.push(...(await startFleet(url, 1)));
  const traffic = new Traffic(servers, key);
  const writers = new Writers(traffic);
  for (let i = 0; i < 6; i++) writers.start(i % 2 === 0, 5);
  for (const server of servers.keys()) {
    traffic.repeat(async () => void (await traffic.send(server, '/v1/pets?limit=5')), 5);
    traffic.repeat(async () => void (await traffic.send(server, '/readyz')), 50);
  }
  await traffic.during(() => expect.poll(() => writers.acknowledged.size).toBeGreaterThan(200));
  await traffic.stop();
  expect(traffic.failures).toEqual([]);
  for (const server of servers) expect(server.stderr()).toBe('');
  writers.check(await listAllPets({ url: servers[0]?.url ?? '', key }));
});
