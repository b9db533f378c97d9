import { describe } from 'vitest';
import { describeAnimals } from './animals.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeKeys } from './keys.ts';
import { describeLimits } from './limits.ts';
import { type OpenLocation, placesOf } from './place.ts';
import { describeSeeds } from './seeds.ts';

/**
 * Tests everything that `StoreLocation` and `Backend` promise (src/store/backend.ts), only through these interfaces.
 * The clock of the tests never goes back. The effect would differ: a store in a database has the clock of the database.
 */
export function describeBackend(name: string, openLocation: OpenLocation): void {
  describe(`contract of a store: ${name}`, () => {
    const places = placesOf(openLocation);
    describeAnimals(places);
    describeSeeds(places);
    describeIdempotency(places);
    describeLimits(places);
    describeKeys(places);
  });
}
