import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { SCHEMA_VERSION } from '../../../src/store/postgres/database.ts';
import { freshStore, storeIdOf } from '../../helpers/postgres/store-schema.ts';
import { startCluster } from '../../helpers/postgres.ts';

/** How many blocks of 8 kB a query reads. */
async function blocksOf(client: Client, query: string): Promise<number> {
  const { rows } = await client.query(`explain (analyze, buffers, format json) ${query}`);
  const { Plan: plan } = rows[0]['QUERY PLAN'][0];
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
}

const FINGERPRINT = 'substring(sha256(random()::text::bytea), 1, 16)';
/** The calls of servers. `store` stands for the first two parameters. */
const CALLS = [
  `select * from pets.read_pages(store, '{2}', '{1}', '{20}')`,
  `select * from pets.read_pages(store, '{2}', '{100001}', '{20}')`,
  `select * from pets.read_pages(store, '{1}', '{1}', '{20}')`,
  `select * from pets.read_pages(store, '{0}', '{100001}', '{20}')`,
  `select * from pets.read_pages(store, '{null}', '{100001}', '{20}')`,
  `select n from pets.create_animals(store, '{0}', '{x}', '{null}', '{null}')`,
  `select n from pets.create_animals(store, '{0}', '{x}', array[${FINGERPRINT}], array[${FINGERPRINT}])`,
  ...[0, 1, 9].map(
    (count) =>
      `select n from pets.take(store, array[sha256('1'), sha256('2')], '{${count},1}', '{9,9}', '{9,9}', 10, 1000)`,
  ),
  `select pets.lift_ban(store, sha256('1'))`,
  'select pets.check_store(store)',
];

test('all calls read few blocks among many rows, with plans that a session made while the tables were empty or full', async () => {
  // On a server of its own: other tests on the shared one drop schemas, after which PostgreSQL makes all sessions read
  // the catalogs again. These blocks would count, too.
  const { client, connect } = await freshStore((await startCluster()).createDatabase());
  const late = await connect();
  const id = await storeIdOf(client);
  const calls = CALLS.map((call) => call.replace('(store', `('${id}', ${SCHEMA_VERSION}`));
  await client.query('analyze');
  // This session plans while the tables are empty, and keeps the plans.
  for (let i = 0; i < 10; i++) for (const call of calls) await client.query(call);
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
  for (const call of calls) expect(await blocksOf(client, call), call).toBeLessThan(100);
  await client.query('vacuum analyze');
  for (const session of [client, late]) {
    for (const call of calls) await session.query(call);
    for (const call of calls) expect(await blocksOf(session, call), call).toBeLessThan(100);
  }
});
