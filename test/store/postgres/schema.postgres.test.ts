import type { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { StoreError } from '../../../src/store/errors.ts';
import { hashKey } from '../../../src/store/keys.ts';
import {
  pendingSql,
  readIdentity,
  SCHEMA_VERSION,
  type StoreIdentity,
} from '../../../src/store/postgres/database.ts';
import { CALLS, databaseLocation, openDatabase } from '../../helpers/postgres/backends.ts';
import { PASSWORD, SUPERUSER, USER_WITH_PASSWORD } from '../../helpers/postgres/databases.ts';
import { createSchema, untilBlocked } from '../../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase, sharedCluster } from '../../helpers/postgres.ts';

const databaseOf = (url: string) => new URL(url).pathname.slice(1);

async function migrateAndIdentify(client: Client): Promise<StoreIdentity> {
  await createSchema(client);
  return readIdentity(client, 'here');
}

test('creates a store once, with a random secret', async () => {
  const client = await connectTo(await freshDatabase());
  await expect(readIdentity(client, 'here')).rejects.toThrow('there is no store in here');
  const identity = await migrateAndIdentify(client);
  expect(identity.id).toMatch(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/);
  expect(identity.secret).toMatch(/^[0-9a-f]{64}$/);
  expect(await migrateAndIdentify(client)).toEqual(identity);
  const other = await migrateAndIdentify(await connectTo(await freshDatabase()));
  expect(other.id).not.toBe(identity.id);
  expect(other.secret).not.toBe(identity.secret);
});

test('three servers that start at the same time create one store', async () => {
  const url = await freshDatabase();
  const [lock, observer] = [await connectTo(url), await connectTo(url)];
  await lock.query(`begin; select pg_advisory_xact_lock(${0x70_65_74_73})`);
  const clients = await Promise.all([1, 2, 3].map(() => connectTo(url)));
  const starts = Promise.all(clients.map(migrateAndIdentify));
  // All three have seen that the schema is missing.
  await untilBlocked(observer, 3);
  await lock.query('commit');
  const [first, ...others] = await starts;
  expect(others).toEqual([first, first]);
});

test.each([
  ['an older', SCHEMA_VERSION - 1],
  ['a newer', SCHEMA_VERSION + 1],
])('a store of %s version is refused and unchanged', async (_, version) => {
  const client = await connectTo(await freshDatabase());
  await createSchema(client);
  await client.query(`update pets.meta set version = ${version}; drop table pets.orders`);
  for (const refused of [createSchema, pendingSql, readIdentity]) {
    const error = await refused(client, 'here').catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreError);
    expect(error.message).toContain('but this version of pets needs');
    expect(error.hint).toContain('drop schema pets cascade');
  }
  await expect(client.query('select from pets.orders')).rejects.toThrow('does not exist');
});

test('a server with the documented privileges can do everything that a server does', async () => {
  const url = await freshDatabase();
  const owner = await connectTo(url);
  const identity = await migrateAndIdentify(owner);
  await owner.query(`
    grant usage on schema pets to ${USER_WITH_PASSWORD};
    grant select, insert, update, delete on all tables in schema pets to ${USER_WITH_PASSWORD}`);
  const role = `${USER_WITH_PASSWORD}:${encodeURIComponent(PASSWORD)}`;
  const place = sharedCluster().url(databaseOf(url), role);
  await sharedCluster().sql('postgres', `revoke create on database ${databaseOf(url)} from public`);
  const backend = await openDatabase(place);
  expect(backend.store.id).toBe(identity.id);
  const location = await databaseLocation(place);
  const { key } = await location.manageKeys((keys) => keys.create({ name: 'a', plan: 'free' }));
  for (const call of Object.values(CALLS)) await call(backend, hashKey(key));
  await location.manageKeys((keys) => keys.revoke('a'));
  expect(await backend.banCounts()).toMatchObject({ active: 0 });
});

test('a database with another encoding is refused, and the hint says how to create one', async () => {
  const { sql, url } = sharedCluster();
  const options = "encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0";
  await sql('postgres', `create database latin ${options}`);
  onTestFinished(() => sql('postgres', 'drop database latin').then(() => {}));
  await expect(openDatabase(url('latin', SUPERUSER))).rejects.toMatchObject({
    message: expect.stringContaining('the database has the encoding LATIN1'),
    hint: expect.stringContaining("ENCODING 'UTF8'"),
  });
});
