import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { Backend, LocationContext } from '../../../src/store/backend.ts';
import type { BanRule } from '../../../src/store/limiter.ts';
import { parseDatabaseUrl } from '../../../src/store/location.ts';
import type { DatabaseLocation } from '../../../src/store/postgres/postgres-location.ts';
import { type SteadyClock, systemClock } from '../../../src/system/clock.ts';

type BackendSettings = Partial<Pick<LocationContext, 'testTime'>> & {
  clock?: SteadyClock;
  bans?: BanRule;
  onWarning?: (message: string) => void;
};

/** The location of a database URL. Ignores the environment variables and the name of the current user. */
export const databaseLocation = (
  url: string,
  { testTime, clock = systemClock }: BackendSettings = {},
): Promise<DatabaseLocation> =>
  parseDatabaseUrl(url, {
    clock,
    env: {},
    userName: undefined,
    ...(testTime && { testTime }),
  });

/** Opens the store in a database, as a server does. The store is closed after the test. */
export async function openDatabase(url: string, settings: BackendSettings = {}): Promise<Backend> {
  const { clock = systemClock, bans = { after: 0, milliseconds: 0 }, onWarning = () => {} } = settings;
  const location = await databaseLocation(url, settings);
  const backend = await location.open({
    clock,
    bans,
    onWarning,
    onFailure: () => {},
    sleep: async (milliseconds) => void (await sleep(milliseconds)),
  });
  onTestFinished(() => backend.close());
  return backend;
}
