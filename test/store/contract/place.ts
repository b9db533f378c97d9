import { expect, onTestFinished } from 'vitest';
import type { Backend, StoreLocation } from '../../../src/store/backend.ts';
import type { BanRule } from '../../../src/store/limiter.ts';
import type { Store } from '../../../src/store/store.ts';
import { type ManualClock, manualClock } from '../../helpers/clock.ts';
import { openAsServer } from '../../helpers/store-fixtures.ts';

/**
 * Creates a location without a store. The location is removed after the test. Everything that the store decides by time
 * must use `clock`.
 */
export type OpenLocation = (clock: ManualClock) => Promise<StoreLocation>;

const BAN_RULE: BanRule = { after: 10, milliseconds: 300_000 };

/** Functions for tests of the stores that `openLocation` can create. */
export function placesOf(openLocation: OpenLocation) {
  /** Creates a location without a store. `open` opens it as a server does, and closes it after the test. */
  async function newPlace(time?: string) {
    const clock = manualClock(time);
    const location = await openLocation(clock);
    // As with performance.now(), a little time passes between two readings, and times are not whole milliseconds.
    let readings = 0;
    const preciseClock = { ...clock, elapsed: () => clock.elapsed() + ++readings * 1e-3 };
    async function open(bans = BAN_RULE): Promise<Backend> {
      const failures: Error[] = [];
      // Called after the store was closed.
      onTestFinished(() => expect(failures).toEqual([]));
      return openAsServer(location, {
        clock: preciseClock,
        bans,
        sleep: async (milliseconds) => clock.advance(milliseconds),
        onFailure: (error) => failures.push(error),
      });
    }
    return { clock, location, open };
  }

  async function openStore(): Promise<Store> {
    const { open } = await newPlace();
    return (await open()).store;
  }

  return { newPlace, openStore };
}

export type Places = ReturnType<typeof placesOf>;
export type Place = Awaited<ReturnType<Places['newPlace']>>;
