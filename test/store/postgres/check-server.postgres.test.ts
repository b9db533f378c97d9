import { expect, test } from 'vitest';
import { StoreError } from '../../../src/store/errors.ts';
import { checkServer, type SchemaClient } from '../../../src/store/postgres/schema.ts';
import { openDatabase } from '../../helpers/postgres/backends.ts';
import { freshDatabase } from '../../helpers/postgres.ts';

const settings = {
  server_version: '17.2',
  server_version_num: '170002',
  server_encoding: 'UTF8',
  default_transaction_isolation: 'read committed',
  fsync: 'on',
  full_page_writes: 'on',
};

/** A fake client of a database server whose settings have these changes. */
function clientWith(changes: Partial<typeof settings>): SchemaClient {
  const rows = Object.entries({ ...settings, ...changes }).map(([name, value]) => ({ name, value }));
  const query = async () => ({ rows });
  return { query } as unknown as SchemaClient;
}

test.each([
  [{ server_version: '14.9', server_version_num: '140009' }, 'the database server has version 14.9'],
  [{ server_encoding: 'SQL_ASCII' }, 'the database has the encoding SQL_ASCII'],
  [{ default_transaction_isolation: 'serializable' }, 'the default isolation level is serializable'],
])('refuses %o', async (changes, message) => {
  const error = await checkServer(clientWith(changes)).catch((reason) => reason);
  expect(error).toBeInstanceOf(StoreError);
  expect(error.message).toContain(message);
});

test.each([
  [{}, []],
  [{ server_version: '15.0', server_version_num: '150000' }, []],
  [{ fsync: 'off', full_page_writes: 'off' }, ['fsync is off: ', 'full_page_writes is off: ']],
])('warns about %o', async (changes, beginnings) => {
  const warnings = await checkServer(clientWith(changes));
  expect(warnings).toEqual(beginnings.map((beginning) => expect.stringContaining(beginning)));
});

test('a server shows the warnings once, also if it creates the store', async () => {
  const url = await freshDatabase();
  for (const isNew of [true, false]) {
    const warnings: string[] = [];
    await openDatabase(url, { onWarning: (message) => warnings.push(message) });
    expect(warnings, `${isNew}`).toEqual([
      expect.stringContaining('fsync is off'),
      expect.stringContaining('full_page_writes is off'),
    ]);
  }
});
