import { expect, test } from 'vitest';
import { migrate } from '../../../src/store/postgres/schema/migrate.ts';
import { SCHEMA_STEPS } from '../../../src/store/postgres/schema/schema.ts';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { createKey, startFleet } from '../../helpers/postgres/fleet.ts';
import { Follower } from '../../helpers/postgres/followers.ts';
import { Traffic } from '../../helpers/postgres/traffic.ts';
import { Writers } from '../../helpers/postgres/writers.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';

/** What the next version could add: a column with a default, and another version of a function. */
const NEXT_STEP = `
  alter table pets.animals add column note text not null default '';
  create function pets.get_v2(animal_id bigint) returns text language sql stable
    as $$ select body || note from pets.animals where id = animal_id $$;
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
    await migrate(client, [...SCHEMA_STEPS, { sql: NEXT_STEP, oldest: 1 }]);
    await progress();
    await servers[0]?.stop();
    await servers[0]?.start();
    await progress();
  });
  await traffic.stop();
  // The server that was stopped may have cut idle connections.
  expect(traffic.failures.filter(({ status }) => status !== 0)).toEqual([]);
  const pets = await listAllPets({ url: servers[0]?.url ?? '', key });
  writers.check(pets);
  follower.checkIds(pets);
  await follower.checkPages();
});
