import { expect, onTestFinished, test } from 'vitest';
import { type ManualClock, manualClock } from '../helpers/clock.ts';
import { animal, idempotency, noLock, openJournalStore } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Steps of the system time, which must not end the 24 hours of an idempotency key early (docs/service.md, D10).

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const REQUEST = { pet: animal(), idempotency: idempotency('k') };

async function openIn(directory: string, clock: ManualClock) {
  const store = await openJournalStore({ directory, clock, lock: noLock });
  onTestFinished(() => store.close());
  return store;
}

test.each([
  ['from 400 days ago to now', 400 * DAY_MS],
  ['by a day', DAY_MS],
  ['back by a day', -DAY_MS],
])('a retry after a step of the clock %s adds no second animal', async (_, step) => {
  const clock = manualClock();
  const store = await openIn(await temporaryDirectory(), clock);
  expect(await store.add(REQUEST)).toMatchObject({ kind: 'added' });
  clock.step(step);
  clock.advance(DAY_MS - 1);
  expect(await store.add(REQUEST)).toMatchObject({ kind: 'replayed' });
  clock.advance(1);
  expect(await store.add(REQUEST)).toMatchObject({ kind: 'added' });
});

test.each([
  ['ahead when the animal was added', -2 * DAY_MS],
  ['a little slow', HOUR_MS],
])('a retry after a restart adds no second animal if the clock was %s', async (_, step) => {
  const clock = manualClock();
  const directory = await temporaryDirectory();
  const store = await openIn(directory, clock);
  await store.add(REQUEST);
  clock.step(step);
  await store.close();
  const restarted = await openIn(directory, clock);
  expect(await restarted.add(REQUEST)).toMatchObject({ kind: 'replayed' });
  clock.advance(DAY_MS);
  expect(await restarted.add(REQUEST)).toMatchObject({ kind: 'added' });
});
