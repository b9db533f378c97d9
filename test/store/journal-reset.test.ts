import { expect, test } from 'vitest';
import { petJson } from '../../src/contract/schemas.ts';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import { manualClock } from '../helpers/clock.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { allTexts, animal, noLock, randomOf, seedOf } from '../helpers/store-fixtures.ts';

const OLD = { ...seedOf(1n, 40n), orders: [{ old: true }] };
const NEW = { ...seedOf(1n, 2n, 3n), orders: [{ new: 1 }, { new: 2 }] };

/** Resets a store in a process that ends at the call `killAt` of the file system. Returns what the next process reads. */
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
