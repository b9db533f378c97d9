import { writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { importing, type Options, type Step, scenario } from '../helpers/import-commands.ts';
import { reply } from '../helpers/scripted-server.ts';

const SEVEN = 'name,category,status\nFürst Pückler,2,\nRex,1,sold\nBella,2,\nLola,3,\nA,4,\nB,5,\nC,6,\n';
const CHANGED = 'name,category\nRex,1\nBella,2\nLolita,3\nNew,4\n';
const DRY: Step = { args: '--dry-run', stdout: '', isOffline: true };
const FAILED: Step = { replies: { Lola: 422 }, code: 8 };

describe('a dry run reports what the same command would do', () => {
  const cases: [string, Options, ...Step[]][] = [
    [
      'for a file that was never added',
      {},
      { ...DRY, stderr: /^note: dry run: would add 3 rows from FILE at .*\n$/, createsNothing: true },
      { ...DRY, args: '--dry-run --json', stdout: /Rex/, createsNothing: true },
    ],
    [
      'for a file of which some rows are added',
      {},
      FAILED,
      {
        ...DRY,
        stderr:
          /would add 1 of 3 rows from FILE at .*; 2 already added on 2026-11-20 12:00 UTC from animals.csv\n$/,
      },
    ],
    [
      'for a file that is added',
      {},
      {},
      {
        ...DRY,
        stderr:
          /^note: dry run: nothing to add; all 3 rows were added on 2026-11-20 12:00 UTC from animals.csv\n$/,
      },
    ],
    [
      'for a file that was added more than 30 days ago',
      {},
      {},
      { ...DRY, hoursLater: 31 * 24, stderr: 'would add 3 rows' },
    ],
    [
      'for a file with a row that may have been added',
      { supportsKeys: false },
      { replies: { Lola: 'lost' }, code: 8 },
      {
        ...DRY,
        stderr: 'dry run: would add at most 1 of 3 rows from FILE',
      },
    ],
    [
      'for a changed file, with and without --skip-added and --add-again, and changes nothing',
      {},
      FAILED,
      {
        ...DRY,
        text: CHANGED,
        stderr:
          /dry run: pets would stop. FILE: 2 of 4 rows were added on .*: pets import FILE --skip-added; to add all 4: pets import FILE --add-again\n$/,
      },
      {
        ...DRY,
        args: '--dry-run --skip-added',
        stderr:
          /would add 2 of 4 rows from .* at .*; 2 already added on 2026-11-20 12:00 UTC from animals.csv\n$/,
      },
      {
        ...DRY,
        args: '--dry-run --add-again',
        stderr: /would add 4 rows from .* at .*\n$/,
      },
      { code: 1 },
      { args: '--skip-added', sends: 'Lolita New' },
    ],
  ];
  for (const [name, options, ...steps] of cases) scenario(name, options, ...steps);

  test('for a file with a damaged ledger, which is left as it is', async () => {
    const { run, ledger, ledgerPath } = await importing();
    await run({});
    await writeFile(await ledgerPath(), 'hello\n');
    await run({ ...DRY, stderr: /pets would stop. .*ledger.ndjson is damaged/ }, { code: 1 });
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

describe('a dry run shows', () => {
  test('the first rows on a terminal, and how many more there are', async () => {
    const { add } = await importing({ text: SEVEN });
    const { stdout, stderr } = await add(['--dry-run'], { columns: 80 });
    expect(stderr).toContain('… and 2 rows more');
    expect(stdout.split('\n').map((line) => line.trim().replace(/ +/g, ' '))).toEqual([
      'LINE NAME CATEGORY STATUS',
      '2 Fürst Pückler 2',
      '3 Rex 1 sold',
      '4 Bella 2',
      '5 Lola 3',
      '6 A 4',
      '',
    ]);
  });

  const JSON_OF_ALL =
    '[{"name":"Rex","categoryId":1},{"name":"Bella","categoryId":2},{"name":"Lola","categoryId":3}]\n';
  scenario(
    'every request body with --json, whatever was added before',
    {},
    { ...DRY, args: '--dry-run --json', stdout: JSON_OF_ALL },
    FAILED,
    {
      ...DRY,
      args: '--dry-run --json',
      columns: 80,
      stdout: /"name": "Rex",(.*\n)+.*"name": "Lola"/,
      stderr: /^\{"notice":".*2 already added.*"\}\n$/,
    },
  );

  scenario(
    'which fields are not sent because the service does not have them',
    { text: 'name,category,price\nRex,9007199254740993,12\n' },
    {
      ...DRY,
      args: '--dry-run --json',
      stdout: '[{"name":"Rex","categoryId":9007199254740993}]\n',
      stderr: 'fields not sent, because the service does not have them: price; no row has a status',
    },
    { results: '2 added 1 Rex' },
  );
});
