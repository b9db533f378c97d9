import { describe, expect, test } from 'vitest';
import {
  ALL_BEFORE,
  importing,
  interruptWait,
  manyRows,
  rejection,
  scenario,
} from '../helpers/import-commands.ts';

scenario(
  'a file is added row by row in its order, and is not added again; --add-again adds it again',
  {},
  {
    sends: 'Rex Bella Lola',
    stdout: '2\tadded\t1\tRex\t\n3\tadded\t2\tBella\t\n4\tadded\t3\tLola\t\n',
    stderr: /^note: added 3 of 3 rows\n$/,
  },
  { isOffline: true, results: ALL_BEFORE },
  {
    args: '--add-again --json',
    sends: 'Rex Bella Lola',
    keys: 6,
    stdout: /^\[(\{"line":.*?){3}\]\n$/,
  },
  {
    args: '--json',
    isOffline: true,
    stdout: /^\[(\{"line":[^}]*"added"[^}]*\},"before":true\},?){3}\]\n$/,
    stderr:
      ': all 3 rows were added on 2026-11-20 12:00 UTC from animals.csv; to add every row again, for example after a reset: pets',
  },
);

test.each(['localhost', 'LOCALHOST.', '[::1]'])(
  'a file is not added again if the host is written as %s',
  async (host) => {
    const { service, run } = await importing();
    const { protocol, port, pathname } = new URL(service.url);
    const again = { PETS_BASE_URL: `${protocol}//${host}:${port}${pathname}/`, PETS_ALLOW_HTTP: '1' };
    await run({}, { env: again, isOffline: true, results: ALL_BEFORE });
  },
);

scenario(
  'a file with a header and no rows sends nothing',
  { text: 'name,category\n' },
  { stdout: '', isOffline: true },
  { args: '--json', stdout: '[]\n', isOffline: true },
);

describe('the rate limit', () => {
  test('is never exceeded: the run pauses at the end of each minute', async () => {
    let waited = 0;
    const quota = { perMinute: 10, perDay: 1_000 };
    const { service, run } = await importing({ text: manyRows(35), quota });
    await run({
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
          /^no request is sent to .* until 2026-11-21 00:00:00 UTC \(in 12 h\): /,
        ),
        hint: expect.stringContaining('try again after this time'),
      },
    },
    { code: 5, stderr: 'until 2026-11-21 00:00:00 UTC', keys: 2 },
    { hoursLater: 48, results: '2 added before 1 Rex, 3 added before 2 Bella, 4 added 3 Lola' },
  );

  test('delays a row before anything is written about it', async () => {
    const { run, ledger } = await importing({ quota: { perMinute: 1, perDay: 100 } });
    // The request before the first row uses up the limit.
    await run({ ...interruptWait, code: 130, keys: 0 });
    expect(await ledger()).not.toContain('"open"');
  });

  scenario(
    'is shown by the progress bar of a terminal, which disappears at the end',
    { quota: { perMinute: 3, perDay: 1_000 } },
    {
      columns: 120,
      stdout: /LINE.*RESULT.*ID.*NAME/,
      stderr: [
        /\r\x1b\[K\[#####-----------\] 1\/3/,
        /\[##########------\] 2\/3; waiting \d+ s \(rate limit\), until 12:0\d:\d\d UTC/,
        /\r\x1b\[K.*added 3 of 3 rows\n$/,
      ],
    },
  );
});

const long = (name: string) =>
  `${name} is not wanted, ${'because of a reason that takes a line, '.repeat(3)}END`;
const rejects = (name: string) => rejection(long(name));

scenario(
  'the messages of rejected rows are complete below the table, wrapped to the terminal; the table has a column for them only then',
  { text: manyRows(5) },
  {
    columns: 80,
    replies: { 'animal 3': rejects('animal 3') },
    code: 8,
    stdout: /^LINE.*MESSAGE\n(?!.*END)/,
    stderr: [
      /note: line 5: animal 3 is not wanted,[^→]* END\nerror: added 4 of 5/,
      // No line has 90 or more characters.
      /^(?![\s\S]*[^\r\n]{90})/,
    ],
  },
);
scenario(
  'the messages of rejected rows are shown up to the twentieth, with a count of the others; more than 100 rows are listed without those added',
  { text: manyRows(126) },
  {
    columns: 80,
    replies: {
      ...Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`animal ${i}`, []])),
      '*': rejects('it'),
    },
    code: 8,
    stdout: /^LINE.*\n *102 +failed(.*\n){26}$/,
    stderr:
      /^(?:(?![^\n]*note: line)[^\n]*\n)*(?:[^\n]*note: line \d+:[^\n]*\n {2}[^\n]*\n){20}note: … and 6 more; for all messages, add --json\n/,
  },
);
scenario(
  'the messages of rejected rows are only on stdout in a pipe, each in its line, with tabs and line ends escaped',
  {},
  {
    replies: { '*': rejection('not\tthis\none') },
    code: 8,
    stdout: /^2\tfailed\t\tRex\tnot\\tthis\\none\n.*this\\none\n.*this\\none\n$/,
    stderr: /^error: added 0 of 3 rows; 3 failed\n {2}→ fix the cause of the failed rows, then/,
  },
);
