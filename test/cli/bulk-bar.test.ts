import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { RowCounts } from '../../src/cli/bulk/job-types.ts';
import { createProgress } from '../../src/cli/bulk/progress.ts';
import type { Runtime } from '../../src/cli/command.ts';
import { createConsole } from '../../src/cli/output/console.ts';
import { manualClock } from '../helpers/clock.ts';

/** A progress of 100 rows, of which some are added already, and what it has shown. */
function bar({
  added = 0,
  columns = 120,
  json = false,
}: {
  added?: number;
  columns?: number;
  json?: boolean;
} = {}) {
  const clock = manualClock();
  const stderr = Object.assign(new PassThrough(), columns > 0 ? { isTTY: true, columns } : {});
  let text = '';
  stderr.on('data', (chunk) => {
    text += chunk;
  });
  const context = { stdout: new PassThrough(), stderr, env: {}, clock };
  const console = createConsole(context as unknown as Runtime['context'], { json, color: 'never' });
  const counts: RowCounts = { added, failed: 0, unknown: 0, left: 100 - added };
  const progress = createProgress({ console, context } as unknown as Runtime, () => counts);
  return {
    clock,
    progress,
    settle(rows: number) {
      counts.added += rows;
      counts.left -= rows;
    },
    /** What is shown now. */
    line: () => text.split('\r\x1b[K').at(-1),
    lines: () => text.split('\n').slice(0, -1),
  };
}

test('a rate needs more than a moment, and counts what this run has done', () => {
  const { progress, clock, settle, line } = bar({ added: 50 });
  settle(1);
  clock.advance(900);
  progress.show();
  expect(line()).toBe('[########--------] 51/100');
  settle(9);
  clock.advance(9_100);
  progress.show();
  expect(line()).toBe('[#########-------] 60/100; 60 a minute, 40 s left');
});

test.each([
  ['what is left fits into the window', { limit: 10, remaining: 80 }, '120 a minute, 40 s left'],
  ['it does not', { limit: 10, remaining: 79 }, '10 a minute, 8 min left'],
  ['a limit above what was measured', { limit: 1_000, remaining: 0 }, '120 a minute, 40 s left'],
])('the rate is that of the limit where the window ends before the rows: %s', (_name, quota, expected) => {
  const { progress, clock, settle, line } = bar();
  settle(20);
  clock.advance(10_000);
  progress.show(quota);
  // An answer that says nothing of the window leaves what was said.
  progress.show();
  expect(line()).toBe(`[###-------------] 20/100; ${expected}`);
});

test('hours are told in hours', () => {
  const { progress, clock, settle, line } = bar();
  settle(1);
  clock.advance(3_600_000);
  progress.show();
  expect(line()).toContain('4 days 3 h left');
});

test('a pause is told before the rate, goes with its end, and the whole goes with the last row', () => {
  const { progress, clock, settle, line } = bar();
  settle(50);
  clock.advance(60_000);
  progress.pause(['waiting 3 s']);
  expect(line()).toBe('[########--------] 50/100; waiting 3 s; 50 a minute, 1 min left');
  progress.pause(undefined);
  expect(line()).toBe('[########--------] 50/100; 50 a minute, 1 min left');
  progress.end();
  expect(line()).toBe('');
});

test.each([
  [100, '[########--------] 50/100; waiting 41 s (rate limit), until 12:01:41 UTC; 50 a minute, 1 min left'],
  [80, '[########--------] 50/100; waiting 41 s (rate limit), until 12:01:41 UTC'],
  [60, '50/100; waiting 41 s (rate limit), until 12:01:41 UTC'],
  [40, '50/100; waiting 41 s'],
  [20, '50/100'],
])('on %i columns it tells what there is room for', (columns, expected) => {
  const { progress, clock, settle, line } = bar({ columns });
  settle(50);
  clock.advance(60_000);
  progress.pause([
    'waiting 41 s (rate limit), until 12:01:41 UTC',
    'waiting 41 s, until 12:01:41 UTC',
    'waiting 41 s',
  ]);
  expect(line()).toBe(expected);
});

test('where nothing can be drawn over, a plain line now and then', () => {
  const { progress, clock, settle, lines } = bar({ columns: 0 });
  for (let second = 1; second <= 31; second++) {
    settle(1);
    clock.advance(1_000);
    progress.show();
  }
  expect(lines()).toEqual(['15/100; 60 a minute, 1 min 25 s left', '30/100; 60 a minute, 1 min 10 s left']);
});

test('and a JSON line where a program reads', () => {
  const { progress, clock, settle, lines } = bar({ columns: 0, json: true });
  settle(15);
  clock.advance(15_000);
  progress.show();
  expect(lines().map((each) => JSON.parse(each))).toEqual([{ progress: { done: 15, rows: 100 } }]);
});
