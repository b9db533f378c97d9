import type { StoreContents, StoredAnimal } from '../../src/store/backend.ts';
import type { Store } from '../../src/store/store.ts';
import { animal, idempotency } from './store-fixtures.ts';

/** Names that a store could change by mistake. */
export const HOSTILE_NAMES = [
  '\0',
  'a\0b',
  '\ud800',
  'a\udfffb',
  '🐕',
  '\u2028\u2029\ufeff',
  '\\u0000',
  '\\',
  '"},{"id":1,',
  '\x7f\x1b[31m\r\n',
  'ﷺ'.repeat(30_000),
];

/** Orders with numbers and texts that a store could change by mistake. */
export const ORDERS = [
  '{"id":12345678901234567890123456789,"price":1.10,"big":1e400,"text":"\\u0000\\ud800"}',
  '[]',
  'null',
  '-0.0',
  '"🐕"',
];

/** The key and the body of each creation that `addAnimals` makes with an idempotency key. */
export const REPEATABLE = idempotency('order-1');
export const REPEATABLE_NAME = 'once';

/** Adds animals with hostile names, and one with an idempotency key. */
export async function addAnimals(store: Store): Promise<void> {
  for (const name of HOSTILE_NAMES) await store.add({ pet: animal(name) });
  await store.add({ pet: animal(REPEATABLE_NAME, { status: 'sold' }), idempotency: REPEATABLE });
}

/** Collects everything, so that two stores can be compared. */
export async function collect(contents: StoreContents) {
  const { animals, readAt: _, report, ...rest } = contents;
  const all: StoredAnimal[] = [];
  for await (const part of animals()) all.push(...part);
  return { ...rest, id: report.id, all };
}
