import { expect, test } from 'vitest';
import { freshMachine, serve } from '../helpers/pets.ts';
import { createKey } from '../helpers/postgres/fleet.ts';
import { freshDatabase, sharedCluster } from '../helpers/postgres.ts';
import { parseMetrics } from '../helpers/prometheus.ts';

test('GET /metrics shows the calls of a database, its connections, and how many were replaced', async () => {
  const url = await freshDatabase();
  const key = await createKey(url, { name: 'till', plan: 'enterprise' });
  const service = await serve(await freshMachine(), ['--data', url, '--no-profile']);
  const metrics = async () => parseMetrics(await (await fetch(new URL('/metrics', service.url))).text());
  const list = () => fetch(`${service.url}/pets`, { headers: { Authorization: `Bearer ${key}` } });

  expect((await list()).status).toBe(200);
  const { pets_database_call_duration_seconds: calls, ...others } = await metrics();
  expect(calls?.type).toBe('histogram');
  // The label `call` is the name of an SQL function. It contains no data of animals or keys.
  for (const name of ['take', 'read_pages']) {
    expect(calls?.samples, name).toMatchObject({ [`call="${name}"_count`]: 1 });
  }
  const { samples } = others['pets_database_connections'] ?? {};
  expect(Object.keys(samples ?? {}).sort()).toEqual(['state="busy"', 'state="idle"', 'state="opening"']);
  expect(others['pets_database_reconnects_total']?.samples).toEqual({ '': 0 });

  await sharedCluster().sql(
    'postgres',
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${new URL(url).pathname.slice(1)}'`,
  );
  await expect.poll(async () => (await list()).status).toBe(200);
  const { pets_database_reconnects_total: reconnects } = await metrics();
  expect(reconnects?.samples['']).toBeGreaterThan(0);
});
