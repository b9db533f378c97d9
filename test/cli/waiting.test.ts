import { describe, expect, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { runInTerminal } from '../helpers/context.ts';
import { runAgainst } from '../helpers/in-terminal.ts';
import { closedPort } from '../helpers/listen.ts';
import { type Handler, reply, replyError } from '../helpers/scripted-server.ts';

const refuse =
  (headers: Record<string, string>): Handler =>
  (_, response) =>
    replyError(response, 429, 'rate_limited', headers);

describe('after a refused connection to this machine', () => {
  const list = async (args: string[], columns?: number) => {
    const env = { PETS_BASE_URL: `http://127.0.0.1:${await closedPort()}/v1`, PETS_API_KEY: 'pets_k' };
    return runInTerminal(['list', ...args], { env, ...(columns && { columns }) });
  };

  test('a command whose output is not a terminal announces five waits, and then fails', async () => {
    const { code, stderr } = await list([]);
    expect(code).toBe(6);
    expect(stderr.match(/^waiting .*/gm)).toEqual([
      'waiting 1 s (connection), until 12:00:00 UTC',
      'waiting 1 s (connection), until 12:00:01 UTC',
      'waiting 2 s (connection), until 12:00:02 UTC',
      'waiting 3 s (connection), until 12:00:05 UTC',
      'waiting 6 s (connection), until 12:00:11 UTC',
    ]);
  });

  test.each([
    [undefined, 6],
    [80, 3],
  ])('with a terminal of %s columns, there are %i attempts', async (columns, attempts) => {
    const { code, stderr } = await list(['--debug'], columns);
    expect(code).toBe(6);
    expect(stderr.match(/failed: NetworkError/g)).toHaveLength(attempts);
  });
});

test('a terminal shows a countdown of every wait, in steps of a second', async () => {
  const handler: Handler = (_, response, count) =>
    count < 4 ? replyError(response, 503) : reply(response, 200, []);
  const slept: number[] = [];
  const { code, stderr } = await runAgainst(handler, ['list'], {
    columns: 80,
    onSleep: (milliseconds) => slept.push(milliseconds),
  });
  expect(code).toBe(0);
  expect(slept).toEqual([375, 750, 500, 1_000]);
  expect(stderr.match(/waiting \d s \(server error\)/g)).toEqual(
    [1, 1, 2, 1].map((n) => `waiting ${n} s (server error)`),
  );
});

test('a countdown does not last longer if the clock is set back', async () => {
  const handler: Handler = (_, response, count) =>
    count === 1
      ? replyError(response, 429, 'rate_limited', { 'Retry-After': '5' })
      : reply(response, 200, []);
  const clock = manualClock();
  let slept = 0;
  const { code } = await runAgainst(handler, ['list'], {
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

test.each<[string, string[], Record<string, string>, sends: number, message: string, hint: string]>([
  [
    'the wait is too long',
    [],
    { 'Retry-After': '80' },
    1,
    'is rate-limited until 12:01:20 UTC (in 1 min 20 s): no',
    'try again after this time, or wait with --max-wait 80',
  ],
  [
    'no attempt is left',
    [],
    { 'Retry-After': '30' },
    6,
    'is rate-limited until 12:03:00 UTC (in 30 s): no',
    'try again after this time',
  ],
  [
    'retries are off',
    ['--no-retry'],
    { 'Retry-After': '30' },
    1,
    'is rate-limited until 12:00:30 UTC (in 30 s): no',
    'try again after this time',
  ],
  [
    'the service does not say when the limit ends, and retries are off',
    ['--no-retry'],
    {},
    1,
    'is rate-limited until 12:01:00 UTC (in 1 min): no',
    'try again after this time',
  ],
])(
  '%s: the error shows what the service has said, and what would have helped',
  async (_name, args, headers, sends, message, hint) => {
    const { code, stderr, server } = await runAgainst(refuse(headers), ['list', '--json', ...args]);
    const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
    expect([code, server.requests.length]).toEqual([5, sends]);
    expect([error.message.replace(/^\S+ /, ''), error.hint]).toEqual([message, hint]);
    expect(error.until).toMatch(/^2026-11-20T12:0/);
  },
);
