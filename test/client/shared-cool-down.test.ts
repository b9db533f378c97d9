import { describe, expect, test } from 'vitest';
import { RateLimitError } from '../../src/client/errors.ts';
import { add, list, PET, rejection, type TestClientOptions, testClient } from '../helpers/client.ts';
import { type ManualClock, manualClock } from '../helpers/clock.ts';
import { closedPort } from '../helpers/listen.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { stateDirectory } from '../helpers/temp.ts';

const SECOND = 1_000;

type Step = { status: number; code?: string; headers?: (clock: ManualClock) => Record<string, string> };

/** Starts a service that responds with `steps`, and then with success. `process()` creates a client. */
async function machine(...steps: Step[]) {
  const stateDirectories = [stateDirectory()];
  const clock = manualClock();
  const arrivals: number[] = [];
  const server = await scriptedServer((request, response, count) => {
    arrivals.push(clock.now());
    const isPost = request.method === 'POST';
    const step: Step = steps[count - 1] ?? { status: isPost ? 201 : 200 };
    const { status, code = 'a_code', headers } = step;
    const error = { code, message: 'no', status };
    reply(response, status, status >= 300 ? error : isPost ? PET : [], {
      Date: new Date(clock.now()).toUTCString(),
      ...headers?.(clock),
    });
  });
  const process = (options: TestClientOptions = {}) =>
    testClient(server.url, { clock, stateDirectories, ...options });
  /** A process that does not wait or retry. */
  const impatient = () => process({ maxWaitMilliseconds: undefined });
  const listOnce = () => list(impatient().client).catch(() => {});
  return { clock, start: clock.now(), arrivals, process, impatient, listOnce };
}

const retryAfter = (seconds: number) => () => ({ 'Retry-After': String(seconds) });
const window =
  (seconds: number, remaining = '0') =>
  (clock: ManualClock) => ({
    'X-RateLimit-Remaining': remaining,
    'X-RateLimit-Reset': String(clock.now() / SECOND + seconds),
  });

describe('a response delays the requests of other processes', () => {
  test.each<[string, Step, typeof list | typeof add, typeof list | typeof add, number]>([
    ['429 with Retry-After', { status: 429, headers: retryAfter(30) }, list, add, 30],
    ['429 without Retry-After, for a minute', { status: 429 }, list, list, 60],
  ])('%s', async (_name, step, first, second, seconds) => {
    const { impatient, process, start, arrivals } = await machine(step);
    await rejection(first(impatient().client));
    const other = process();
    await second(other.client);
    const until = start + seconds * SECOND;
    expect(arrivals).toEqual([start, until]);
    expect(other.waits).toEqual([{ reason: 'rate limit', milliseconds: seconds * SECOND, until }]);
  });

  test('a creation waits before it has a connection', async () => {
    const url = `http://127.0.0.1:${await closedPort()}/v1`;
    const { client, service } = testClient(url, { maxWaitMilliseconds: undefined });
    service.startPause(30 * SECOND);
    expect(await rejection(add(client))).toBeInstanceOf(RateLimitError);
  });

  test.each([
    ['a read', list],
    ['a creation, which is not ambiguous', add],
  ])('longer than allowed: %s fails and nothing is sent', async (_name, call) => {
    const { listOnce, process, arrivals, start } = await machine({ status: 429, headers: retryAfter(76) });
    await listOnce();
    const { client, slept } = process();
    const error = await rejection(call(client));
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error).toMatchObject({ fromResponse: false, until: start + 76 * SECOND });
    expect([arrivals, slept]).toEqual([[start], []]);
  });
});

async function race(milliseconds: number, ...steps: Step[]) {
  const tested = await machine(...steps);
  const other = tested.process().service;
  let attempts = 0;
  // The timer of an attempt starts after the process has read the state, and before the connection is ready.
  const startTimer = () => void (attempts++ === 0 && other.startPause(milliseconds));
  return { ...tested, ...tested.process({ startTimer: () => startTimer() as undefined }) };
}

test.each([
  ['a read', list],
  ['a creation', add],
])('a cool-down that another process starts while this one connects defers %s', async (_name, call) => {
  const { client, arrivals, attempts, slept } = await race(30_000, { status: 429 });
  await call(client);
  expect(slept).toEqual([30_000, 60_000]);
  expect([arrivals.length, attempts.length]).toEqual([2, 2]);
});

test('a cool-down that another process starts while this one connects or writes its log defers a creation, also on an open connection', async () => {
  const { process, arrivals, start } = await machine();
  const { client, service } = process();
  await list(client);
  const log: string[] = [];
  const sendLog = {
    intent: async () => void (log.push('intent') === 1 && service.startPause(30_000)),
    notApplied: async () => void log.push('not sent'),
  };
  await client.call('createPet', { body: { name: 'Rex', categoryId: 3n } }, { sendLog });
  expect([arrivals, log]).toEqual([
    [start, start + 30_000],
    ['intent', 'not sent', 'intent'],
  ]);
});

test('a success of a request that was sent before a cool-down does not end it', async () => {
  const tested = await machine({
    status: 200,
    headers: () => {
      other.startPause(30_000);
      return {};
    },
  });
  const other = tested.process().service;
  await list(tested.process().client);
  expect(tested.process().service.pausedUntil()).toBe(tested.start + 30_000);
});

const probe = ({ client }: ReturnType<typeof testClient>) =>
  client.call('listPets', { query: {} }, { ignorePause: true });

test.each<[string, Step, number]>([
  ['429 with a longer delay', { status: 429, headers: retryAfter(7_200) }, 7_200],
  ['429 with a shorter delay, as after a lifted ban', { status: 429, headers: retryAfter(40) }, 40],
  ['429 without a delay', { status: 429 }, 3_600],
  ['503', { status: 503 }, 3_600],
  ['the last request of a window', { status: 200, headers: window(50) }, 50],
])('a request with ignorePause leaves a cool-down after %s', async (_name, second, seconds) => {
  const { listOnce, impatient, process, start } = await machine(
    { status: 429, headers: retryAfter(3_600) },
    second,
  );
  await listOnce();
  await probe(impatient()).catch(() => {});
  expect(process().service.pausedUntil()).toBe(start + seconds * SECOND);
});
