import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { StoreDamagedError, StoreError, StoreVersionError } from '../../../src/store/errors.ts';
import {
  migrate,
  pendingSql,
  readIdentity,
  type StoreIdentity,
} from '../../../src/store/postgres/schema/migrate.ts';
import { SCHEMA_STEPS } from '../../../src/store/postgres/schema/schema.ts';
import { SUPERUSER } from '../../helpers/postgres/databases.ts';
import { findPostgres } from '../../helpers/postgres/programs.ts';
import { create, take } from '../../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase, sharedCluster } from '../../helpers/postgres.ts';

const databaseOf = (url: string) => new URL(url).pathname.slice(1);

/** Runs statements in the database as a superuser. */
const asSuperuser = (url: string, sql: string) => sharedCluster().sql(databaseOf(url), sql);

/** Steps after the first one. Each adds a table, and needs a server that knows the step `oldest`. */
const laterStep = (table: string, oldest: number) => ({ sql: `create table pets.${table} ();`, oldest });
const [one] = SCHEMA_STEPS;
const steps = [...(one ? [one] : []), laterStep('second', 1), laterStep('third', 2)];

async function tables(client: Client): Promise<string[]> {
  const { rows } = await client.query(
    `select relname from pg_class where relnamespace = to_regnamespace('pets') and relkind = 'r'`,
  );
  return rows.map(({ relname }) => relname);
}

/** Migrates the schema, and returns which store the database contains. */
async function migrateAndIdentify(client: Client, toSteps = SCHEMA_STEPS): Promise<StoreIdentity> {
  await migrate(client, toSteps);
  return readIdentity(client, toSteps);
}

test('creates a store once, with a random secret', async () => {
  const client = await connectTo(await freshDatabase());
  await expect(readIdentity(client)).rejects.toThrow('the database contains no store');
  const identity = await migrateAndIdentify(client);
  expect(identity.id).toMatch(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/);
  expect(identity.secret).toMatch(/^[0-9a-f]{64}$/);
  expect(await migrateAndIdentify(client)).toEqual(identity);
  expect(await readIdentity(client)).toEqual(identity);
  const other = await migrateAndIdentify(await connectTo(await freshDatabase()));
  expect(other.id).not.toBe(identity.id);
  expect(other.secret).not.toBe(identity.secret);
});

test('three servers that start at the same time create one store', async () => {
  const url = await freshDatabase();
  const lock = await connectTo(url);
  const clients = await Promise.all([connectTo(url), connectTo(url), connectTo(url)]);
  await lock.query(`begin; select pg_advisory_xact_lock(${0x70_65_74_73})`);
  let settled = 0;
  const starts = clients.map((client) => migrateAndIdentify(client).finally(() => settled++));
  const results = Promise.all(starts);
  // All of them have seen that the schema is missing.
  for (let waiting = 0; waiting < 3 && settled === 0; await sleep(5)) {
    const { rows } = await lock.query(
      `select from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`,
    );
    waiting = rows.length;
  }
  await lock.query('commit');
  const [first, second, third] = await results;
  expect(second).toEqual(first);
  expect(third).toEqual(first);
});

test('a migration that cannot get the lock fails, and changes nothing', async () => {
  const url = await freshDatabase();
  const [lock, client] = [await connectTo(url), await connectTo(url)];
  await lock.query(`begin; select pg_advisory_xact_lock(${0x70_65_74_73})`);
  await expect(migrate(client)).rejects.toThrow('another program is changing it');
  expect(await tables(client)).toEqual([]);
});

test('a failed step leaves the database as it was', async () => {
  const client = await connectTo(await freshDatabase());
  const broken = [...steps, { sql: 'create table pets.fourth (); select 1 / 0;', oldest: 1 }];
  await expect(migrate(client, broken)).rejects.toMatchObject({ code: '22012' });
  expect(await tables(client)).toEqual([]);
  const identity = await migrateAndIdentify(client);
  await expect(migrate(client, broken)).rejects.toMatchObject({ code: '22012' });
  expect(await tables(client)).not.toContain('second');
  expect(await readIdentity(client)).toEqual(identity);
});

test('a newer server applies only the missing steps, and keeps the store', async () => {
  const client = await connectTo(await freshDatabase());
  const identity = await migrateAndIdentify(client);
  await create(client, [{}]);
  await expect(readIdentity(client, steps)).rejects.toThrow('has version 1, but this version of pets needs');
  expect(await migrateAndIdentify(client, steps)).toEqual(identity);
  const { rows } = await client.query('select version, oldest from pets.schema_version order by version');
  expect(rows).toEqual([
    { version: 1, oldest: 1 },
    { version: 2, oldest: 1 },
    { version: 3, oldest: 2 },
  ]);
  expect(await tables(client)).toEqual(expect.arrayContaining(['second', 'third']));
});

test('an older server works until a step needs a newer one', async () => {
  const client = await connectTo(await freshDatabase());
  const identity = await migrateAndIdentify(client, steps);
  expect(await migrateAndIdentify(client, steps.slice(0, 2))).toEqual(identity);
  expect(await pendingSql(client, steps.slice(0, 2))).toBe('');
  for (const refused of [migrate, pendingSql, readIdentity]) {
    const error = await refused(client, steps.slice(0, 1)).catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreVersionError);
    expect(error.message).toContain('needs a server that knows version 2; this version of pets knows 1');
  }
});

test('a store without its version is damaged', async () => {
  const client = await connectTo(await freshDatabase());
  await migrate(client);
  await client.query('delete from pets.schema_version');
  for (const refused of [migrate, pendingSql, readIdentity]) {
    const error = await refused(client).catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreDamagedError);
    expect(error.message).toBe('the table pets.schema_version is empty');
  }
});

test('a store without its identity is damaged', async () => {
  const client = await connectTo(await freshDatabase());
  await migrate(client);
  await client.query('delete from pets.meta');
  await expect(migrate(client)).rejects.toBeInstanceOf(StoreDamagedError);
});

test('the output of a dry run does in psql what a server would do, also for its privileges', async () => {
  const url = await freshDatabase();
  await asSuperuser(url, `revoke create on database ${databaseOf(url)} from public`);
  const client = await connectTo(url);
  const error = await migrate(client).catch((reason) => reason);
  expect(error).toBeInstanceOf(StoreError);
  expect(error.message).toBe(
    `cannot change the schema pets: permission denied for database ${databaseOf(url)}`,
  );
  expect(error.hint).toContain('pets store migrate --dry-run');

  await runPsql(url, await pendingSql(client));
  expect(await pendingSql(client)).toBe('');
  const identity = await migrateAndIdentify(client);
  expect(await create(client, [{ key: 'a' }])).toEqual([
    { kind: 'added', response: '{"id":1,"name":"Rex"}' },
  ]);
  expect(await take(client, [{ caller: 'a', count: 1 }])).toMatchObject([{ granted: 1 }]);

  await expect(migrate(client, steps)).rejects.toBeInstanceOf(StoreError);
  await runPsql(url, await pendingSql(client, steps));
  expect(await migrateAndIdentify(client, steps)).toEqual(identity);
  expect((await client.query('select from pets.second')).rows).toEqual([]);
});

/** Runs a text with psql as a superuser. */
async function runPsql(url: string, input: string): Promise<void> {
  const program = join(findPostgres()?.directory ?? '', 'psql');
  const target = sharedCluster().url(databaseOf(url), SUPERUSER);
  const { status, stderr } = spawnSync(program, ['-X', '-v', 'ON_ERROR_STOP=1', target], {
    input,
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
}

test('a user who owns the schema needs no other privilege', async () => {
  const url = await freshDatabase();
  await asSuperuser(url, `revoke create on database ${databaseOf(url)} from public`);
  await asSuperuser(url, 'create schema pets authorization pets');
  await expect(migrate(await connectTo(url))).resolves.toEqual({ from: 0, to: 1 });
});

test('a server with the documented privileges can do everything that a server does', async () => {
  const url = await freshDatabase();
  const owner = await connectTo(url);
  const identity = await migrateAndIdentify(owner);
  await owner.query(`
    grant usage on schema pets to pets_with_password;
    grant select, insert, update, delete on all tables in schema pets to pets_with_password;
    alter default privileges in schema pets
      grant select, insert, update, delete on tables to pets_with_password`);
  await asSuperuser(url, `revoke create on database ${databaseOf(url)} from public`);
  const server = await connectTo(url);
  await asSuperuser(url, 'grant pets_with_password to pets');
  await server.query('set role pets_with_password');
  expect(await migrateAndIdentify(server)).toEqual(identity);
  await expect(migrate(server, steps)).rejects.toThrow('cannot change the schema pets: permission denied');
  await server.query(`select pets.seed_v1('{1}', '{0}', '{x}', '{x}')`);
  await server.query(`select pets.reset_v1('{1}', '{0}', '{x}', '{x}')`);
  await create(server, [{ key: 'a' }]);
  await take(server, [{ caller: 'a', count: 1 }]);
  await server.query(
    `select pets.refuse_v1(sha256('a'), 0, 0, 0, '{}', 0), pets.expire_v1(), pets.bans_v1(), pets.usage_v1('{}')`,
  );
  await server.query('select pets.page_v1(null, 1, 20), pets.get_v1(1), pets.orders_v1(), pets.size_v1()');
  await server.query(`insert into pets.keys (sha256, name, plan) values (sha256('a'), 'a', 'free')`);
  await server.query('delete from pets.keys');
  await migrate(owner, steps);
  expect(await migrateAndIdentify(server, steps)).toEqual(identity);
  expect((await server.query('select from pets.second')).rows).toEqual([]);
});

test('a start without missing steps writes nothing', async () => {
  const client = await connectTo(await freshDatabase());
  const identity = await migrateAndIdentify(client);
  await client.query('set default_transaction_read_only = on');
  expect(await migrateAndIdentify(client)).toEqual(identity);
});
