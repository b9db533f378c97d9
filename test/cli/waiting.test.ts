import { expect, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { runInTerminal } from '../helpers/context.ts';
import { runAgainst } from '../helpers/in-terminal.ts';
import { closedPort } from '../helpers/listen.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const KEY = 'pets_profiles_key';

const refusedOnce =
  (seconds: number): Handler =>
  (_, response, count) =>
    count === 1
      ? replyError(response, 429, 'rate_limited', { 'Retry-After': String(seconds) })
      : reply(response, 200, []);

test('after a refused connection to this machine, there are three attempts within a second', async () => {
  const env = { PETS_BASE_URL: `http://127.0.0.1:${await closedPort()}/v1`, PETS_API_KEY: 'pets_k' };
  const slept: number[] = [];
  const { code, stderr } = await runInTerminal(['list', '--debug'], {
    env,
    onSleep: (milliseconds) => slept.push(milliseconds),
  });
  expect([code, slept, stderr.match(/failed: NetworkError/g)?.length]).toEqual([6, [300, 600], 3]);
  expect(stderr).toContain('start the local service: pets serve');
});

test('a terminal shows a countdown of every wait, in steps of a second, with the status of a server error', async () => {
  const handler: Handler = (_, response, count) =>
    count < 4 ? replyError(response, 503) : reply(response, 200, []);
  const slept: number[] = [];
  const { code, stderr } = await runAgainst(handler, ['list'], {
    columns: 80,
    onSleep: (milliseconds) => slept.push(milliseconds),
  });
  expect(code).toBe(0);
  expect(slept).toEqual([500, 1_000, 1_000, 1_000]);
  expect(stderr.match(/waiting \d s \(server error 503\)/g)).toHaveLength(4);
});

test('without a terminal, a wait is reported with its reason, length and end', async () => {
  const { stderr } = await runAgainst(refusedOnce(30), ['list']);
  expect(stderr).toBe('waiting 30 s (rate limit), until 12:00:30 UTC\n');
  const failedOnce: Handler = (_, response, count) =>
    count === 1 ? replyError(response, 503) : reply(response, 200, []);
  const json = await runAgainst(failedOnce, ['list', '--json']);
  const wait = { reason: 'server error', status: 503, seconds: 1, until: '2026-11-20T12:00:00.500Z' };
  expect(JSON.parse(json.stderr)).toEqual({ wait });
});

test('a wait ends when its time has passed, also if the machine slept meanwhile', async () => {
  const clock = manualClock();
  const slept: number[] = [];
  const { code, stderr } = await runAgainst(refusedOnce(60), ['list'], {
    columns: 80,
    clock,
    onSleep(milliseconds) {
      slept.push(milliseconds);
      // After two seconds, the machine sleeps for an hour.
      if (slept.length === 2) clock.advance(3_600_000);
    },
  });
  expect([code, slept]).toEqual([0, [1_000, 1_000]]);
  expect(stderr).not.toContain('waiting 58 s');
});

test('a countdown does not last longer if the clock is set back', async () => {
  const clock = manualClock();
  let slept = 0;
  const { code } = await runAgainst(refusedOnce(5), ['list'], {
    columns: 80,
    clock,
    onSleep(milliseconds) {
      if (slept === 0) clock.step(-86_400_000);
      slept += milliseconds;
    },
  });
  // The end of the wait is known to 10 ms, the precision of the system's uptime.
  expect([code, slept]).toEqual([0, 5_010]);
});

test('profiles --check includes the key of the environment, and a success ends its cool-down', async () => {
  let isRateLimited = true;
  const { url, requests } = await scriptedServer((_, response) => {
    if (!isRateLimited) return reply(response, 200, []);
    replyError(response, 429, 'rate_limited', { 'Retry-After': '99999999' });
  });
  const env = { PETS_BASE_URL: url, PETS_API_KEY: KEY, XDG_STATE_HOME: await temporaryDirectory() };
  expect((await runInTerminal(['list'], { env })).code).toBe(5);
  isRateLimited = false;
  expect((await runInTerminal(['list'], { env })).stderr).toContain('pets profiles --check');
  expect(requests).toHaveLength(1);
  const checked = await runInTerminal(['profiles', '--check', '--json'], { env });
  expect(JSON.parse(checked.stdout).at(-1)).toMatchObject({ profile: 'environment', check: { ok: true } });
  expect((await runInTerminal(['list'], { env })).code).toBe(0);
});

test.each([
  [['list', '--all', '--no-retry'], 1],
  [['list', '--all'], 2],
  [['list', '--max-wait', '29'], 1],
])('%j sends a request that gets 429 %i times', async (args, count) => {
  const { code, server } = await runAgainst(refusedOnce(30), args);
  expect([code, server.requests.length]).toEqual([count === 1 ? 5 : 0, count]);
});

test('during a rate limit, profiles --check sends one request a minute, so that checking cannot cause a ban', async () => {
  const { url, requests } = await scriptedServer((_, response) =>
    replyError(response, 429, 'rate_limited', { 'Retry-After': '3600' }),
  );
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: KEY });
  const clock = manualClock();
  for (let seconds = 0; seconds <= 70; seconds += 10) {
    const { code, stdout } = await machine.pets(['profiles', '--check', '--json'], { clock });
    const [{ check }] = JSON.parse(stdout);
    expect([code, check.ok, check.code, check.remaining]).toEqual([5, false, 'rate_limited', 0]);
    expect(Date.parse(check.reset)).toBeGreaterThan(clock.now());
    clock.advance(10_000);
  }
  // The first request started the cool-down. One request a minute may ignore the cool-down.
  expect(requests).toHaveLength(3);
});

test.each<[string, Handler, string[], number, string]>([
  [
    'no wait before a request is longer than the rest',
    refusedOnce(30),
    ['--max-time', '20'],
    5,
    'until 12:00:30 UTC (in 30 s)',
  ],
  [
    'no attempt is longer than the rest',
    (_, response) => void response.writeHead(200),
    ['--max-time', '0.2', '--no-retry'],
    6,
    'timed out after 0.2 s',
  ],
])('--max-time limits a whole command: %s', async (_name, handler, args, exit, text) => {
  const { code, stderr, server } = await runAgainst(handler, ['list', ...args]);
  expect([code, stderr]).toEqual([exit, expect.stringContaining(text)]);
  expect(server.requests).toHaveLength(1);
});

test('--max-time counts all requests of a command together', async () => {
  const clock = manualClock();
  const { code, stderr, server } = await runAgainst(
    (_, response, count) => {
      clock.advance(4_000);
      reply(response, 200, [], { Link: `</v1/pets?page=${count}>; rel="next"` });
    },
    ['list', '--all', '--max-time', '10'],
    { clock },
  );
  expect([code, stderr]).toEqual([6, expect.stringMatching(/no time is left for the request\n.*--max-time/)]);
  expect(server.requests).toHaveLength(3);
});
