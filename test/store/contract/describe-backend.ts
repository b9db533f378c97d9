import { describe } from 'vitest';
import { describeAnimals } from './animals.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeKeyDirectory } from './key-directory.ts';
import { describeKeyManager } from './key-manager.ts';
import { describeLifecycle } from './lifecycle.ts';
import { describeLimits } from './limits.ts';
import { describePages } from './pages.ts';
import { type OpenLocation, placesOf } from './place.ts';
import { describeResetting } from './resetting.ts';
import { describeSeeding } from './seeding.ts';

/**
 * Tests everything that `StoreLocation` and `Backend` promise (src/store/backend.ts), only through these interfaces.
 * The clock of the tests never goes back. The effect would differ: a store in a database has the clock of the database.
 */
export function describeBackend(name: string, openLocation: OpenLocation): void {
  describe(`contract of a store: ${name}`, () => {
    const places = placesOf(openLocation);
    describeAnimals(places);
    describePages(places);
    describeSeeding(places);
    describeResetting(places);
    describeIdempotency(places);
    describeLifecycle(places);
    describeLimits(places);
    describeKeyManager(places);
    describeKeyDirectory(places);
  });
}
