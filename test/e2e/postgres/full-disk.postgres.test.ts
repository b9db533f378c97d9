import { expect, test } from 'vitest';
import { freshMachine, serveCommand } from '../../helpers/pets.ts';
import { createKey } from '../../helpers/postgres/fleet.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';

const TABLES = ['callers', 'animals', 'idempotency'];

/** Lets every new row fail, as if the disk of the database was full. */
const FILL = `
  create function pets.full() returns trigger language plpgsql
    as $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
  ${TABLES.map((table) => `create trigger full_disk before insert on pets.${table} for each row execute function pets.full();`).join('')}`;
const EMPTY = 'drop function pets.full cascade';

test('while the disk is full, creations and the first requests of a key get storage_full, as /readyz does, and the log does not grow', async () => {
  const url = await freshDatabase();
  const key = await createKey(url, { name: 'old', plan: 'enterprise' });
  const newKey = await createKey(url, { name: 'new', plan: 'enterprise' });
  const server = await serveCommand(await freshMachine(), ['--data', url, '--no-profile']);
  const send = async (path: string, authorized: string, init: RequestInit = {}) => {
    const headers = { ...init.headers, Authorization: `Bearer ${authorized}` };
    const response = await fetch(new URL(path, server.url), { ...init, headers });
    const { code } = (await response.json()) as { code?: string };
    return [response.status, code, response.headers.get('retry-after')];
  };
  const create = () =>
    send('/v1/pets', key, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': '"k"' },
      body: JSON.stringify({ name: 'Rex', categoryId: 1 }),
    });
  const success = [200, undefined, null];
  expect(await send('/v1/pets', key)).toEqual(success);

  const client = await connectTo(url);
  await client.query(FILL);
  const full = [503, 'storage_full', '5'];
  for (let i = 0; i < 200; i++) {
    expect(await send('/v1/pets', newKey)).toEqual(full);
    expect(await create()).toEqual(full);
  }
  await expect.poll(() => send('/readyz', key)).toEqual(full);
  // What needs no space still works.
  expect(await send('/v1/pets', key)).toEqual(success);
  expect(await send('/readyz', key)).toEqual(full);
  const notices = server.stderr().match(/No space left/g) ?? [];
  expect(notices.length).toBeLessThanOrEqual(3);

  await client.query(EMPTY);
  await expect.poll(() => send('/readyz', key)).toEqual(success);
  expect(await send('/v1/pets', newKey)).toEqual(success);
  expect(await create()).toEqual([201, undefined, null]);
  const { rows } = await client.query('select count(*)::int as animals from pets.animals');
  expect(rows).toEqual([{ animals: 1 }]);
});
