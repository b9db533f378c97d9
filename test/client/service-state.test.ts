import * as files from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createServiceState } from '../../src/client/service-state.ts';
import { KEY, list, testClient } from '../helpers/client.ts';
import { type ManualClock, manualClock, uptimeOf } from '../helpers/clock.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const ORIGIN = 'https://shop.example';
const SECOND = 1_000;
const HOUR = 3_600 * SECOND;

const OTHER = { baseUrl: 'https://other.example/v1' };

type Change = {
  baseUrl?: string;
  key?: string;
  now?: ManualClock['now'];
  uptime?: ReturnType<typeof uptimeOf>;
};

/** A machine whose processes share two state directories. They use the second one if the first is not writable. */
async function machine() {
  const home = await temporaryDirectory();
  const clock = manualClock();
  const [first, second] = [join(home, 'first'), join(home, 'second')];
  const stateDirectories = [
    { path: first, isTemporary: false },
    { path: second, isTemporary: true },
  ];
  const process = ({ baseUrl = `${ORIGIN}/v1`, key = KEY, ...change }: Change = {}) => {
    const { now = clock.now, uptime = uptimeOf(clock) } = change;
    const options = { clock: { now }, uptime, stateDirectories };
    return createServiceState({ baseUrl, key }, options);
  };
  /** The directory of the state of the service. */
  const directory = async () => {
    const services = join(first, 'services');
    return join(services, (await files.readdir(services))[0] ?? '');
  };
  return { home, first, second, clock, process, directory };
}

type Machine = Awaited<ReturnType<typeof machine>>;
type Process = ReturnType<Machine['process']>;

/** The time until the next request may be sent, in milliseconds. */
const left = (state: Process, { clock }: Machine) => (state.pausedUntil() ?? clock.now()) - clock.now();

describe('a pause', () => {
  test('is shared by all processes until it ends', async () => {
    const place = await machine();
    const early = place.process();
    place.process().startPause(30_000.2);
    expect([left(early, place), left(place.process(), place)]).toEqual([30_001, 30_001]);
    place.clock.advance(30_001);
    expect([early.pausedUntil(), place.process().pausedUntil()]).toEqual([undefined, undefined]);
  });

  test.each<[string, Change, boolean, Change?]>([
    ['another process', {}, true],
    ['another protocol', { baseUrl: 'http://shop.example/v1' }, true],
    ['another name of this machine', { baseUrl: 'http://[::1]:1' }, true, { baseUrl: 'http://localhost:1' }],
    ['another key', { key: 'pets_other' }, false],
    ['another port', { baseUrl: `${ORIGIN}:8443/v1` }, false],
  ])('applies to one key at one server: %s', async (_name, change, isShared, first) => {
    const place = await machine();
    place.process(first).startPause(1_000);
    expect(left(place.process(change), place) > 0).toBe(isShared);
  });

  test('is as long as the longest, and never shortened', async () => {
    const place = await machine();
    for (const seconds of [5, 50, 20]) place.process().startPause(seconds * SECOND);
    expect(left(place.process(), place)).toBe(50_000);
    place.process().startPause(48 * HOUR);
    expect(left(place.process(), place)).toBe(25 * HOUR);
    place.process().endPauses();
    expect(place.process().pausedUntil()).toBeUndefined();
  });

  const steps = [-24 * HOUR, -2 * SECOND, 2 * SECOND, 24 * HOUR];
  test.each(steps)('lasts as long for a process whose clock differs by %i ms', async (step) => {
    const place = await machine();
    const { clock, process } = place;
    const other = process({ now: () => clock.now() + step });
    const leftOfOther = () => (other.pausedUntil() ?? 0) - clock.now() - step;
    process().startPause(30_000);
    clock.advance(10_000);
    expect(leftOfOther()).toBeGreaterThanOrEqual(20_000);
    expect(leftOfOther()).toBeLessThanOrEqual(20_020);
    // A later pause counts from its own start, whichever process starts it.
    other.startPause(60_000);
    clock.advance(50_000);
    expect(left(process(), place)).toBeGreaterThanOrEqual(10_000);
    expect(left(process(), place)).toBeLessThanOrEqual(10_020);
    clock.advance(10_020);
    expect([process().pausedUntil(), other.pausedUntil()]).toEqual([undefined, undefined]);
  });

  test.each<[string, number, number]>([
    ['10 s later', 10_000, 20_000],
    ['a day later', 24 * HOUR, 0],
    ['with a clock that is slow: the whole duration counts from now', -24 * HOUR, 30_000],
  ])('after a restart of the machine, %s', async (_name, step, expected) => {
    const place = await machine();
    place.process().startPause(30_000);
    place.clock.step(step);
    const restarted = place.process({ uptime: () => ({ boot: 'next', milliseconds: 5 }) });
    expect(left(restarted, place)).toBe(expected);
  });

  test.each([60_000, 10_000])(
    'of 50 s is kept if others start one of %i ms at the same time',
    async (other) => {
      const place = await machine();
      const { process, clock } = place;
      let started = 0;
      // Each of the first three times that the process looks at the time, another process changes the state.
      const interrupted = process({
        now() {
          if (started++ < 3) process().startPause(other + started);
          return clock.now();
        },
      });
      interrupted.startPause(50_000);
      expect(started).toBeGreaterThan(3);
      expect(left(process(), place)).toBe(Math.max(50_000, other + 3));
    },
  );
});

test('no file name contains the key or the origin, and only the user can read the files', async () => {
  const { process, first, directory } = await machine();
  const service = process();
  service.startPause(1_000);
  service.recordIdempotencySupport(true);
  const encoded = (['base64', 'hex'] as const).map((encoding) => Buffer.from(KEY).toString(encoding));
  const [file = ''] = await files.readdir(await directory());
  const text = (await files.readdir(first, { recursive: true })).join('\n');
  for (const secret of [KEY, 'shop', 'https', ...encoded]) expect(text).not.toContain(secret);
  const modes = await Promise.all([first, join(await directory(), file)].map((path) => files.stat(path)));
  expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o700, 0o600]);
});

test('waits that have ended are deleted, and files that are not entries are ignored', async () => {
  const place = await machine();
  place.process().startPause(1_000);
  const directory = await place.directory();
  for (const name of ['wait-all', 'wait-all,-1,0,,0', 'wait-all,x,0,,0', 'draft'])
    await files.writeFile(join(directory, name), '9');
  expect(left(place.process(), place)).toBe(1_000);
  place.clock.advance(1_000);
  place.process().startPause(2_000);
  const waits = (await files.readdir(directory)).filter((name) => /^wait-all,\d/.test(name));
  expect([waits.length, left(place.process(), place)]).toEqual([1, 2_000]);
});

const makeDirectory = async (path: string, mode: number) => {
  await files.mkdir(path);
  await files.chmod(path, mode);
};
const BELONGS_TO_ANOTHER_USER: [string, (place: Machine) => Promise<unknown>] = [
  'belongs to another user',
  async ({ second }) => {
    await makeDirectory(second, 0o700);
    await files.chown(second, 12_345, 12_345);
  },
];

describe('the fallback', () => {
  test.each<[string, (place: Machine) => Promise<unknown>]>([
    ['is below /proc, where mkdir fails with ENOENT', ({ first }) => files.symlink('/proc/missing', first)],
    [
      'does not accept the state',
      ({ first }) => files.mkdir(first).then(() => files.writeFile(join(first, 'services'), '')),
    ],
  ])('is written, with mode 0700, and read, if the first directory %s', async (_what, prepare) => {
    const place = await machine();
    await prepare(place);
    place.process().startPause(1_000);
    expect(left(place.process(), place)).toBe(1_000);
    expect((await files.stat(place.second)).mode & 0o777).toBe(0o700);
  });

  const isRoot = process.getuid?.() === 0;
  test
    .runIf(process.getuid !== undefined)
    .each<[string, (place: Machine) => Promise<unknown>]>([
      ['is a symbolic link', ({ home, second }) => files.symlink(join(home, 'target'), second)],
      ['has permissions for others', ({ second }) => makeDirectory(second, 0o707)],
      ...(isRoot ? [BELONGS_TO_ANOTHER_USER] : []),
    ])(
    'is neither written nor read if it %s, and each process remembers its own pauses',
    async (_what, prepare) => {
      const place = await machine();
      await files.writeFile(place.first, '');
      await files.mkdir(join(place.home, 'target'));
      await prepare(place);
      const namesIn = () => files.readdir(place.home, { recursive: true });
      const content = async () => [await namesIn(), (await files.lstat(place.second)).mode];
      const before = await content();
      const own = place.process();
      own.startPause(1_000);
      expect([left(own, place), left(place.process(), place)]).toEqual([1_000, 0]);
      expect(await content()).toEqual(before);
      own.endPauses();
      expect(left(own, place)).toBe(0);
    },
  );
});

describe('support of Idempotency-Key', () => {
  const withValue = (value: string) => ({ 'Idempotency-Supported': value });
  const supported = withValue('true');
  test.each<[string, number, Record<string, string>, before: boolean, after: boolean]>([
    ['a success with the header', 200, supported, false, true],
    ['503 with the header', 503, supported, false, true],
    ['a success with false', 200, withValue('false'), true, false],
    ['503 without the header', 503, {}, true, false],
    ['503 of a server that starts', 503, { code: 'starting' }, true, true],
    ['511 of a captive portal', 511, {}, true, true],
    ['429 without the header', 429, {}, true, true],
  ])('after %s', async (_name, status, { code = 'a_code', ...headers }, before, after) => {
    const error = { code, message: 'no', status: 0 };
    const server = await scriptedServer((_, response) =>
      reply(response, status, status === 200 ? [] : status === 511 ? '<html>' : error, headers),
    );
    const { client } = testClient(server.url, { supportsIdempotency: before });
    await list(client).catch(() => {});
    expect(client.supportsIdempotency()).toBe(after);
  });

  test('is recorded for all processes with a key at an origin, and ends after a day', async () => {
    const { process, clock } = await machine();
    const supports = (change: Change = {}) => process(change).supportsIdempotency();
    expect(supports()).toBe(false);
    process().recordIdempotencySupport(true);
    expect([supports(), supports(OTHER)]).toEqual([true, false]);
    process().recordIdempotencySupport(false);
    expect(supports()).toBe(false);
    process().recordIdempotencySupport(true);
    clock.set('2026-11-21T23:59:59Z');
    expect(supports()).toBe(true);
    clock.set('2026-11-22T00:00:00Z');
    expect(supports()).toBe(false);
  });
});
