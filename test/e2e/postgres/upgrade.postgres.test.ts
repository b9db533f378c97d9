import { expect, test } from 'vitest';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { createKey, startFleet } from '../../helpers/postgres/fleet.ts';
import { Follower } from '../../helpers/postgres/followers.ts';
import { Traffic } from '../../helpers/postgres/traffic.ts';
import { Writers } from '../../helpers/postgres/writers.ts';
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
  const traffic = new Traffic(servers, key);
  const writers = new Writers(traffic);
  for (let i = 0; i < 4; i++) writers.start(i % 2 === 0, 5);
  const follower = new Follower(traffic, 20);
  follower.start();
  const progress = async () => {
    const before = writers.acknowledged.size;
    await expect.poll(() => writers.acknowledged.size).toBeGreaterThan(before + 50);
  };
  await traffic.during(async () => {
    await progress();
    const client = await connectTo(url);
    await client.query(NEXT_VERSION);
    await progress();
    await servers[0]?.stop();
    await servers[0]?.start();
    await progress();
  });
  await traffic.stop();
  // The server that was stopped may have cut idle connections. When it starts, it responds before its store is open.
  expect(traffic.failures.filter(({ status, code }) => status !== 0 && code !== 'starting')).toEqual([]);
  const pets = await listAllPets({ url: servers[0]?.url ?? '', key });
  writers.check(pets);
  follower.checkIds(pets);
  await follower.checkPages();
});
