import { expect, test } from 'vitest';
import { freshMachine, serve } from '../helpers/pets.ts';
import { createKey } from '../helpers/postgres/fleet.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { parseMetrics } from '../helpers/prometheus.ts';

test('GET /metrics shows the calls of a database and its connections', async () => {
  const url = await freshDatabase();
  const key = await createKey(url, { name: 'till', plan: 'enterprise' });
  const service = await serve(await freshMachine(), ['--data', url, '--no-profile']);
  const listed = await fetch(`${service.url}/pets`, { headers: { Authorization: `Bearer ${key}` } });
  expect(listed.status).toBe(200);
  const metrics = parseMetrics(await (await fetch(new URL('/metrics', service.url))).text());
  const { pets_database_call_duration_seconds: calls, pets_database_connections: connections } = metrics;
  expect(calls?.type).toBe('histogram');
  // The label `call` is the name of an SQL function. It contains no data of animals or keys.
  for (const name of ['take', 'read_pages']) {
    expect(calls?.samples, name).toMatchObject({ [`call="${name}"_count`]: 1 });
  }
  expect(Object.keys(connections?.samples ?? {}).sort()).toEqual([
    'state="busy"',
    'state="idle"',
    'state="opening"',
  ]);
});
