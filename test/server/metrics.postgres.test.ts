import { expect, test } from 'vitest';
import { freshMachine, serve } from '../helpers/pets.ts';
import { createKey } from '../helpers/postgres/fleet.ts';
import { freshDatabase } from '../helpers/postgres.ts';

test('GET /metrics shows the calls of a database and its connections', async () => {
  const url = await freshDatabase();
  const key = await createKey(url, { name: 'till', plan: 'enterprise' });
  const service = await serve(await freshMachine(), ['--data', url, '--no-profile']);
  const listed = await fetch(`${service.url}/pets`, { headers: { Authorization: `Bearer ${key}` } });
  expect(listed.status).toBe(200);
  const text = await (await fetch(new URL('/metrics', service.url))).text();
  // The label `call` is the name of an SQL function. It contains no data of animals or keys.
  for (const name of ['take', 'read_pages'])
    expect(text).toContain(`\npets_database_call_duration_seconds_count{call="${name}"} 1\n`);
  for (const state of ['busy', 'idle', 'opening'])
    expect(text).toMatch(new RegExp(`^pets_database_connections\\{state="${state}"\\} \\d`, 'm'));
});
