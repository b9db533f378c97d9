import { expect, test } from 'vitest';
import { createKey, startFleet } from '../../helpers/postgres/fleet.ts';
import { underLoad } from '../../helpers/postgres/load.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';

/** What the next version could add: a column with a default, and another function. Servers of this version still work. */
const NEXT_VERSION = `
  alter table pets.animals add column note text not null default '';
  create function pets.read_note(animal_id bigint) returns text language sql
    as $$ select note from pets.animals where id = animal_id $$;
  update pets.meta set version = version + 1;
`;

test('servers of this version serve requests while a newer version migrates the database, and start after it', async () => {
  const url = await freshDatabase();
  const servers = await startFleet(url, 2);
  const key = await createKey(url, { name: 'load', plan: 'enterprise' });
  const failures = await underLoad(servers, key, async ({ untilAdded }) => {
    await untilAdded(50);
    const client = await connectTo(url);
    await client.query(NEXT_VERSION);
    await untilAdded(50);
    await servers[0]?.stop();
    await servers[0]?.start();
    await untilAdded(50);
  });
  // The server that was stopped may have cut idle connections. When it starts, it responds before its store is open.
  expect(failures.filter(({ status, code }) => status !== 0 && code !== 'starting')).toEqual([]);
});
