import { expect, test } from 'vitest';
import { petJson } from '../../src/contract/schemas.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { interceptFiles } from '../helpers/store-faults.ts';
import { allTexts, animal, noLock, openJournalStore, randomOf, seedOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const OLD = { ...seedOf(1n, 40n), orders: [{ old: true }] };
const NEW = { ...seedOf(1n, 2n, 3n), orders: [{ new: 1 }, { new: 2 }] };

/** Resets a store until call `killAt` of the file system. Returns how that ended, and what the next process reads. */
async function killReset(killAt: number, losesPower: boolean) {
  const files = new SimulatedDisk(randomOf(killAt));
  const open = () => openJournalStore({ directory: '/store', clock: manualClock(), lock: noLock, files });
  const first = await open();
  await first.seed(OLD);
  await first.add({ pet: animal('later') });
  const start = files.calls;
  files.fate = (call) => (call === start + killAt ? 'halt' : undefined);
  const end = await Promise.race([first.reset(NEW).then(() => 'complete'), files.halted]);
  files.end();
  if (losesPower) files.losePower();
  files.restart();
  const second = await open();
  return { end, contents: [await allTexts(second), await second.orders()] };
}

test.each([
  ['process is killed', false],
  ['machine loses its power', true],
])(
  'if the %s in the middle of a reset, the inventory is completely the old or the new one',
  async (_, losesPower) => {
    const old = [[...OLD.pets, { id: 41n, ...animal('later') }].map(petJson), ['{"old":true}']];
    const replaced = [NEW.pets.map(petJson), ['{"new":1}', '{"new":2}']];
    const ends: string[] = [];
    let result: Awaited<ReturnType<typeof killReset>>;
    do {
      result = await killReset(ends.length, losesPower);
      expect([old, replaced]).toContainEqual(result.contents);
      ends.push(JSON.stringify(result.contents) === JSON.stringify(old) ? 'old' : 'new');
    } while (result.end !== 'complete');
    expect(result.contents).toEqual(replaced);
    expect(new Set(ends)).toEqual(new Set(['old', 'new']));
    expect(ends.length).toBeGreaterThan(10);
  },
);

test('creations that were accepted before a reset are completed before it, however slow the disk is', async () => {
  const created = gate();
  let isResetting = false;
  const files = interceptFiles(async (name, path) => {
    if (!isResetting) return;
    if (name === 'close' && path.includes('journal.ndjson.new-')) created.open();
    // Three batches of creations are synced only after the new journal was written.
    if (name === 'datasync' && path.endsWith('journal.ndjson')) await created.opened;
  });
  const failures: Error[] = [];
  const onFailure = (error: Error) => failures.push(error);
  const store = await openJournalStore({ directory: await temporaryDirectory(), files, onFailure });
  const adding = Array.from({ length: 2_500 }, () => store.add({ pet: animal() }));
  isResetting = true;
  await store.reset(NEW);
  expect(new Set((await Promise.all(adding)).map(({ kind }) => kind))).toEqual(new Set(['added']));
  expect(failures).toEqual([]);
  expect(await allTexts(store)).toEqual(NEW.pets.map(petJson));
  await store.close();
});

test('checks of the store wait while a reset replaces the journal', async () => {
  const [reached, released] = [gate(), gate()];
  let isResetting = false;
  const files = interceptFiles(async (name, path) => {
    // The first call after the new journal was renamed to journal.ndjson.
    if (!isResetting || name !== 'open read' || !path.includes('journal.ndjson')) return;
    reached.open();
    await released.opened;
  });
  const failures: Error[] = [];
  const onFailure = (error: Error) => failures.push(error);
  const store = await openJournalStore({ directory: await temporaryDirectory(), files, onFailure });
  await store.seed(OLD);
  isResetting = true;
  const resetting = store.reset(NEW);
  await reached.opened;
  const checking = [store.checkWritable(), store.requireInPlace()];
  setImmediate(released.open);
  await Promise.all([resetting, ...checking]);
  expect(failures).toEqual([]);
  expect(await store.size()).toBe(3);
  await store.close();
});
