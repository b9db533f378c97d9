import { connectTo, freshLocation } from '../../helpers/postgres.ts';
import { describeBackend } from './describe-backend.ts';

describeBackend('PostgreSQL', async (clock) => {
  const { url, location } = await freshLocation(clock);
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
