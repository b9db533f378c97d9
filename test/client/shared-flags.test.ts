import { mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createSharedFlags } from '../../src/client/shared-flags.ts';
import { manualClock } from '../helpers/clock.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const DAY = 86_400_000;

/** Creates the flags of several processes in one directory. */
async function processes() {
  const home = await temporaryDirectory();
  const directory = join(home, 'state', 'pets', 'services');
  const clock = manualClock();
  return { home, directory, clock, process: () => createSharedFlags(directory, clock) };
}

const sorted = (names: string[]) => [...names].sort();

test('a flag that one process sets or removes is seen by the others', async () => {
  const { process } = await processes();
  const [one, other] = [process(), process()];
  one.set('group', 'a');
  other.set('group', 'b');
  one.set('group', 'a');
  for (const each of [one, other, process()]) expect(sorted(each.list('group'))).toEqual(['a', 'b']);
  expect(other.list('another group')).toEqual([]);
  other.remove('group', 'b');
  one.remove('group', 'a');
  for (const each of [one, other, process()]) expect(each.list('group')).toEqual([]);
});

test('a flag is an empty file with mode 0600, in directories with mode 0700', async () => {
  const { home, directory, process: start } = await processes();
  const mask = process.umask(0);
  onTestFinished(() => {
    process.umask(mask);
  });
  start().set('group', 'a');
  const mode = async (...path: string[]) => ((await stat(join(home, ...path))).mode & 0o777).toString(8);
  const path = ['state', 'pets', 'services', 'group'];
  for (const index of path.keys()) expect(await mode(...path.slice(0, index + 1))).toBe('700');
  expect(await mode(...path, 'a')).toBe('600');
  expect(await readFile(join(directory, 'group', 'a'), 'utf8')).toBe('');
});

test('a group or file that has not changed for 30 days is deleted when a group is created, even next to a broken link', async () => {
  const { directory, process, clock } = await processes();
  const at = (days: number) => new Date(clock.now() - days * DAY);
  for (const name of ['old', 'young']) process().set(name, 'a');
  await symlink('/missing', join(directory, 'link'));
  await writeFile(join(directory, 'a file'), '');
  for (const name of ['old', 'a file']) await utimes(join(directory, name), at(31), at(31));
  await utimes(join(directory, 'young'), at(29), at(29));
  process().set('young', 'b');
  expect(sorted(await readdir(directory))).toEqual(['a file', 'link', 'old', 'young']);
  process().set('new', 'a');
  expect(sorted(await readdir(directory))).toEqual(['link', 'new', 'young']);
});

describe('if the directory cannot be used, each process keeps its own flags', () => {
  type Setup = (place: { home: string; directory: string }) => Promise<unknown>;
  test.each<[string, Setup]>([
    ['a file in place of an ancestor', async ({ home }) => writeFile(join(home, 'state'), '')],
    [
      'a file in place of the group',
      async ({ directory }) => {
        await mkdir(directory, { recursive: true });
        await writeFile(join(directory, 'group'), '');
      },
    ],
    ['a symbolic link to itself', async ({ home }) => symlink(join(home, 'state'), join(home, 'state'))],
    ['a read-only file system', async ({ home }) => symlink('/proc/self', join(home, 'state'))],
    [
      'a directory in place of a flag',
      async ({ directory }) => mkdir(join(directory, 'group', 'a', 'b'), { recursive: true }),
    ],
  ])('%s', async (_name, setUp) => {
    const place = await processes();
    await setUp(place);
    const flags = place.process();
    flags.set('group', 'a');
    flags.set('group', 'b');
    expect(flags.list('group')).toEqual(expect.arrayContaining(['a', 'b']));
    flags.remove('group', 'b');
    expect(flags.list('group')).toEqual(['a']);
    expect(place.process().list('other')).toEqual([]);
  });

  test('a directory that is deleted', async () => {
    const { home, process } = await processes();
    const flags = process();
    flags.set('group', 'a');
    await rm(join(home, 'state'), { recursive: true });
    expect(flags.list('group')).toEqual(['a']);
    flags.set('group', 'b');
    expect(process().list('group')).toEqual(['b']);
  });
});
