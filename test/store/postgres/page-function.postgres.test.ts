import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { create, freshStore } from '../../helpers/postgres/store-schema.ts';

const [AVAILABLE, PENDING, SOLD] = [0, 1, 2];
const INT64_MIN = (-(2n ** 63n)).toString();

type Page = { ids: number[]; next: number | null };

async function page(
  client: Client,
  status: number | null,
  first: number | string,
  limit: number,
): Promise<Page> {
  const { rows } = await client.query('select * from pets.page_v1($1, $2, $3)', [status, first, limit]);
  const [{ animals, next }] = rows;
  const ids = JSON.parse(`[${animals}]`).map(({ id }: { id: number }) => id);
  return { ids, next: next === null ? null : Number(next) };
}

test.each([
  ['all', null, INT64_MIN, 20, { ids: [1, 2, 3, 4, 5, 6], next: null }],
  ['all', null, 1, 2, { ids: [1, 2], next: 2 }],
  ['all', null, 3, 2, { ids: [3, 4], next: 4 }],
  ['all', null, 5, 2, { ids: [5, 6], next: null }],
  ['all', null, 7, 2, { ids: [], next: null }],
  ['available', AVAILABLE, 1, 2, { ids: [1, 3], next: 3 }],
  ['available', AVAILABLE, 4, 2, { ids: [6], next: null }],
  ['pending', PENDING, 1, 1, { ids: [2], next: 2 }],
  ['pending', PENDING, 3, 1, { ids: [5], next: null }],
  ['sold', SOLD, 1, 1, { ids: [4], next: null }],
])('a page of %s animals (status %s) from id %s, at most %i', async (_, status, first, limit, expected) => {
  const { client } = await freshStore();
  const statuses = [AVAILABLE, PENDING, AVAILABLE, SOLD, PENDING, AVAILABLE];
  await create(
    client,
    statuses.map((value) => ({ status: value })),
  );
  expect(await page(client, status, first, limit)).toEqual(expected);
});

test('a page ends with the animal that reaches 1 MiB', async () => {
  const { client } = await freshStore();
  // With its id and a comma, each animal has 2^18 bytes.
  const body = `,"name":"${'x'.repeat(2 ** 18 - 19)}"}`;
  await create(client, Array(6).fill({ body }));
  expect(await page(client, null, 1, 20)).toEqual({ ids: [1, 2, 3, 4], next: 4 });
  expect(await page(client, AVAILABLE, 2, 20)).toEqual({ ids: [2, 3, 4, 5], next: 5 });
  expect(await page(client, null, 3, 20)).toEqual({ ids: [3, 4, 5, 6], next: null });
  await create(client, [{ body: `,"name":"${'x'.repeat(2 ** 21)}"}` }]);
  expect(await page(client, null, 6, 20)).toEqual({ ids: [6, 7], next: null });
  expect(await page(client, null, 7, 20)).toEqual({ ids: [7], next: null });
});

test('an animal is found by its id', async () => {
  const { client } = await freshStore();
  await create(client, [{}]);
  const { rows } = await client.query('select pets.get_v1(1) as first, pets.get_v1(2) as second');
  expect(rows).toEqual([{ first: '{"id":1,"name":"Rex"}', second: null }]);
});

/** How many blocks of 8 kB a query reads. */
async function blocksOf(client: Client, query: string): Promise<number> {
  const { rows } = await client.query(`explain (analyze, buffers, format json) ${query}`);
  const { Plan: plan } = rows[0]['QUERY PLAN'][0];
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
}

const FINGERPRINT = 'substring(sha256(random()::text::bytea), 1, 16)';
const CALLS = [
  'select * from pets.page_v1(2::smallint, 1, 20)',
  'select * from pets.page_v1(2::smallint, 100001, 20)',
  'select * from pets.page_v1(1::smallint, 1, 20)',
  'select * from pets.page_v1(0::smallint, 100001, 20)',
  'select * from pets.page_v1(null, 100001, 20)',
  'select pets.get_v1(100001)',
  `select n from pets.create_v1('{0}', '{x}', null, null)`,
  `select n from pets.create_v1('{0}', '{x}', array[${FINGERPRINT}], array[${FINGERPRINT}])`,
  `select n from pets.take_v1(array[sha256('1'), sha256('2')], '{1,1}', '{9,9}', '{9,9}')`,
  `select n from pets.usage_v1(array[sha256('1'), sha256('2')])`,
  `select pets.refuse_v1(sha256('1'), 0, 0, 0, '{}', 0)`,
  'select pets.expire_v1()',
];

test('all calls read few blocks among many rows, with plans that a session made while the tables were empty or full', async () => {
  const { client, connect } = await freshStore();
  const late = await connect();
  await client.query('analyze');
  // This session plans while the tables are empty, and keeps the plans.
  for (let i = 0; i < 10; i++) for (const call of CALLS) await client.query(call);
  await client.query(`
    insert into pets.animals (id, status, body)
    select i, case when i % 20000 = 0 then 2 else 0 end, '{"id":' || i || '}'
    from generate_series(1000, 200999) as i`);
  await client.query(`
    insert into pets.idempotency (fingerprint, body, response, at)
    select substring(sha256(i::text::bytea), 1, 16), substring(sha256('a'), 1, 16), '', clock_timestamp()
    from generate_series(1, 50000) as i`);
  await client.query(`
    insert into pets.callers (caller) select sha256(i::text::bytea) from generate_series(1, 10000) as i
    on conflict do nothing`);
  for (const call of CALLS) expect(await blocksOf(client, call), call).toBeLessThan(100);
  await client.query('vacuum analyze');
  for (const session of [client, late]) {
    for (const call of CALLS) await session.query(call);
    for (const call of CALLS) expect(await blocksOf(session, call), call).toBeLessThan(100);
  }
});
