import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hashKey } from '../../../src/store/keys.ts';
import { pendingSql } from '../../../src/store/postgres/database.ts';
import { CALLS, databaseLocation, openDatabase } from '../../helpers/postgres/backends.ts';
import { SUPERUSER } from '../../helpers/postgres/databases.ts';
import { findPostgres } from '../../helpers/postgres/programs.ts';
import { connectTo, freshDatabase, sharedCluster } from '../../helpers/postgres.ts';
import { allTexts } from '../../helpers/store-fixtures.ts';

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
  ['bigint', '>'],
  ['timestamptz', '>'],
  ['int', '>='],
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
  await (await connectTo(url)).query('select pg_advisory_xact_lock(1)');
  expect(await trapped()).toHaveLength(1);
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

test('a server and every command run no code of another user, and do their work', async () => {
  const { url, trapped } = await hostileDatabase();
  const location = await databaseLocation(url);
  await location.migrate();
  const { key } = await location.manageKeys((keys) => keys.create({ name: 'till', plan: 'pro' }));
  const backend = await openDatabase(url, { bans: { after: 1, milliseconds: 60_000 } });
  for (const call of Object.values(CALLS)) await call(backend, hashKey(key));
  expect(await allTexts(backend.store)).toHaveLength(1);
  expect(await backend.banCounts()).toEqual({ begun: 0, active: 0 });
  expect((await location.check()).animals).toBe(1);
  await location.manageKeys((manager) => manager.revoke('till'));
  expect(await location.manageKeys((manager) => manager.list())).toEqual([]);
  expect(await trapped()).toEqual([]);
});
