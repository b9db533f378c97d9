import { describe, expect, test } from 'vitest';
import { RateLimitError } from '../../src/client/errors.ts';
import { createSharedFlags, type SharedFlags } from '../../src/client/shared-flags.ts';
import { add, list, PET, rejection, type TestClientOptions, testClient } from '../helpers/client.ts';
import { type ManualClock, manualClock } from '../helpers/clock.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const HOUR = 3_600_000;
const SECOND = 1_000;

type Step = { status: number; headers?: (clock: ManualClock) => Record<string, string> };

/** Starts a service that responds to the first requests with `steps`, and then with success. `process()` creates a client. */
async function machine(...steps: Step[]) {
  const directory = await temporaryDirectory();
  const clock = manualClock();
  const arrivals: number[] = [];
  const server = await scriptedServer((request, response, count) => {
    arrivals.push(clock.now());
    const isPost = request.method === 'POST';
    const { status, headers } = steps[count - 1] ?? { status: isPost ? 201 : 200 };
    const error = { code: 'a_code', message: 'no', status };
    reply(response, status, status >= 300 ? error : isPost ? PET : [], {
      Date: new Date(clock.now()).toUTCString(),
      ...headers?.(clock),
    });
  });
  const flags = () => createSharedFlags([{ path: directory, isTemporary: false }], clock);
  const process = (options: TestClientOptions = {}) =>
    testClient(server.url, { clock, flags: flags(), ...options });
  /** A process that does not wait or retry. */
  const impatient = () => process({ maxWaitMilliseconds: undefined });
  const listOnce = () => list(impatient().client).catch(() => {});
  return { directory, clock, start: clock.now(), arrivals, flags, process, impatient, listOnce };
}

const retryAfter = (seconds: number) => () => ({ 'Retry-After': String(seconds) });
const window =
  (seconds: number, remaining = '0') =>
  (clock: ManualClock) => ({
    'X-RateLimit-Remaining': remaining,
    'X-RateLimit-Reset': String(clock.now() / SECOND + seconds),
  });

describe('a response delays the requests of other processes', () => {
  test.each<[string, Step, number]>([
    ['429 with Retry-After', { status: 429, headers: retryAfter(30) }, 30],
    ['not 503 with Retry-After, which is about its own request', { status: 503, headers: retryAfter(30) }, 0],
  ])('%s', async (_name, step, seconds) => {
    const { listOnce, process, start, arrivals } = await machine(step);
    await listOnce();
    const other = process();
    await list(other.client);
    const until = start + seconds * SECOND;
    expect(arrivals).toEqual([start, until]);
    const wait = { reason: 'rate limit', milliseconds: seconds * SECOND, until };
    expect(other.waits).toEqual(seconds === 0 ? [] : [wait]);
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

  test('with jitter, so that processes do not send at the same time', async () => {
    const { listOnce, process, start } = await machine({ status: 429, headers: retryAfter(30) });
    await listOnce();
    const { client, waits } = process({ random: () => 0.5 });
    await list(client);
    expect(waits.map(({ until }) => until - start)).toEqual([31_500]);
  });
});

describe('a cool-down that another process starts while this one connects', () => {
  /** Flags to which another process adds a deadline right after this process has read them for the first time. */
  async function race(milliseconds: number, ...steps: Step[]) {
    const tested = await machine(...steps);
    const { flags, process, start } = tested;
    const other = process().service.coolDown;
    const shared = flags();
    let reads = 0;
    const raced: SharedFlags = {
      ...shared,
      list(group) {
        const names = shared.list(group);
        if (reads++ === 0) other.extend(start + milliseconds);
        return names;
      },
    };
    return { ...tested, ...process({ flags: raced }) };
  }

  test.each([
    ['a read', list],
    ['a creation', add],
  ])('defers %s, which does not lengthen the backoff of a later 429', async (_name, call) => {
    const { client, arrivals, attempts, slept } = await race(30_000, { status: 429 });
    await call(client);
    expect(slept).toEqual([30_000, 1_000]);
    expect([arrivals.length, attempts.length]).toEqual([2, 2]);
  });

  test('longer than allowed: a creation fails and is not ambiguous', async () => {
    const { client, start, arrivals } = await race(HOUR);
    const failure = await rejection(add(client));
    expect(failure).toBeInstanceOf(RateLimitError);
    expect(failure).toMatchObject({ fromResponse: false, until: start + HOUR });
    expect(arrivals).toEqual([]);
  });
});

describe('a request with ignoreCoolDown', () => {
  const probe = ({ client }: ReturnType<typeof testClient>) =>
    client.call('listPets', { query: {} }, { ignoreCoolDown: true });

  test.each<[string, Step, number]>([
    ['429', { status: 429, headers: retryAfter(10) }, 3_600],
    ['429 with a longer delay', { status: 429, headers: retryAfter(7_200) }, 7_200],
    ['503', { status: 503 }, 3_600],
    ['401', { status: 401 }, 3_600],
    ['the last request of a window', { status: 200, headers: window(50) }, 50],
  ])('leaves a cool-down after %s', async (_name, second, seconds) => {
    const { listOnce, impatient, process, start } = await machine(
      { status: 429, headers: retryAfter(3_600) },
      second,
    );
    await listOnce();
    await probe(impatient()).catch(() => {});
    expect(process().service.coolDown.until()).toBe(start + seconds * SECOND);
  });
});
