import { parseLocation } from '../../../src/store/location.ts';
import { connectTo, freshDatabase } from '../../helpers/postgres.ts';
import { describeBackend } from './describe-backend.ts';

describeBackend('PostgreSQL', async (clock) => {
  const url = await freshDatabase();
  const location = await parseLocation(url, {
    clock,
    env: {},
    homeDirectory: '/nonexistent',
    userName: undefined,
    random: () => 0.5,
    testTime: clock.now,
  });
  const observer = await connectTo(url);
  return {
    location,
    async keyReads() {
      const { rows } = await observer.query<{ reads: string }>(
        "select pg_stat_get_numscans('pets.keys'::regclass) as reads",
      );
      return Number(rows[0]?.reads);
    },
  };
});
