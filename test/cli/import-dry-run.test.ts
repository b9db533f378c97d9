import { writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { importing, type Options, type Step, scenario } from '../helpers/import-commands.ts';
import { reply } from '../helpers/scripted-server.ts';

const CHANGED = 'name,category\nRex,1\nBella,2\nLolita,3\nNew,4\n';
const DRY: Step = { args: '--dry-run', isOffline: true };
const FAILED: Step = { replies: { Lola: 422 }, code: 8 };
const ALL = '2\tRex\t1\t\n3\tBella\t2\t\n4\tLola\t3\t\n';
const ADDED = 'on 2026-11-20 12:00 UTC from animals.csv';

describe('a dry run prints the rows that the same command would send, and ends as it would', () => {
  const cases: [string, Options, ...Step[]][] = [
    [
      'for a file that was never added',
      {},
      { ...DRY, stdout: ALL, stderr: /^note: dry run: would add 3 of 3 rows from FILE at .*\n$/ },
      { ...DRY, createsNothing: true },
    ],
    [
      'for a file of which some rows are added',
      {},
      FAILED,
      {
        ...DRY,
        stdout: '4\tLola\t3\t\n',
        stderr: new RegExp(`would add 1 of 3 rows from FILE at .*\n.*: 2 of 3 rows were added ${ADDED}\n$`),
      },
      { ...DRY, args: '--dry-run --json', stdout: '[{"name":"Lola","categoryId":3}]\n' },
    ],
    [
      'for a file that is added',
      {},
      {},
      {
        ...DRY,
        stdout: '',
        stderr: new RegExp(
          `^note: nothing to do at .*: all 3 rows were added ${ADDED}; to add every row again, for example after a reset: pets import FILE --add-again\n$`,
        ),
      },
      { ...DRY, args: '--dry-run --json', stdout: '[]\n' },
      { ...DRY, hoursLater: 31 * 24, stderr: 'would add 3 of 3 rows' },
    ],
    [
      'for a file with a row that may have been added',
      { supportsKeys: false },
      { replies: { Lola: 'lost' }, code: 8 },
      { ...DRY, stdout: '4\tLola\t3\t\n', stderr: 'dry run: would add at most 1 of 3 rows from FILE' },
    ],
    [
      'for a changed file, with and without --skip-added and --add-again, and changes nothing',
      {},
      FAILED,
      {
        ...DRY,
        text: CHANGED,
        args: '--dry-run --json',
        code: 1,
        stdout: '',
        error: { code: 'already_imported' },
      },
      { ...DRY, args: '--dry-run --skip-added', stdout: '4\tLolita\t3\t\n5\tNew\t4\t\n' },
      { ...DRY, args: '--dry-run --add-again', stderr: /would add 4 of 4 rows from .* at .*\n$/ },
      { args: '--skip-added', sends: 'Lolita New' },
    ],
  ];
  for (const [name, options, ...steps] of cases) scenario(name, options, ...steps);

  test('with a damaged ledger, which is left as it is', async () => {
    const { run, ledger, ledgerPath } = await importing();
    await run({});
    await writeFile(await ledgerPath(), 'hello\n');
    const damaged: Step = { code: 1, stdout: '', stderr: /ledger.ndjson is damaged/ };
    await run({ ...DRY, ...damaged }, damaged);
    expect(await ledger()).toBe('hello\n');
  });

  test('while another process adds the file', async () => {
    const { add, run } = await importing();
    const seen: string[] = [];
    const whileBellaIsAdded: Step['replies'] = {
      Bella: [
        (response) => {
          add(['--dry-run']).then(({ stderr }) => {
            seen.push(stderr);
            reply(response, 201, { id: 7, name: 'Bella', categoryId: 2 });
          });
        },
      ],
    };
    await run({ replies: whileBellaIsAdded, sends: 'Rex Bella Lola', stdout: /3\tadded\t7\tBella/ });
    expect(seen).toEqual([expect.stringContaining('2 of 3 rows')]);
  });
});

test('at a terminal, a dry run shows the first 100 rows, and how many more there are', async () => {
  const { add } = await importing({
    text: `name,category,status\nFürst Pückler,2,\nRex,1,sold\n${'A,4,\n'.repeat(100)}`,
  });
  const { stdout, stderr } = await add(['--dry-run'], { columns: 80 });
  expect(stderr).toContain('… and 2 rows more');
  const lines = stdout.split('\n').map((line) => line.trim().replace(/ +/g, ' '));
  expect(lines.slice(0, 3)).toEqual(['LINE NAME CATEGORY STATUS', '2 Fürst Pückler 2', '3 Rex 1 sold']);
  expect(lines.slice(100)).toEqual(['101 A 4', '']);
});
