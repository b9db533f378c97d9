import { describe } from 'vitest';
import { type Options, type Step, scenario } from '../helpers/import-commands.ts';

const CHANGED = 'name,category\nRex,1\nBella,2\nLolita,3\nNew,4\n';
const DRY: Step = { args: '--dry-run', isOffline: true };
const FAILED: Step = { replies: { Lola: 422 }, code: 8 };
const ALL = '2\tRex\t1\t\n3\tBella\t2\t\n4\tLola\t3\t\n';
const MUST_CHOOSE = /already_imported.* import FILE --dry-run --json --skip-added/;
const SENT = 'sent before, last on 2026-11-20 12:00:00 UTC from animals.csv';

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
        stderr: new RegExp(`would add 1 of 3 rows from FILE at .*\n.*; 2 of 3 rows were ${SENT}\n$`),
      },
      { ...DRY, args: '--dry-run --json', stdout: '[{"name":"Lola","categoryId":3}]\n' },
    ],
    [
      'for a file that is added',
      {},
      {},
      { ...DRY, stdout: '', stderr: /^note: nothing to do at .* pets import FILE --dry-run --add-again\n$/ },
      { ...DRY, hoursLater: 31 * 24, stderr: 'would add 3 of 3 rows' },
    ],
    [
      'for a changed file, with and without --skip-added and --add-again, and changes nothing',
      {},
      FAILED,
      { ...DRY, text: CHANGED, args: '--dry-run --json', code: 1, stdout: '', stderr: MUST_CHOOSE },
      { ...DRY, args: '--dry-run --skip-added', stdout: '4\tLolita\t3\t\n5\tNew\t4\t\n' },
      { ...DRY, args: '--dry-run --add-again', stderr: /would add 4 of 4 rows from .* at .*\n$/ },
      { args: '--skip-added', sends: 'Lolita New' },
    ],
  ];
  for (const [name, options, ...steps] of cases) scenario(name, options, ...steps);
});
