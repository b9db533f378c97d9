import { expect, test } from 'vitest';
import { manualClock } from '../../helpers/clock.ts';
import { connectTo, freshLocation } from '../../helpers/postgres.ts';
import { startWithTools } from '../../helpers/real-service.ts';
import { create } from '../../helpers/service.ts';

async function startOnPostgres() {
  const { url, location } = await freshLocation(manualClock());
  const real = await startWithTools({ location });
  const key = real.service().keys.addTemporary('dev', 'free');
  const add = (name: string) =>
    real.call('/pets', create(JSON.stringify({ name, categoryId: 1 }), { Authorization: `Bearer ${key}` }));
  const read = async (path: string) => (await real.use(path)).text();
  return { ...real, add, read, sql: await connectTo(url) };
}

test('the data is shown while creations and counts of requests wait for a lock', async () => {
  const { add, read, sql } = await startOnPostgres();
  expect((await add('Rex')).status).toBe(201);
  await sql.query('begin; select from pets.meta for update; select from pets.callers for update');
  const waiting = add('Mia');
  expect(JSON.parse(await read('/keys'))).toMatchObject({
    keys: [{ name: 'dev', minute: { limit: 60, used: 1 }, day: { limit: 1_000, used: 1 } }],
  });
  await sql.query('commit');
  expect((await waiting).status).toBe(201);
});

test('reading the keys stores nothing', async () => {
  const { read, sql } = await startOnPostgres();
  expect(JSON.parse(await read('/keys'))).toMatchObject({ keys: [{ minute: { used: 0 } }] });
  expect((await sql.query('select from pets.callers')).rows).toEqual([]);
});
