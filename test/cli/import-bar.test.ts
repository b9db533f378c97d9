import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createProgressBar } from '../../src/cli/import/run.ts';
import { createConsole } from '../../src/cli/output/console.ts';
import type { CommandContext } from '../../src/cli/program/command.ts';
import { manualClock } from '../helpers/clock.ts';

/** A progress bar of 100 rows. `line()` is the text after the last redraw. */
function bar({ columns = 120, json = false, quiet = false } = {}) {
  const clock = manualClock();
  const stderr = Object.assign(new PassThrough(), columns > 0 ? { isTTY: true, columns } : {});
  let text = '';
  stderr.on('data', (chunk) => {
    text += chunk;
  });
  const context = { argv: [], stdout: new PassThrough(), stderr, env: {}, clock };
  const console = createConsole(context as unknown as CommandContext, { json, quiet, color: 'never' });
  const shown = createProgressBar({ console, clock, globals: { quiet } as CommandContext['globals'] }, 100);
  return {
    pause: shown.pause,
    advance(rows: number, milliseconds: number) {
      clock.advance(milliseconds);
      for (let i = 0; i < rows; i++) shown.advance();
    },
    line: () => text.split('\r\x1b[K').at(-1),
    lines: () => text.split('\n').slice(0, -1),
  };
}

test('a terminal shows the rate after a minute, and the reason of a pause before it', () => {
  const { pause, advance, line } = bar();
  advance(1, 59_000);
  expect(line()).toBe('[----------------] 1/100');
  advance(19, 1_000);
  pause('waiting 3 s');
  expect(line()).toBe('[###-------------] 20/100; waiting 3 s; 20 rows/min, 4 min left');
  pause(undefined);
  expect(line()).toBe('[###-------------] 20/100; 20 rows/min, 4 min left');
});

test.each([
  [100, '[########--------] 50/100; waiting 41 s (rate limit); 50 rows/min, 1 min left'],
  [40, '[########--------] 50/100; waiting 4…'],
])('%i columns show what fits', (columns, expected) => {
  const { pause, advance, line } = bar({ columns });
  advance(50, 60_000);
  pause('waiting 41 s (rate limit)');
  expect(line()).toBe(expected);
});

test('without a terminal, a line is written every 15 seconds; with --json, it is JSON; with --quiet, there is none', () => {
  const { advance, lines } = bar({ columns: 0 });
  for (let second = 1; second <= 31; second++) advance(1, 1_000);
  expect(lines()).toEqual(['15/100', '30/100']);
  const other = bar({ columns: 0, json: true });
  other.advance(15, 15_000);
  expect(other.lines().map((each) => JSON.parse(each))).toEqual([{ progress: { done: 1, rows: 100 } }]);
  const quiet = bar({ columns: 0, quiet: true });
  quiet.advance(15, 15_000);
  expect(quiet.lines()).toEqual([]);
});
