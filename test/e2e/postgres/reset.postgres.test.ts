import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { freshMachine, serveCommand } from '../../helpers/pets.ts';
import { createKey } from '../../helpers/postgres/fleet.ts';
import { startCluster } from '../../helpers/postgres.ts';

const KILLS = 5;

test('resets of a server that is killed leave a complete inventory, also while another server adds animals', async () => {
  const cluster = await startCluster();
  const url = await cluster.createDatabase();
  const key = await createKey(url, { name: 'till', plan: 'enterprise' });
  const machine = await freshMachine();
  const start = (...more: string[]) =>
    serveCommand(machine, ['--data', url, '--no-profile', '--seed', ...more]);
  const other = await start();
  const call = (path: string, init: RequestInit = {}) =>
    fetch(other.url + path, {
      ...init,
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...init.headers },
    });
  const reset = ({ url: base, token }: typeof other) =>
    fetch(new URL('/reset', base), { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  const idsAndOrders = async () => {
    const pets = (await (await call('/pets?limit=100')).json()) as { id: number }[];
    const orders = (await (await call('/store/orders')).json()) as unknown[];
    return { ids: pets.map(({ id }) => id), orders: orders.length };
  };
  expect((await reset(other)).status).toBe(403);

  let isDone = false;
  const statuses = new Set<number>();
  const writer = (async () => {
    while (!isDone) {
      const response = await call('/pets', { method: 'POST', body: '{"name":"Rex","categoryId":1}' });
      statuses.add(response.status);
      await response.text();
    }
  })();
  for (let kill = 0; kill < KILLS; kill++) {
    const server = await start('--resettable');
    expect((await reset(server)).status).toBe(200);
    const resets = Array.from({ length: 20 }, () => reset(server).catch(() => undefined));
    await sleep(Math.random() * 200);
    await server.end('SIGKILL');
    await Promise.all(resets);
    const { ids, orders } = await idsAndOrders();
    expect(ids).toEqual(ids.map((_, i) => i + 1));
    expect([ids.length >= 66, orders]).toEqual([true, 20]);
  }
  isDone = true;
  await writer;
  expect(statuses).toEqual(new Set([201]));
});
