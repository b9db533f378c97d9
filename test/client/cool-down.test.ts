import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createCoolDown } from '../../src/client/service-state.ts';
import { createMemoryFlags, createSharedFlags, type SharedFlags } from '../../src/client/shared-flags.ts';
import { manualClock } from '../helpers/clock.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const HOUR = 3_600_000;
const MAX_AHEAD = 25 * HOUR;

async function machine() {
  const directory = await temporaryDirectory();
  const clock = manualClock();
  const group = join(directory, 'services', 'group');
  await mkdir(group, { recursive: true });
  return {
    clock,
    process: () =>
      createCoolDown(createSharedFlags([{ path: directory, isTemporary: false }], clock), 'group', clock),
    names: async () => (await readdir(group)).sort(),
    /** Creates flag files with any names, without `createCoolDown`. */
    create: (...names: string[]) => Promise.all(names.map((name) => writeFile(join(group, name), ''))),
  };
}

test('a cool-down is shared by all processes until it ends', async () => {
  const { clock, process } = await machine();
  const processes = [process(), process()];
  processes[0]?.extend(clock.now() + 30_000);
  processes.push(process());
  for (const each of processes) expect(each.until()).toBe(clock.now() + 30_000);
  clock.advance(30_000);
  for (const each of processes) expect(each.until()).toBe(0);
});

test('the latest deadline counts, in any order and with any number of digits', async () => {
  const { clock, process } = await machine();
  for (const seconds of [5, 50, 20]) process().extend(clock.now() + seconds * 1_000);
  expect(process().until()).toBe(clock.now() + 50_000);
  const coolDown = createCoolDown(createMemoryFlags(), 'group', manualClock('2001-09-09T01:46:39Z'));
  coolDown.extend(999_999_999_999);
  coolDown.extend(1_000_000_000_500);
  expect(coolDown.until()).toBe(1_000_000_000_500);
});

test('a fraction of a millisecond is rounded up', async () => {
  const { clock, process } = await machine();
  process().extend(clock.now() + 1_000.2);
  expect(process().until()).toBe(clock.now() + 1_001);
});

test('a deadline is limited to 25 hours, and a later one is ignored', async () => {
  const { clock, process, create } = await machine();
  await create(`${clock.now()}-${clock.now() + MAX_AHEAD + 1}`);
  expect(process().until()).toBe(0);
  process().extend(clock.now() + 48 * HOUR);
  expect(process().until()).toBe(clock.now() + MAX_AHEAD);
});

test('extend removes expired deadlines and those too far ahead, and clear removes all', async () => {
  const { clock, process, create, names } = await machine();
  const recorded = (milliseconds: number) => `${clock.now()}-${clock.now() + milliseconds}`;
  await create(...[-1, 0, 10_000, MAX_AHEAD + 1].map(recorded));
  process().extend(clock.now() + 20_000);
  expect(await names()).toEqual([10_000, 20_000].map(recorded));
  process().extend(clock.now() - 5_000);
  expect(await names()).toHaveLength(2);
  await create('garbage');
  process().clear();
  expect(await names()).toEqual([]);
  expect(process().until()).toBe(0);
});

test('extend adds no flag for a deadline that is not later', async () => {
  const { clock, process, names } = await machine();
  process().extend(clock.now() + 20_000);
  clock.advance(5_000);
  process().extend(clock.now() + 15_000);
  expect(await names()).toHaveLength(1);
});

test.each([
  ['a day ahead', 24 * HOUR, false],
  ['61 s ahead', 61_000, false],
  ['60 s ahead, as the clock of another machine may be', 60_000, true],
  ['a day behind', -24 * HOUR, false],
])('a deadline that was recorded while the clock was %s', async (_name, offset, counts) => {
  const { clock, process, names } = await machine();
  clock.advance(offset);
  process().extend(clock.now() + 30_000);
  clock.advance(-offset);
  expect(process().until() > clock.now()).toBe(counts);
  process().extend(clock.now() + 100_000);
  expect(process().until()).toBe(clock.now() + 100_000);
  expect(await names()).toHaveLength(counts ? 2 : 1);
});

test.each([
  ...['NaN', '-1', '1e15', 'Infinity', '0x7fffffffffff', '9'.repeat(40)],
  ...['1795176045000', '1795176000000-', '-1795176045000', '1795176000000-1795176045000.5'],
  ...[' 1795176000000-1795176045000', '1795176000000-1795176045000-1', 'ü'],
])('a name that is not a deadline is ignored and removed: %j', async (name) => {
  const { clock, process, create, names } = await machine();
  await create(name);
  expect(process().until()).toBe(0);
  process().extend(clock.now() + 1_000);
  expect(await names()).toEqual([`${clock.now()}-${clock.now() + 1_000}`]);
});

test('half a million deadlines are read without a stack overflow', () => {
  const clock = manualClock();
  const names = Array.from({ length: 500_000 }, (_, index) => `${clock.now()}-${clock.now() + index}`);
  const flags: SharedFlags = { list: () => names, set: () => {}, remove: () => {} };
  expect(createCoolDown(flags, 'group', clock).until()).toBe(clock.now() + 499_999);
});
