import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { RateLimitError } from '../../src/client/errors.ts';
import { createMarks, type Marks } from '../../src/client/marks.ts';
import { add, failureOf, list, PET, type TestClientOptions, testClient } from '../helpers/client.ts';
import { type ManualClock, manualClock } from '../helpers/clock.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const HOUR = 3_600_000;
const SECOND = 1_000;

type Script = { status: number; headers?: (clock: ManualClock) => Record<string, string> };

/** A machine with as many processes as are asked for, and a service that keeps when each request came. */
async function machine(...script: Script[]) {
  const directory = join(await temporaryDirectory(), 'services');
  const clock = manualClock();
  const arrivals: number[] = [];
  const server = await scriptedServer((request, response, count) => {
    arrivals.push(clock.now());
    const { status, headers } = script[count - 1] ?? { status: 200 };
    const body = request.method === 'POST' ? PET : [];
    const error = { code: 'a_code', message: 'no', status };
    reply(response, status, status < 300 ? body : error, {
      Date: new Date(clock.now()).toUTCString(),
      ...headers?.(clock),
    });
  });
  const process = (options: TestClientOptions = {}) =>
    testClient(server.url, { clock, marks: createMarks(directory, clock), ...options });
  /** One that does not wait. */
  const hasty = () => process({ maxWaitMilliseconds: undefined });
  return { directory, clock, start: clock.now(), server, arrivals, process, hasty };
}

const wait = (seconds: number | string) => () => ({ 'Retry-After': String(seconds) });
const spent =
  (seconds: number, remaining = '0') =>
  (clock: ManualClock) => ({
    'X-RateLimit-Remaining': remaining,
    'X-RateLimit-Reset': String(clock.now() / SECOND + seconds),
  });

describe('before a process was asked to wait for, no other sends', () => {
  test.each<[string, Script, number]>([
    ['a refusal says how long', { status: 429, headers: wait(30) }, 30],
    ['a refusal says no time: its backoff', { status: 429 }, 1],
    ['a refusal says when its window ends', { status: 429, headers: spent(20) }, 20],
    ['the last request of a window is spent', { status: 200, headers: spent(40) }, 40],
    ['the last request is spent by one that failed', { status: 404, headers: spent(40) }, 40],
    ['requests are left', { status: 200, headers: spent(40, '1') }, 0],
    [
      'a failing service says when it is back: that is for its own request',
      { status: 503, headers: wait(30) },
      0,
    ],
  ])('%s', async (_name, script, seconds) => {
    const { hasty, process, start, arrivals } = await machine(script);
    await list(hasty().client).catch(() => {});
    const other = process();
    await list(other.client);
    expect(arrivals).toEqual([start, start + seconds * SECOND]);
    expect(other.waits).toEqual(
      seconds === 0
        ? []
        : [{ reason: 'rate limit', milliseconds: seconds * SECOND, until: start + seconds * SECOND }],
    );
  });

  test('a creation neither, and nothing of it is in doubt', async () => {
    const { hasty, arrivals, start } = await machine({ status: 429, headers: wait(30) });
    await list(hasty().client).catch(() => {});
    const failure = (await failureOf(add(hasty().client))) as RateLimitError;
    expect(failure).toBeInstanceOf(RateLimitError);
    expect(failure).toMatchObject({ isAnswer: false, until: start + 30 * SECOND });
    expect(arrivals).toEqual([start]);
  });

  test('a wait that is longer than allowed fails at once, with nothing sent', async () => {
    const { hasty, process, arrivals, start } = await machine({ status: 429, headers: wait(76) });
    await list(hasty().client).catch(() => {});
    const { client, slept } = process();
    expect(await failureOf(list(client))).toMatchObject({ isAnswer: false, until: start + 76 * SECOND });
    expect([arrivals, slept]).toEqual([[start], []]);
  });

  test('those that wait do not come back at the same moment', async () => {
    const { hasty, process, clock } = await machine({ status: 429, headers: wait(30) });
    await list(hasty().client).catch(() => {});
    const before = clock.now();
    const ends = [];
    for (const random of [0, 0.5, 0.99]) {
      const { client, waits } = process({
        random: () => random,
        onSleep: () => {},
        sleep: async () => clock.advance(40_000),
      });
      await list(client);
      ends.push(...waits.map(({ until }) => until - before));
      clock.set(new Date(before).toISOString());
    }
    expect(ends).toEqual([30_000, 31_500, 32_970]);
  });
});

test('a process that was refused for two days waits two days, the others 25 hours', async () => {
  const { process, start, arrivals, clock } = await machine({ status: 429, headers: wait(48 * 3_600) });
  const patient = process({
    maxWaitMilliseconds: 1e9,
    onSleep: () => seen.push(process().service.coolDown.until()),
  });
  const seen: number[] = [];
  await list(patient.client);
  expect(arrivals).toEqual([start, start + 48 * HOUR]);
  expect(seen).toEqual([start + 25 * HOUR]);
  expect(clock.now()).toBe(start + 48 * HOUR);
});

describe('what another process notes between the look and the connection', () => {
  /** Marks that another process adds to right behind the first look. */
  const lateMarks = (marks: Marks, note: () => void): Marks => {
    let looks = 0;
    return {
      ...marks,
      list(group) {
        const names = marks.list(group);
        if (looks++ === 0) note();
        return names;
      },
    };
  };

  test.each([
    ['a read', list],
    ['a creation', add],
  ])('holds %s back: nothing arrives before', async (_name, call) => {
    const script: Script[] = call === add ? [{ status: 201 }] : [];
    const { process, start, arrivals, directory, clock } = await machine(...script);
    const other = process();
    const marks = lateMarks(createMarks(directory, clock), () => other.service.coolDown.note(start + 30_000));
    const { client, attempts, slept } = process({ marks });
    await call(client);
    expect(arrivals).toEqual([start + 30_000]);
    expect(slept).toEqual([30_000]);
    // What was held back was no attempt.
    expect(attempts).toHaveLength(1);
  });

  test('is no attempt: the first backoff behind it is that of a first one', async () => {
    const { process, start, arrivals, directory, clock } = await machine({ status: 429 });
    const other = process();
    const marks = lateMarks(createMarks(directory, clock), () => other.service.coolDown.note(start + 30_000));
    await list(process({ marks }).client);
    expect(arrivals).toEqual([start + 30_000, start + 31_000]);
  });

  test('fails it where the wait is longer than allowed, with nothing in doubt', async () => {
    const { process, start, arrivals, directory, clock } = await machine();
    const other = process();
    const marks = lateMarks(createMarks(directory, clock), () => other.service.coolDown.note(start + HOUR));
    const failure = await failureOf(add(process({ marks }).client));
    expect(failure).toBeInstanceOf(RateLimitError);
    expect(failure).toMatchObject({ isAnswer: false, until: start + HOUR });
    expect(arrivals).toEqual([]);
  });
});

describe('a probe', () => {
  const probe = ({ client }: ReturnType<typeof testClient>) =>
    client.call('listPets', { query: {} }, { probe: true });

  test('asks at once, and its success ends the cool-down for all', async () => {
    const { hasty, process, arrivals, start } = await machine({ status: 429, headers: wait(3_600) });
    await list(hasty().client).catch(() => {});
    await probe(hasty());
    await list(process().client);
    expect(arrivals).toEqual([start, start, start]);
  });

  test.each<[string, Script, number]>([
    ['refused anew', { status: 429, headers: wait(10) }, 3_600],
    ['refused for longer', { status: 429, headers: wait(7_200) }, 7_200],
    ['failed', { status: 503 }, 3_600],
    ['rejected', { status: 401 }, 3_600],
    ['the last of its window', { status: 200, headers: spent(50) }, 50],
  ])('that is %s leaves others waiting', async (_name, second, seconds) => {
    const { hasty, process, start } = await machine({ status: 429, headers: wait(3_600) }, second);
    await list(hasty().client).catch(() => {});
    await probe(hasty()).catch(() => {});
    expect(process().service.coolDown.until()).toBe(start + seconds * SECOND);
  });
});

test('a broken state directory: each process still obeys what it was told itself', async () => {
  const { directory, process, arrivals, start } = await machine({ status: 200, headers: spent(30) });
  await mkdir(join(directory, '..'), { recursive: true });
  await writeFile(directory, 'no directory');
  const { client } = process();
  await list(client);
  await list(client);
  await list(process().client);
  expect(arrivals).toEqual([start, start + 30_000, start + 30_000]);
});
