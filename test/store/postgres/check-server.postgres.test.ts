import { expect, test } from 'vitest';
import { StoreError } from '../../../src/store/errors.ts';
import { checkServer, type SchemaClient } from '../../../src/store/postgres/schema.ts';
import { openDatabase } from '../../helpers/postgres/backends.ts';
import { freshDatabase, sharedCluster } from '../../helpers/postgres.ts';

/** A fake client of a database server. */
const clientOf = (version: string, encoding: string) =>
  ({ query: async () => ({ rows: [{ version, encoding }] }) }) as unknown as SchemaClient;

test.each([
  ['14.9', 'UTF8', 'the database server has version 14.9'],
  ['17.2', 'SQL_ASCII', 'the database has the encoding SQL_ASCII'],
])('refuses version %s with encoding %s', async (version, encoding, message) => {
  const error = await checkServer(clientOf(version, encoding)).catch((reason) => reason);
  expect(error).toBeInstanceOf(StoreError);
  expect(error.message).toContain(message);
});

test.each(['15.0', '17.2 (Debian 17.2-1)'])('accepts version %s', async (version) => {
  await checkServer(clientOf(version, 'UTF8'));
});

test('a server does not start if its role has another isolation level, and the hint says how to change that', async () => {
  const url = await freshDatabase();
  const name = new URL(url).pathname.slice(1);
  const set = `alter database ${name} set default_transaction_isolation = 'serializable'`;
  await sharedCluster().sql('postgres', set);
  await expect(openDatabase(url)).rejects.toMatchObject({
    message: expect.stringContaining('need the isolation level READ COMMITTED'),
    hint: expect.stringContaining('ALTER ROLE'),
  });
});
