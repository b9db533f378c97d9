import {
  chmod,
  chown,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
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
  return {
    home,
    directory,
    clock,
    process: () => createSharedFlags([{ path: dirname(directory), isTemporary: false }], clock),
  };
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

describe('flags in several directories', () => {
  async function directories() {
    const home = await temporaryDirectory();
    const first = { path: join(home, 'first'), isTemporary: false };
    const second = { path: join(home, 'second'), isTemporary: true };
    let failures = 0;
    const onUnwritable = () => failures++;
    const process = () => createSharedFlags([first, second], manualClock(), onUnwritable);
    return { home, first: first.path, second: second.path, process, failures: () => failures };
  }
  type Directories = Awaited<ReturnType<typeof directories>>;

  test('are written only to the first one', async () => {
    const { home, process, failures } = await directories();
    process().set('group', 'a');
    expect([await readdir(home), failures()]).toEqual([['first'], 0]);
  });

  test.each<[string, (place: Directories) => Promise<unknown>]>([
    ['is a file', ({ first }) => writeFile(first, '')],
    ['is below /proc, where mkdir fails with ENOENT', ({ first }) => symlink('/proc/missing', first)],
    [
      'does not accept the flag',
      async ({ first }) => {
        await mkdir(join(first, 'services'), { recursive: true });
        await writeFile(join(first, 'services', 'group'), '');
      },
    ],
  ])('are written to the second one, with mode 0700, if the first one %s', async (_what, prepare) => {
    const place = await directories();
    await prepare(place);
    place.process().set('group', 'a');
    expect(place.process().list('group')).toEqual(['a']);
    expect((await stat(place.second)).mode & 0o777).toBe(0o700);
    place.process().remove('group', 'a');
    expect(place.process().list('group')).toEqual([]);
    expect(place.failures()).toBe(0);
  });

  test('are read from both', async () => {
    const { first, process } = await directories();
    process().set('group', 'a');
    await rename(first, `${first}.moved`);
    await writeFile(first, '');
    process().set('group', 'b');
    await rm(first);
    await rename(`${first}.moved`, first);
    expect(sorted(process().list('group'))).toEqual(['a', 'b']);
  });

  test('the parent of a temporary directory is not created', async () => {
    const home = await temporaryDirectory();
    const path = join(home, 'missing', 'pets');
    createSharedFlags([{ path, isTemporary: true }], manualClock()).set('group', 'a');
    expect(await readdir(home)).toEqual([]);
  });

  const isUnix = process.getuid !== undefined;
  test
    .runIf(isUnix)
    .each<[string, (place: Directories) => Promise<unknown>]>([
      ['is a symbolic link', ({ home, second }) => symlink(join(home, 'target'), second)],
      ['has permissions for the group', async ({ second }) => mkdir(second).then(() => chmod(second, 0o710))],
      ['has permissions for others', async ({ second }) => mkdir(second).then(() => chmod(second, 0o707))],
      ['is a file', ({ second }) => writeFile(second, '')],
      ...(process.getuid?.() === 0
        ? [
            [
              'belongs to another user',
              ({ second }: Directories) =>
                mkdir(second, { mode: 0o700 }).then(() => chown(second, 12_345, 12_345)),
            ] as [string, (place: Directories) => Promise<unknown>],
          ]
        : []),
    ])('are neither written to nor read from a temporary directory that %s', async (_what, prepare) => {
    const place = await directories();
    await mkdir(join(place.home, 'target', 'services', 'group'), { recursive: true });
    await writeFile(place.first, '');
    await prepare(place);
    const content = async () => [
      await readdir(place.home, { recursive: true }),
      (await lstat(place.second)).mode,
    ];
    const before = await content();
    const flags = place.process();
    flags.set('group', 'a');
    expect([flags.list('group'), place.process().list('group'), place.failures()]).toEqual([['a'], [], 1]);
    expect(await content()).toEqual(before);
    await mkdir(join(place.second, 'services', 'group'), { recursive: true }).catch(() => {});
    await writeFile(join(place.second, 'services', 'group', 'foreign'), '').catch(() => {});
    expect(place.process().list('group')).toEqual([]);
  });
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
