import { chmod, mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createMarks, createOwnMarks } from '../../src/client/marks.ts';
import { manualClock } from '../helpers/clock.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const DAY = 86_400_000;
const START = '2026-11-20T12:00:00Z';

/** As many processes as are asked for, with one directory. */
async function processes() {
  const home = await temporaryDirectory();
  const directory = join(home, 'state', 'pets', 'services');
  const clock = manualClock();
  return { home, directory, clock, process: () => createMarks(directory, clock) };
}

const sorted = (names: string[]) => [...names].sort();

test('what one process puts or removes, the others see', async () => {
  const { process } = await processes();
  const [one, other] = [process(), process()];
  one.put('group', 'a');
  other.put('group', 'b');
  one.put('group', 'a');
  for (const each of [one, other, process()]) expect(sorted(each.list('group'))).toEqual(['a', 'b']);
  expect(other.list('another group')).toEqual([]);
  other.remove('group', 'b');
  one.remove('group', 'a');
  for (const each of [one, other, process()]) expect(each.list('group')).toEqual([]);
});

test('a mark is an empty file of its owner alone, in directories of its owner alone', async () => {
  const { home, directory, process: start } = await processes();
  const mask = process.umask(0);
  onTestFinished(() => {
    process.umask(mask);
  });
  start().put('group', 'a');
  const mode = async (...path: string[]) => ((await stat(join(home, ...path))).mode & 0o777).toString(8);
  expect(await mode('state')).toBe('700');
  expect(await mode('state', 'pets')).toBe('700');
  expect(await mode('state', 'pets', 'services')).toBe('700');
  expect(await mode('state', 'pets', 'services', 'group')).toBe('700');
  expect(await mode('state', 'pets', 'services', 'group', 'a')).toBe('600');
  expect(await readFile(join(directory, 'group', 'a'), 'utf8')).toBe('');
});

test('a group that nobody has changed for 30 days is forgotten when another begins', async () => {
  const { directory, process, clock } = await processes();
  const at = (days: number) => new Date(clock.now() - days * DAY);
  for (const name of ['old', 'young']) process().put(name, 'a');
  await utimes(join(directory, 'old'), at(31), at(31));
  await utimes(join(directory, 'young'), at(29), at(29));
  process().put('young', 'b');
  expect(sorted(await readdir(directory))).toEqual(['old', 'young']);
  process().put('new', 'a');
  expect(sorted(await readdir(directory))).toEqual(['new', 'young']);
});

describe('where the directory cannot be used, each process still knows what it has put itself', () => {
  type Break = (place: { home: string; directory: string }) => Promise<unknown>;
  const inPlaceOf =
    (...path: string[]): Break =>
    async ({ home }) => {
      await mkdir(join(home, ...path, '..'), { recursive: true });
      await writeFile(join(home, ...path), 'no directory');
    };
  test.each<[string, Break]>([
    ['a file in place of the group', inPlaceOf('state', 'pets', 'services', 'group')],
    ['a file in place of the directory', inPlaceOf('state', 'pets', 'services')],
    ['a file in place of one above', inPlaceOf('state')],
    [
      'a link to nowhere',
      async ({ home }) => symlink(join(home, 'nowhere', 'at', 'all'), join(home, 'state')),
    ],
    ['a link to itself', async ({ home }) => symlink(join(home, 'state'), join(home, 'state'))],
    ['a file system that cannot be written', async ({ home }) => symlink('/proc/self', join(home, 'state'))],
    [
      'a directory in place of a mark',
      async ({ directory }) => mkdir(join(directory, 'group', 'a', 'b'), { recursive: true }),
    ],
  ])('%s', async (_name, breakIt) => {
    const place = await processes();
    await breakIt(place);
    const marks = place.process();
    marks.put('group', 'a');
    marks.put('group', 'b');
    expect(marks.list('group')).toEqual(expect.arrayContaining(['a', 'b']));
    marks.remove('group', 'b');
    expect(marks.list('group')).toEqual(['a']);
    expect(place.process().list('other')).toEqual([]);
  });

  test('one that is taken away meanwhile', async () => {
    const { home, process } = await processes();
    const marks = process();
    marks.put('group', 'a');
    await rm(join(home, 'state'), { recursive: true });
    expect(marks.list('group')).toEqual(['a']);
    marks.put('group', 'b');
    expect(process().list('group')).toEqual(['b']);
  });

  test.skipIf(process.getuid?.() === 0)('one that is not allowed', async () => {
    const { directory, process } = await processes();
    await mkdir(directory, { recursive: true });
    await chmod(directory, 0o500);
    const marks = process();
    marks.put('group', 'a');
    expect(marks.list('group')).toEqual(['a']);
    expect(process().list('group')).toEqual([]);
  });

  test('a name that no file can have', async () => {
    const { process } = await processes();
    const marks = process();
    for (const name of ['a'.repeat(300), 'a\0b']) {
      marks.put('group', name);
      expect(marks.list('group')).toContain(name);
      marks.remove('group', name);
      expect(marks.list('group')).toEqual([]);
    }
  });
});

test('what lies in the directory and is no group does not stop the pruning', async () => {
  const { directory, process } = await processes();
  const old = new Date(Date.parse(START) - 31 * DAY);
  process().put('old', 'a');
  await symlink('/nowhere', join(directory, 'link'));
  await writeFile(join(directory, 'a file'), '');
  for (const name of ['old', 'a file']) await utimes(join(directory, name), old, old);
  process().put('new', 'a');
  expect(sorted(await readdir(directory))).toEqual(['link', 'new']);
});

test('marks of one process alone are a set of names in each group', () => {
  const marks = createOwnMarks();
  marks.put('a', '1');
  marks.put('a', '1');
  marks.put('b', '2');
  expect([marks.list('a'), marks.list('b'), marks.list('c')]).toEqual([['1'], ['2'], []]);
  marks.remove('a', '1');
  marks.remove('c', '1');
  expect([marks.list('a'), marks.list('b')]).toEqual([[], ['2']]);
});
