import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { Client } from 'pg';
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

/** What a hostile function does. It would run with the rights of the user of the statement. */
const TRAP = `language plpgsql as $$ begin insert into public.trapped values (current_user::text); return $1; end $$`;

/**
 * Functions and operators that are used in place of those of PostgreSQL, because they fit calls better, or because
 * `public` is searched first. They record their users.
 */
const HOSTILE = `
create table public.trapped (name text);
grant all on public.trapped to public;
create function public.pg_advisory_xact_lock(int) returns int ${TRAP};
create function public.pg_advisory_xact_lock(bigint) returns bigint ${TRAP};
create function public.array_to_string(text[], text) returns text language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return '{"id":666}'; end $$;
create function public.concat(uuid, uuid, uuid) returns uuid ${TRAP};
create function public.encode(bytea, text) returns text language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return repeat('0', 64); end $$;
create function public.sha256(text) returns text ${TRAP};
create function public.octet_length(bytea) returns int language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return 16; end $$;
create function public.to_char(timestamp, text) returns text language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return 'x'; end $$;
create function public.current_setting(text) returns text ${TRAP};
create function public.set_config(text, text, boolean) returns text ${TRAP};
create function public.quote_ident(name) returns text language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return $1::text; end $$;
create function public.clock_timestamp() returns timestamptz language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return to_timestamp(0); end $$;
create function public.pg_is_in_recovery() returns boolean language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return false; end $$;
create function public.sum_of(bigint) returns bigint ${TRAP};
${[
  ['uuid', 'uuid', '='],
  ['bigint', 'bigint', '='],
  ['bigint', 'bigint', '>'],
  ['bytea', 'bytea', '='],
  ['text', 'text', '='],
  ['name', 'name', '='],
  ['timestamptz', 'timestamptz', '>'],
  ['int', 'int', '>='],
]
  .map(
    ([left, right, operator], i) => `
create function public.trap_${i}(${left}, ${right}) returns boolean language plpgsql
  as $$ begin insert into public.trapped values (current_user::text); return true; end $$;
create operator public.${operator} (leftarg = ${left}, rightarg = ${right}, function = public.trap_${i});`,
  )
  .join('')}
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
  expect(await trapped()).toHaveLength(2 + (await rowsOf(client, 'pg_catalog.pg_namespace')) - 1);
});

async function rowsOf(client: Client, table: string): Promise<number> {
  return (await client.query(`select from ${table}`)).rows.length;
}

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
