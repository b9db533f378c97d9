import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { callFunction, create, freshStore, take } from '../../helpers/postgres/store-schema.ts';

const reset = (client: Client) => callFunction(client, 'reset', [1], [0], ['{"id":1,"name":"Rex"}'], []);

test('a reset and takes of several callers never wait for each other in a circle', async () => {
  const { client, connect } = await freshStore();
  const callers = Array.from({ length: 50 }, (_, i) => ({
    caller: String(i),
    count: 1,
    perMinute: 1e6,
    perDay: 1e6,
  }));
  let isDone = false;
  const takers = [callers, callers.toReversed()].map(async (all) => {
    const connection = await connect();
    while (!isDone) expect(await take(connection, all)).toHaveLength(50);
  });
  for (let i = 0; i < 50; i++) await reset(client);
  isDone = true;
  await Promise.all(takers);
});

test('a transaction that began before a reset still sees everything, as that of pg_dump does', async () => {
  const { client, connect } = await freshStore();
  await create(client, [{}, {}]);
  const reader = await connect();
  await reader.query('begin isolation level repeatable read');
  const count = async () => (await reader.query('select count(*)::int as n from pets.animals')).rows[0].n;
  expect(await count()).toBe(2);
  await reset(client);
  expect(await count()).toBe(2);
  await reader.query('commit');
  expect(await count()).toBe(1);
});
