import { expect, test } from 'vitest';
import { openDatabase } from '../../helpers/postgres/backends.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';
import { animal } from '../../helpers/store-fixtures.ts';

test('reads do not wait for the check of a store that somebody has locked', async () => {
  const url = await freshDatabase();
  const { store } = await openDatabase(url);
  await store.add({ pet: animal() });
  const client = await connectTo(url);
  const isCheckWaiting = async () => {
    const { rows } = await client.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows.length > 0;
  };
  /** Whether reads that begin after a check of the locked store end before the check, which ends after 1.4 s. */
  const readDuringCheck = async () => {
    await client.query('begin; select from pets.meta for update');
    const check = store.checkWritable();
    check.catch(() => {});
    await Promise.all(Array.from({ length: 10 }, () => store.list({ limit: 1 })));
    const isWaiting = await isCheckWaiting();
    await expect(check).rejects.toThrow('lock timeout');
    await client.query('rollback');
    return isWaiting;
  };
  // On a slow machine, reads can take longer than the check.
  await expect.poll(readDuringCheck, { timeout: 20_000 }).toBe(true);
});

test('a check of the store has the result of the creations', async () => {
  const url = await freshDatabase();
  const { store } = await openDatabase(url);
  const results = await Promise.all([
    store.checkWritable(),
    store.add({ pet: animal('a') }),
    store.checkWritable(),
    store.add({ pet: animal('b') }),
  ]);
  expect(results).toMatchObject([undefined, { kind: 'added' }, undefined, { kind: 'added' }]);
  expect(await store.size()).toBe(2);
});
