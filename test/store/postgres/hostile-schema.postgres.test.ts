import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hashKey } from '../../../src/store/keys.ts';
import { pendingSql } from '../../../src/store/postgres/schema.ts';
import { databaseLocation, openDatabase } from '../../helpers/postgres/backends.ts';
import { SUPERUSER } from '../../helpers/postgres/databases.ts';
import { findPostgres } from '../../helpers/postgres/programs.ts';
import {
  connectTo,
  freshDatabase,
  hasPgbouncer,
  sharedCluster,
  startPgbouncer,
} from '../../helpers/postgres.ts';
import { allTexts, animal, idempotency, seedOf } from '../../helpers/store-fixtures.ts';

// Functions and operators of other schemas must not replace those of PostgreSQL, whatever search_path a role has.

const nameOf = (url: string) => new URL(url).pathname.slice(1);

/** Functions that fit calls better than those of PostgreSQL, or are found first, with their parameters and results. */
const FUNCTIONS: [name: string, parameters: string, type: string, result: string][] = [
  ['pg_advisory_xact_lock', 'int', 'int', '$1'],
  ['pg_advisory_xact_lock', 'bigint', 'bigint', '$1'],
  ['array_to_string', 'text[], text', 'text', `'{"id":666}'`],
  ['concat', 'uuid, uuid, uuid', 'uuid', '$1'],
  ['encode', 'bytea, text', 'text', "repeat('0', 64)"],
  ['sha256', 'text', 'text', '$1'],
  ['octet_length', 'bytea', 'int', '16'],
  ['current_setting', 'text', 'text', '$1'],
  ['set_config', 'text, text, boolean', 'text', '$1'],
  ['quote_ident', 'name', 'text', '$1::text'],
  ['clock_timestamp', '', 'timestamptz', 'to_timestamp(0)'],
  ['pg_is_in_recovery', '', 'boolean', 'false'],
];
/** Operators, with the type of both operands. */
const OPERATORS = [
  ...['uuid', 'bigint', 'bytea', 'text', 'name'].map((type) => [type, '=']),
  ...[
    ['bigint', '>'],
    ['timestamptz', '>'],
    ['int', '>='],
  ],
];

/** Records its user. It would run with the rights of the user of the statement. */
const trap = (name: string, parameters: string, type: string, result: string) =>
  `create function public.${name}(${parameters}) returns ${type} language plpgsql
    as $$ begin insert into public.trapped values (current_user::text); return ${result}; end $$;`;

const HOSTILE = `
create table public.trapped (name text);
grant all on public.trapped to public;
${FUNCTIONS.map((each) => trap(...each)).join('')}
${OPERATORS.map(
  ([type, operator], i) => `${trap(`trap_${i}`, `${type}, ${type}`, 'boolean', 'true')}
    create operator public.${operator} (leftarg = ${type}, rightarg = ${type}, function = public.trap_${i});`,
).join('')}
grant execute on all functions in schema public to public;
`;

/** A database in which another user has prepared traps, which every user finds before the objects of PostgreSQL. */
async function hostileDatabase() {
  const url = await freshDatabase();
  const { sql } = sharedCluster();
  await sql(nameOf(url), HOSTILE);
  await sql('postgres', `alter database ${nameOf(url)} set search_path = public, pg_catalog`);
  const trapped = () => sql(nameOf(url), 'set search_path = pg_catalog; select * from public.trapped');
  return { url, trapped };
}

test('the traps work: a statement without a search_path runs them', async () => {
  const { url, trapped } = await hostileDatabase();
  const client = await connectTo(url);
  await client.query('select pg_advisory_xact_lock(1)');
  await client.query(`select from pg_namespace where nspname = 'public'::name`);
  const { rowCount: schemas } = await client.query('select from pg_catalog.pg_namespace');
  expect(await trapped()).toHaveLength(1 + Number(schemas));
});

test('an administrator who runs the printed SQL with psql runs no code of another user', async () => {
  const { url, trapped } = await hostileDatabase();
  const client = await connectTo(url);
  const location = await databaseLocation(url);
  const sql = (await location.pendingSql()) ?? '';
  expect(sql).toMatch(/^begin;\nset local search_path = pg_catalog, pg_temp;\n/);
  const program = join(findPostgres()?.directory ?? '', 'psql');
  const target = sharedCluster().url(nameOf(url), SUPERUSER);
  const { status, stderr } = spawnSync(program, ['-X', '-v', 'ON_ERROR_STOP=1', target], {
    input: sql,
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  await client.query('set search_path = pg_catalog');
  expect(await pendingSql(client)).toBe('');
  expect(await trapped()).toEqual([]);
});

describe.each([
  ['directly', false],
  ...(hasPgbouncer() ? [['through pgbouncer', true] as const] : []),
] as const)('connected %s, a server and every command', (_, hasPooler) => {
  test('run no code of another user, and do their work', async () => {
    const { url, trapped } = await hostileDatabase();
    const place = hasPooler ? `${(await startPgbouncer(sharedCluster())).url(nameOf(url))}?prepare=off` : url;
    const location = await databaseLocation(place);
    await location.migrate();
    const created = await location.manageKeys((keys) => keys.create({ name: 'till', plan: 'pro' }));
    const bans = { after: 1, milliseconds: 60_000 };
    const { store, keys, limiter, reset, banCounts } = await openDatabase(place, { bans });
    expect(await store.seed(seedOf(1n, 2n))).toBe(true);
    await store.add({ pet: animal('a'), idempotency: idempotency('k') });
    expect(await store.add({ pet: animal('a'), idempotency: idempotency('k') })).toMatchObject({
      kind: 'replayed',
    });
    await store.add({ pet: animal('b') });
    expect(await allTexts(store)).toHaveLength(4);
    expect(await store.get(3n)).toContain('"name":"a"');
    expect(await store.orders()).toEqual([]);
    expect(await store.size()).toBe(4);
    await store.checkWritable();
    expect(await keys.find(hashKey(created.key))).toMatchObject({ name: 'till' });
    const quota = { perMinute: 1, perDay: 1 };
    const caller = hashKey('a');
    await limiter.take(caller, quota);
    expect(await limiter.take(caller, quota)).toMatchObject({ retryAt: expect.any(Number) });
    expect(await limiter.usage([caller])).toMatchObject([{ day: { used: 1 } }]);
    expect(await banCounts()).toEqual({ begun: 0, active: 0 });
    expect((await location.check()).animals).toBe(4);
    await reset(seedOf(7n));
    expect(await store.size()).toBe(1);
    await location.manageKeys((manager) => manager.revoke('till'));
    expect(await location.manageKeys((manager) => manager.list())).toEqual([]);
    expect(await trapped()).toEqual([]);
  });
});
