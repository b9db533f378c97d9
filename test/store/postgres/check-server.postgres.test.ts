import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../helpers/postgres/backends.ts';
import { SUPERUSER } from '../../helpers/postgres/databases.ts';
import { freshDatabase, sharedCluster } from '../../helpers/postgres.ts';

test('a database with another encoding is refused, and the hint says how to create one', async () => {
  const { sql, url } = sharedCluster();
  await sql(
    'postgres',
    "create database latin encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0",
  );
  onTestFinished(() => sql('postgres', 'drop database latin').then(() => {}));
  await expect(openDatabase(url('latin', SUPERUSER))).rejects.toMatchObject({
    message: expect.stringContaining('the database has the encoding LATIN1'),
    hint: expect.stringContaining("ENCODING 'UTF8'"),
  });
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
