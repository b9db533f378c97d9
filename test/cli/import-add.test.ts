import { describe, expect, test } from 'vitest';
import { ALL_BEFORE, importing, manyRows, rejection, scenario } from '../helpers/import-commands.ts';

const AGAIN = 'if these are other animals, or the service was emptied: pets import FILE';

scenario(
  'a file is added row by row in its order, and is not added again; --add-again adds it again',
  {},
  {
    sends: 'Rex Bella Lola',
    stdout: '2\tadded\t1\tRex\t\n3\tadded\t2\tBella\t\n4\tadded\t3\tLola\t\n',
    stderr: /^note: added 3 of 3 rows\n$/,
  },
  { isOffline: true, results: ALL_BEFORE },
  { args: '--add-again --json', sends: 'Rex Bella Lola', keys: 6, stdout: /^\[(\{"line":.*?){3}\]\n$/ },
  {
    args: '--json',
    isOffline: true,
    stdout: /^\[(\{"line":[^}]*"added"[^}]*\},"before":true\},?){3}\]\n$/,
    stderr: `: 3 of 3 rows were sent before, last on 2026-11-20 12:00:00 UTC from animals.csv; ${AGAIN}`,
  },
);

scenario(
  'a file with a header and no rows sends nothing',
  { text: 'name,category\n' },
  { stdout: '', isOffline: true, stderr: 'there are no rows to add' },
  { args: '--json', stdout: '[]\n', isOffline: true },
);

describe('the rate limit', () => {
  test('is never exceeded: the run pauses at the end of each minute, with --quiet without a line of progress', async () => {
    let waited = 0;
    const quota = { perMinute: 10, perDay: 1_000 };
    const { service, run } = await importing({ text: manyRows(35), quota });
    await run({
      args: '--quiet',
      stderr: /^$/,
      onSleep(milliseconds) {
        waited += milliseconds;
      },
    });
    expect(service.names()).toHaveLength(35);
    // The command sends one request before the first row, and one for each of the 35 rows.
    expect([waited, service.requestCount()]).toEqual([180_000, 36]);
  });

  scenario(
    'of the day ends the run when it is used up, and the next run resumes it',
    { quota: { perMinute: 10, perDay: 3 } },
    {
      args: '--json',
      code: 5,
      stdout: '',
      keys: 2,
      stderr: 'added 2 of 3 rows; to continue: pets import FILE --json',
      error: {
        code: 'rate_limited',
        message: expect.stringMatching(
          /^pets sends no request to .* until 2026-11-21 00:00:00 UTC \(in 12 h\): /,
        ),
        hint: expect.stringContaining('try again after this time'),
      },
    },
    { code: 5, stderr: 'until 2026-11-21 00:00:00 UTC', keys: 2 },
    { hoursLater: 48, results: '2 added before 1 Rex, 3 added before 2 Bella, 4 added 3 Lola' },
  );

  scenario(
    'is shown by the progress bar of a terminal, which disappears at the end',
    { quota: { perMinute: 3, perDay: 1_000 } },
    {
      columns: 120,
      stdout: /LINE.*RESULT.*ID.*NAME/,
      stderr: [
        /\[##########------\] 2\/3; waiting \d+ s \(rate limit\), until 12:0\d:\d\d UTC/,
        /\r\x1b\[K.*added 3 of 3 rows\n$/,
      ],
    },
  );
});

scenario(
  'at a terminal, equal messages of rejected rows are one note with their lines; of more than 100 rows, those that were not added are listed',
  { text: manyRows(126) },
  {
    columns: 80,
    code: 8,
    replies: {
      '*': rejection('not\twanted'),
      ...Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`animal ${i}`, []])),
      'animal 110': rejection('too long'),
    },
    stdout: /^LINE.*NAME\n *102 +failed(.*\n){26}$/,
    stderr:
      /note: lines 102–111, 113–127: not\\twanted\nnote: line 112: too long\nerror: added 100 of 126 rows; 26 failed\n {2}→ fix the cause of the failed rows, then run pets import FILE --skip-added\n/,
  },
);
