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

test.each(['the first request of a new key', 'a creation'])(
  'while the disk is full, %s gets storage_full, as /readyz does after a creation, and the log does not grow',
  async (about) => {
    const url = await freshDatabase();
    const key = await createKey(url, { name: 'old', plan: 'enterprise' });
    const newKey = await createKey(url, { name: 'new', plan: 'enterprise' });
    const server = await serveCommand(await freshMachine(), ['--data', url, '--no-profile']);
    const send = async (path: string, init: RequestInit & { key?: string } = {}) => {
      const headers = {
        Authorization: `Bearer ${init.key ?? key}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': '"k"',
      };
      const response = await fetch(new URL(path, server.url), { ...init, headers });
      const { code } = (await response.json()) as { code?: string };
      return [response.status, code, response.headers.get('retry-after')];
    };
    const body = JSON.stringify({ name: 'Rex', categoryId: 1 });
    const affected =
      about === 'a creation'
        ? () => send('/v1/pets', { method: 'POST', body })
        : () => send('/v1/pets', { key: newKey });
    expect(await send('/v1/pets')).toEqual([200, undefined, null]);

    const client = await connectTo(url);
    await client.query(FILL);
    const full = [503, 'storage_full', '5'];
    for (let i = 0; i < 200; i++) expect(await affected()).toEqual(full);
    expect(await send('/v1/pets', { method: 'POST', body })).toEqual(full);
    await expect.poll(() => send('/readyz')).toEqual(full);
    // What needs no space still works.
    expect(await send('/v1/pets')).toEqual([200, undefined, null]);
    expect(await send('/readyz')).toEqual(full);
    const notices = server
      .stderr()
      .split('\n')
      .filter((line) => line.includes('No space left'));
    expect(notices.length).toBeLessThanOrEqual(3);

    await client.query(EMPTY);
    await expect.poll(() => send('/readyz')).toEqual([200, undefined, null]);
    expect((await affected())[0]).toBeLessThan(300);
    const { rows } = await client.query('select count(*)::int as animals from pets.animals');
    expect(rows[0].animals).toBe(about === 'a creation' ? 1 : 0);
  },
);
