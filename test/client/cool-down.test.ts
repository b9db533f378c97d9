import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createCoolDown } from '../../src/client/cool-down.ts';
import { createMarks, type Marks } from '../../src/client/marks.ts';
import { manualClock } from '../helpers/clock.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const HOUR = 3_600_000;
const FURTHEST = 25 * HOUR;

async function machine() {
  const directory = await temporaryDirectory();
  const clock = manualClock();
  const group = join(directory, 'group');
  await mkdir(group);
  return {
    clock,
    process: () => createCoolDown(createMarks(directory, clock), 'group', clock),
    names: async () => (await readdir(group)).sort(),
    /** Leaves marks as other processes, or anybody, may have. */
    leave: (...names: (string | number)[]) =>
      Promise.all(names.map((name) => writeFile(join(group, String(name)), ''))),
  };
}

test('what one process is asked to wait, the others wait too', async () => {
  const { clock, process } = await machine();
  const [one, other] = [process(), process()];
  expect(other.until()).toBeLessThanOrEqual(clock.now());
  one.note(clock.now() + 30_000);
  for (const each of [one, other, process()]) expect(each.until()).toBe(clock.now() + 30_000);
  clock.advance(30_000);
  for (const each of [one, other, process()]) expect(each.until()).toBeLessThanOrEqual(clock.now());
});

test('the latest deadline counts, in whatever order they come', async () => {
  const { clock, process } = await machine();
  for (const seconds of [5, 50, 20]) process().note(clock.now() + seconds * 1_000);
  expect(process().until()).toBe(clock.now() + 50_000);
  // Another number of digits.
  const early = manualClock('2001-09-09T01:46:39Z');
  const coolDown = createCoolDown(createMarks(await temporaryDirectory(), early), 'group', early);
  coolDown.note(999_999_999_999);
  coolDown.note(1_000_000_000_500);
  expect(coolDown.until()).toBe(1_000_000_000_500);
});

test('a part of a millisecond is a whole one: never early', async () => {
  const { clock, process } = await machine();
  process().note(clock.now() + 1_000.2);
  expect(process().until()).toBe(clock.now() + 1_001);
});

test('25 hours ahead is the furthest: others are not locked out by a clock that was wrong', async () => {
  const { clock, process, leave, names } = await machine();
  process().note(clock.now() + 48 * HOUR);
  expect(process().until()).toBe(clock.now() + FURTHEST);
  const { clock: second, process: start, leave: put, names: left } = await machine();
  await put(second.now() + FURTHEST + 1);
  expect(start().until()).toBe(0);
  await put(second.now() + FURTHEST);
  expect(start().until()).toBe(second.now() + FURTHEST);
  start().note(second.now() + 1_000);
  expect(await left()).toEqual([second.now() + 1_000, second.now() + FURTHEST].map(String));
  await leave(clock.now() - 1);
  expect(await names()).toHaveLength(2);
});

test('whoever notes a deadline takes away what has passed', async () => {
  const { clock, process, leave, names } = await machine();
  await leave(clock.now() - 1, clock.now(), clock.now() + 10_000, clock.now() + FURTHEST + 1);
  process().note(clock.now() + 20_000);
  expect(await names()).toEqual([clock.now() + 10_000, clock.now() + 20_000].map(String));
  process().note(clock.now() - 5_000);
  expect(await names()).toHaveLength(2);
});

test('clearing takes all of them away', async () => {
  const { clock, process, leave, names } = await machine();
  const other = process();
  await leave(clock.now() + 10_000, clock.now() + FURTHEST + 1, 'garbage');
  process().note(clock.now() + 20_000);
  process().clear();
  expect(await names()).toEqual([]);
  expect(other.until()).toBe(0);
});

describe('what is no deadline hinders nobody', () => {
  const garbage = [
    'NaN',
    '-1',
    '1e15',
    'Infinity',
    '0x7fffffffffff',
    '9'.repeat(40),
    '1795176045000.5',
    ' 1795176045000',
    'ü',
  ];
  test.each(garbage)('%j', async (name) => {
    const { clock, process, leave, names } = await machine();
    await leave(name);
    expect(process().until()).toBe(0);
    process().note(clock.now() + 1_000);
    expect(await names()).toEqual([String(clock.now() + 1_000)]);
  });

  test('a directory with such a name', async () => {
    const directory = await temporaryDirectory();
    const clock = manualClock();
    await mkdir(join(directory, 'group', 'garbage', 'more'), { recursive: true });
    const coolDown = createCoolDown(createMarks(directory, clock), 'group', clock);
    coolDown.note(clock.now() + 1_000);
    expect(coolDown.until()).toBe(clock.now() + 1_000);
  });
});

test('a thousand marks that have passed are read, and taken away', async () => {
  const { clock, process, leave, names } = await machine();
  await leave(...Array.from({ length: 1_000 }, (_, index) => clock.now() - index));
  await leave(clock.now() + 5_000);
  expect(process().until()).toBe(clock.now() + 5_000);
  process().note(clock.now() + 6_000);
  expect(await names()).toHaveLength(2);
});

test('not even half a million marks are too many', () => {
  const clock = manualClock();
  const all = Array.from({ length: 500_000 }, (_, index) => String(clock.now() + index));
  const marks: Marks = { list: () => all, put: () => {}, remove: () => {} };
  expect(createCoolDown(marks, 'group', clock).until()).toBe(clock.now() + 499_999);
});
