import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createProgressBar } from '../../src/cli/import/progress-bar.ts';
import { createConsole } from '../../src/cli/output/console.ts';
import type { CommandContext } from '../../src/cli/program/command.ts';
import type { RateLimit } from '../../src/client/rate-limit.ts';
import { manualClock } from '../helpers/clock.ts';

/** A progress bar of 100 rows, of which `done` were done before. `line` and `lines` return what the bar has shown. */
function bar({ done = 0, columns = 120, json = false } = {}) {
  const clock = manualClock();
  const stderr = Object.assign(new PassThrough(), columns > 0 ? { isTTY: true, columns } : {});
  let text = '';
  stderr.on('data', (chunk) => {
    text += chunk;
  });
  const context = { argv: [], stdout: new PassThrough(), stderr, env: {}, clock };
  const console = createConsole(context as unknown as CommandContext, { json, color: 'never' });
  const shown = createProgressBar({ console, clock }, { rows: 100 });
  shown.start(done);
  return {
    clock,
    bar: shown,
    /** Finishes `rows` more rows. The response to the last of them has the quota. */
    advance(rows: number, quota?: RateLimit) {
      for (let i = 1; i <= rows; i++) shown.advance(i === rows ? quota : undefined);
    },
    /** The line that is shown now. */
    line: () => text.split('\r\x1b[K').at(-1),
    lines: () => text.split('\n').slice(0, -1),
  };
}

test('the rate counts the rows of this run, and is not shown in the first second', () => {
  const { clock, advance, line } = bar({ done: 50 });
  clock.advance(900);
  advance(1);
  expect(line()).toBe('[########--------] 51/100');
  clock.advance(9_100);
  advance(9);
  expect(line()).toBe('[#########-------] 60/100; 60 rows/min, 40 s left');
});

test.each([
  ['no limit if the other rows fit into it', { limit: 10, remaining: 80 }, 60, '120 rows/min, 40 s left'],
  ['the limit if they do not', { limit: 10, remaining: 79 }, 60, '10 rows/min, 8 min left'],
  ['no limit above the measured rate', { limit: 1_000, remaining: 0 }, 60, '120 rows/min, 40 s left'],
  ['a limit per hour', { limit: 120, remaining: 79 }, 3_600, '2 rows/min, 40 min left'],
  ['a limit per second', { limit: 10, remaining: 5 }, 1, '120 rows/min, 40 s left'],
  ['no limit if its number is not known', { limit: undefined, remaining: 5 }, 60, '120 rows/min, 40 s left'],
])('the rate respects %s', (_name, quota, seconds, expected) => {
  const { clock, advance, line, bar: shown } = bar();
  clock.advance(10_000);
  advance(20, { ...quota, reset: clock.now() + seconds * 1_000 });
  // A response without rate-limit headers does not change the limit.
  shown.pause(undefined);
  expect(line()).toBe(`[###-------------] 20/100; ${expected}`);
});

test('the length of a window is the longest time until its end, until another limit is reported', () => {
  const { clock, advance, line } = bar();
  const quota = (limit: number, seconds: number) => ({
    limit,
    remaining: 0,
    reset: clock.now() + seconds * 1_000,
  });
  clock.advance(10_000);
  advance(10, quota(60, 3_600));
  advance(1, quota(60, 60));
  expect(line()).toContain('; 1 rows/min');
  advance(1, quota(30, 60));
  expect(line()).toContain('; 30 rows/min');
});

test('long times are shown in days and hours', () => {
  const { clock, advance, line } = bar();
  clock.advance(3_600_000);
  advance(1);
  expect(line()).toContain('4 days 3 h left');
});

test('a pause is shown before the rate until it ends, and the bar disappears at the end', () => {
  const { bar: shown, clock, advance, line } = bar();
  clock.advance(60_000);
  advance(50);
  shown.pause(['waiting 3 s']);
  expect(line()).toBe('[########--------] 50/100; waiting 3 s; 50 rows/min, 1 min left');
  shown.pause(undefined);
  expect(line()).toBe('[########--------] 50/100; 50 rows/min, 1 min left');
  shown.end();
  expect(line()).toBe('');
});

test.each([
  [100, '[########--------] 50/100; waiting 41 s (rate limit), until 12:01:41 UTC; 50 rows/min, 1 min left'],
  [80, '[########--------] 50/100; waiting 41 s (rate limit), until 12:01:41 UTC'],
  [60, '50/100; waiting 41 s (rate limit), until 12:01:41 UTC'],
  [40, '50/100; waiting 41 s'],
  [20, '50/100'],
])('%i columns show what fits', (columns, expected) => {
  const { bar: shown, clock, advance, line } = bar({ columns });
  clock.advance(60_000);
  advance(50);
  shown.pause([
    'waiting 41 s (rate limit), until 12:01:41 UTC',
    'waiting 41 s, until 12:01:41 UTC',
    'waiting 41 s',
  ]);
  expect(line()).toBe(expected);
});

test('without a terminal a line is written every 15 seconds', () => {
  const { clock, advance, lines } = bar({ columns: 0 });
  for (let second = 1; second <= 31; second++) {
    clock.advance(1_000);
    advance(1);
  }
  expect(lines()).toEqual(['15/100; 60 rows/min, 1 min 25 s left', '30/100; 60 rows/min, 1 min 10 s left']);
});

test('with --json the line is JSON', () => {
  const { clock, advance, lines } = bar({ columns: 0, json: true });
  clock.advance(15_000);
  advance(15);
  expect(lines().map((each) => JSON.parse(each))).toEqual([{ progress: { done: 1, rows: 100 } }]);
});
