import type { Backend, LocationContext } from '../../../src/store/backend.ts';
import type { BanRule } from '../../../src/store/limiter.ts';
import { parseDatabaseUrl } from '../../../src/store/location.ts';
import type { DatabaseLocation } from '../../../src/store/postgres/postgres-location.ts';
import { type SteadyClock, systemClock } from '../../../src/system/clock.ts';
import { animal, idempotency, openAsServer, seedOf } from '../store-fixtures.ts';

type Settings = Partial<Pick<LocationContext, 'testTime'>> & { clock?: SteadyClock };

/** The location of a database URL. Ignores the environment variables and the name of the current user. */
export const databaseLocation = (
  url: string,
  { testTime, clock = systemClock }: Settings = {},
): Promise<DatabaseLocation> =>
  parseDatabaseUrl(url, {
    clock,
    env: {},
    userName: undefined,
    ...(testTime && { testTime }),
  });

/** Opens the store in a database, as a server does. The store is closed after the test. */
export const openDatabase = async (
  url: string,
  settings: Settings & { bans?: BanRule } = {},
): Promise<Backend> => openAsServer(await databaseLocation(url, settings), settings);

const QUOTA = { perMinute: 1_000, perDay: 1_000 };

/** The calls of a server to its store, except `banCounts`, which ignores errors. `sha256` is the hash of an API key. */
export const CALLS: Record<string, (backend: Backend, sha256: string) => Promise<unknown>> = {
  'a seed': ({ store }) => store.seed(seedOf(1n)),
  'a creation': ({ store }) => store.add({ pet: animal(), idempotency: idempotency('k') }),
  'a read of an animal': ({ store }) => store.get(1n),
  'a list': async ({ store }) => store.list({ limit: 1 }),
  'the orders': ({ store }) => store.orders(),
  'the number of animals': ({ store }) => store.size(),
  'a check of readiness': ({ store }) => store.checkWritable(),
  'a known key': async ({ keys }, sha256) => keys.find(sha256),
  'a list of keys': ({ keys }) => keys.list(),
  'a limit': async ({ limiter }, sha256) => limiter.take(sha256, QUOTA),
  'a read of a limit': async ({ limiter }, sha256) => limiter.peek(sha256, QUOTA),
  'the end of a ban': ({ limiter }, sha256) => limiter.liftBan(sha256),
  'a read of limits': ({ limiter }, sha256) => limiter.usage([sha256]),
  'a reset': ({ reset }) => reset(seedOf(1n)),
};
