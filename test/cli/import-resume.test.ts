import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  ALL,
  CSV,
  importing,
  interruptWait,
  limited,
  manyRows,
  type Step,
  scenario,
} from '../helpers/import-commands.ts';

test('a row whose request the service has refused was certainly not added, also two days later', async () => {
  // The service does not report that it supports idempotency keys, so pets would not repeat a row with unknown outcome.
  const { run } = await importing({ supportsKeys: false });
  const refused: Step = { replies: { Bella: limited(30) }, code: 130, stdout: '', sends: 'Rex Bella' };
  // The service gives each idempotency key the next id. Bella gets a second key, so no animal has the id 2.
  const results = '2 added before 1 Rex, 3 added 3 Bella, 4 added 4 Lola';
  await run(
    { ...refused, ...interruptWait, args: '--json', error: { code: 'interrupted' } },
    { hoursLater: 48, sends: 'Bella Lola', results },
  );
});

describe('a lost response', () => {
  scenario(
    'is repeated with the same idempotency key',
    {},
    { replies: { Bella: ['lost'] }, sends: 'Rex Bella Bella Lola', keys: 3, results: ALL },
  );

  const LOST: Step = {
    replies: { Bella: 'lost' },
    code: 8,
    results: '2 added 1 Rex, 3 unknown Bella, 4 added 3 Lola',
    lacks: '--idempotency-key',
    stderr: [
      'added 2 of 3 rows; 1 may have been added',
      'to let pets find out which rows were added, run pets import FILE\n',
    ],
  };
  const REPEATED = {
    sends: 'Bella',
    results: '2 added before 1 Rex, 3 added 2 Bella, 4 added before 3 Lola',
  };
  const UNKNOWN = { code: 8, results: '2 added before 1 Rex, 3 unknown Bella, 4 added before 3 Lola' };
  const NOT_REPEATED = { ...UNKNOWN, sends: '', stderr: '1 may have been added' };

  scenario('leaves the row unknown, and the next run repeats it', {}, LOST, { ...REPEATED, keys: 3 });
  scenario('is repeated 22 hours later', {}, LOST, { hoursLater: 22, ...REPEATED });
  scenario('is unknown 24 hours later', {}, LOST, { hoursLater: 24, ...NOT_REPEATED }, NOT_REPEATED);
  scenario('is unknown if the clock was set back', {}, LOST, { hoursLater: -1, ...NOT_REPEATED });
  const otherKey = { env: { PETS_API_KEY: 'pets_other' } };
  scenario('is unknown with another API key', {}, LOST, { ...otherKey, ...NOT_REPEATED });
  scenario(
    'is unknown if the repetition is rejected, and is repeated again',
    {},
    LOST,
    { replies: { Bella: 400 }, ...UNKNOWN, sends: 'Bella' },
    REPEATED,
  );

  const other = 'name,category\nBella,2\nMax,1\nTom,1\n';
  scenario('is repeated if another file has the row', {}, LOST, {
    text: other,
    sends: 'Bella Max Tom',
    keys: 5,
  });
  scenario(
    'is looked for in the inventory if another file has the row, and there are no keys',
    { supportsKeys: false },
    { ...LOST, stderr: 'run pets import FILE\n' },
    { text: other, code: 8, sends: 'Max Tom', stderr: 'searching the inventory for 1 row' },
  );
  const again = { args: '--add-again', keys: 6 };
  scenario(
    'keeps --add-again from adding the other rows twice',
    {},
    {},
    { ...again, replies: { Bella: 'lost' }, code: 8 },
    { ...again, sends: 'Bella' },
  );
  scenario(
    'of a row with an id, too',
    { text: 'id,name,category\n1,Rex,1\n2,Bella,2\n3,Lola,3\n' },
    { args: '--add-again', replies: { Bella: 'lost', Rex: 422 }, code: 8, stderr: 'FILE --add-again\n' },
    { args: '--add-again', sends: 'Bella Rex', keys: 4 },
  );
});

const CORRECTED = 'name,category\nRex,1\nBellissima,2\nLola,3\n';
const SENT = 'sent before, last on 2026-11-20 12:00:00 UTC from animals.csv';

describe('a changed file', () => {
  scenario(
    'stops with its new rows and the two ways on; --skip-added sends the new rows',
    {},
    { replies: { Bella: 422 }, code: 8 },
    {
      text: CORRECTED,
      args: '--json',
      code: 1,
      isOffline: true,
      error: {
        code: 'already_imported',
        message: `FILE: nothing was sent, because 2 of 3 rows were ${SENT}; new: line 3 Bellissima`,
        hint: 'for only the new rows: pets import FILE --json --skip-added; for every row again: pets import FILE --json --add-again',
      },
    },
    {
      args: '--skip-added',
      sends: 'Bellissima',
      results: '2 added before 1 Rex, 3 added 4 Bellissima, 4 added before 3 Lola',
      stderr: new RegExp(`^note: 2 of 3 rows were ${SENT}\nnote: added 1 of 3 rows; 2 were added before\n$`),
    },
    { args: '--skip-added --json', isOffline: true, stdout: /^\[(.*?"added".*?){3}\]\n$/ },
    {
      isOffline: true,
      stderr:
        '3 of 3 rows were sent before, last on 2026-11-20 12:00:00 UTC from animals.csv; if these are other animals, or the service was emptied: pets import FILE --add-again\n',
    },
  );

  scenario(
    'names at most ten new rows',
    {},
    {},
    {
      text: `${CSV}${manyRows(12).split('\n').slice(1).join('\n')}`,
      code: 1,
      stderr: /; new: line 5 animal 0, (line \d+ animal \d, ){8}line 14 animal 9 and 2 more\n/,
    },
  );

  test.each<[typed: string[], names: string, code: number]>([
    [['skip'], 'Bellissima', 0],
    [['x', '\x7fagain'], 'Rex Bellissima Lola', 0],
    [['stop'], '', 1],
    [[''], '', 1],
    [['\x03'], '', 130],
  ])('is a question at a terminal: %j', async (typed, names, code) => {
    const { service, run, add, file } = await importing();
    await run({});
    await writeFile(file, CORRECTED);
    const result = await add([], { columns: 200, typed });
    expect(result.stderr).toContain(`note: 2 of 3 rows were ${SENT}; new: line 3 Bellissima; `);
    expect(result.stderr).toContain('Skip the known rows, add them again, or stop? [stop/skip/again]');
    expect([result.code, service.names().slice(3).join(' ')]).toEqual([code, names]);
    expect(result.stderr.includes('add --dry-run and --skip-added, or')).toBe(code === 1);
  });
});

describe('a file with rows of an earlier one', () => {
  const rex = [{ line: 32, name: 'Rex' }];
  for (const [args, stderr] of [
    [
      '',
      `note: 1 of 31 rows was ${SENT} (line 32 Rex), and will be added again; for only the others: pets import`,
    ],
    ['--json', `{"addedAgain":${JSON.stringify(rex)}}\n`],
    ['--json --quiet', ''],
  ] as const)
    test(`names them unless --quiet, and sends them again ${args}`, async () => {
      const { run, add, directory } = await importing();
      await run({});
      const other = join(directory, 'other.csv');
      await writeFile(other, `${manyRows(30)}Rex,1\n`);
      const result = await add(args.split(' ').filter(Boolean), {}, other);
      expect([result.code, result.stderr]).toEqual([0, stderr && expect.stringContaining(stderr)]);
    });

  scenario(
    'with ids stops; --skip-added skips them',
    { text: 'id,name,category\n17,Rex,1\n316,Bella,2\n,Max,3\n' },
    {
      code: 1,
      isOffline: true,
      stderr:
        /^error: FILE: nothing was sent, because 2 rows have an id, and the service cannot change animals\n {2}→ for only the rows without an id: /,
    },
    {
      args: '--skip-added',
      sends: 'Max',
      stderr:
        /^note: skipping rows, because 2 rows have an id, and the service cannot change animals; to add a new animal, leave its id empty\nnote: added 1 of 1 row\n$/,
    },
    { args: '--skip-added', isOffline: true, stderr: `: 1 of 1 row was ${SENT}` },
    {
      text: '[{"id":18,"name":"Rex","categoryId":1}]',
      code: 1,
      stderr: 'for every row as a new animal: ',
    },
    { args: '--skip-added', isOffline: true, stderr: /nothing to do at .*: there are no rows to add/ },
    { args: '--add-again', sends: 'Rex' },
    { args: '--add-again', sends: 'Rex' },
  );
});
