import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  ALL,
  bulkAdd,
  CSV,
  interruptWait,
  limited,
  manyRows,
  type Step,
  scenario,
} from '../helpers/bulk-commands.ts';
import { replyError } from '../helpers/scripted-server.ts';

const diskFull = (response: ServerResponse) => replyError(response, 503, 'storage_full');

describe('a rejected row', () => {
  scenario(
    'fails alone, and only that row is tried again, with another idempotency key',
    {},
    {
      args: '--json',
      replies: { Bella: 400 },
      code: 8,
      sends: 'Rex Bella Lola',
      stdout: /"line":3,"result":"failed".*"error":\{"code":"no_.*"status":400/,
      keys: 3,
    },
    { sends: 'Bella', keys: 4, results: '2 added 1 Rex, 3 added 4 Bella, 4 added 3 Lola' },
  );

  for (const status of [413, 422])
    scenario(
      `fails with the status ${status}, too`,
      {},
      { replies: { Bella: status }, code: 8, results: '2 added 1 Rex, 3 failed Bella, 4 added 3 Lola' },
    );

  const INCOMPLETE: Step = { replies: { Bella: 401 }, stdout: '', sends: 'Rex Bella' };
  const REST = { sends: 'Bella Lola', results: ALL };
  // Also run each case without idempotency keys, because then a row that may have been added would become unknown.
  for (const [what, first, second] of [
    ['because of the API key', { ...INCOMPLETE, code: 4 }, {}],
    [
      'because of the API key; the next run uses another one',
      { ...INCOMPLETE, code: 4 },
      { env: { PETS_API_KEY: 'pets_new' } },
    ],
    [
      'because of a full disk of the service',
      { ...INCOMPLETE, args: '--no-retry', replies: { Bella: diskFull }, code: 7 },
      {},
    ],
    ['because of a wrong base URL', { ...INCOMPLETE, replies: { Bella: 404 }, code: 7 }, {}],
    [
      'because of the rate limit, and interrupted while it waits',
      {
        ...INCOMPLETE,
        ...interruptWait,
        args: '--json',
        error: { code: 'interrupted' },
        replies: { Bella: limited(30) },
        code: 130,
      },
      {},
    ],
  ] as [string, Step, Step][])
    for (const supportsKeys of [true, false])
      scenario(
        `${what} was certainly not added, also two days later (idempotency keys: ${supportsKeys})`,
        { supportsKeys },
        first,
        { hoursLater: 48, ...REST, ...second },
      );
});

test('Ctrl-C during a wait for the rate limit does not end the cool-down: the next run waits for the rest', async () => {
  const { run } = await bulkAdd();
  const waits: number[] = [];
  await run(
    { ...interruptWait, replies: { Bella: limited(30) }, code: 130 },
    { onSleep: (milliseconds) => waits.push(milliseconds), sends: 'Bella Lola', results: ALL },
  );
  expect(waits).toEqual([30_000]);
});

describe('a lost response', () => {
  scenario(
    'is repeated with the same idempotency key',
    {},
    { replies: { Bella: ['lost'] }, sends: 'Rex Bella Bella Lola', keys: 3, results: ALL },
  );

  const LOST: Step = {
    replies: { Bella: 'lost' },
    code: 6,
    stdout: '',
    lacks: '--idempotency-key',
    stderr: [/added 1 of 3 rows; to resume: pets import FILE\n/, /to resume: pets import \S+\n$/],
  };
  const REPEATED = { sends: 'Bella Lola', results: ALL, keys: 3 };
  const UNKNOWN = { code: 8, results: '2 added 1 Rex, 3 unknown Bella, 4 added 3 Lola' };
  const NOT_REPEATED = { ...UNKNOWN, sends: 'Lola', stderr: '1 may have been added', keys: 3 };
  const NEVER_AGAIN: Step = { ...UNKNOWN, sends: '' };

  scenario('ends the run, and the next one repeats the row', {}, LOST, REPEATED);
  scenario('is repeated 22 hours later', {}, LOST, { hoursLater: 22, ...REPEATED });
  scenario('is unknown 24 hours later', {}, LOST, { hoursLater: 24, ...NOT_REPEATED }, NEVER_AGAIN);
  scenario('is unknown if the clock was set back', {}, LOST, { hoursLater: -1, ...NOT_REPEATED });
  scenario('is unknown with another API key', {}, LOST, {
    env: { PETS_API_KEY: 'pets_other' },
    ...NOT_REPEATED,
  });
  scenario(
    'is unknown at once without idempotency keys, and is never sent again; the run continues',
    { supportsKeys: false },
    { ...UNKNOWN, replies: { Bella: 'lost' }, sends: 'Rex Bella Lola' },
    NEVER_AGAIN,
  );
  scenario(
    'has mayHaveBeenAdded in the error that ends the run',
    {},
    {
      args: '--json',
      replies: { Bella: 'lost' },
      code: 6,
      error: { code: 'outcome_unknown', mayHaveBeenAdded: true },
    },
  );
  scenario(
    'has mayHaveBeenAdded in the result of the row',
    { supportsKeys: false },
    {
      args: '--json',
      replies: { Bella: 'lost' },
      code: 8,
      stdout: /"line":3,"result":"unknown".*"code":"outcome_unknown",.*"mayHaveBeenAdded":true/,
    },
  );
  scenario(
    'because of Ctrl-C has mayHaveBeenAdded in the error that ends the run',
    {},
    {
      args: '--json',
      replies: { Bella: 'interrupt' },
      code: 130,
      error: { code: 'interrupted', mayHaveBeenAdded: true },
    },
  );
  scenario(
    'stays open if the repetition is not carried out',
    {},
    LOST,
    { replies: { Bella: 401 }, code: 4 },
    { hoursLater: 48, ...NOT_REPEATED },
  );
  scenario(
    'is unknown if the repetition is rejected: the first request may have been applied',
    {},
    LOST,
    { replies: { Bella: 400 }, ...UNKNOWN, sends: 'Bella Lola' },
    NEVER_AGAIN,
  );

  const INTERRUPTED = 'error: interrupted; one row was being sent; it may or may not have been added\n';
  scenario(
    'because of Ctrl-C is repeated by the next run',
    {},
    {
      replies: { Bella: 'interrupt' },
      code: 130,
      stderr: [INTERRUPTED, 'rerun the command to resume; the row is not added twice'],
      lacks: 'outcome is unknown',
    },
    REPEATED,
  );
  scenario(
    'because of Ctrl-C is unknown without idempotency keys',
    { supportsKeys: false },
    {
      replies: { Bella: 'interrupt' },
      code: 130,
      stderr: [INTERRUPTED, 'the row is not sent again but reported as unknown'],
      lacks: 'outcome is unknown',
    },
    NOT_REPEATED,
  );
});

const CORRECTED = 'name,category\nRex,1\nBellissima,2\nLola,3\n';

describe('a changed file', () => {
  scenario(
    'is refused with the command that adds the rest; --skip-added adds it, and prints only the rows of this run',
    {},
    { replies: { Bella: 422 }, code: 8 },
    {
      text: CORRECTED,
      args: '--json',
      code: 1,
      isOffline: true,
      error: {
        code: 'file_changed',
        hint: 'to add only the rows that were not added yet: pets import FILE --json --skip-added (--add-again would add 2 rows a second time)',
      },
    },
    {
      args: '--skip-added',
      sends: 'Bellissima',
      stdout: '3\tadded\t4\tBellissima\t\n',
      stderr: /^note: 2 of 3 rows already added; skipping them\nnote: added 3 of 3 rows\n$/,
    },
    { args: '--skip-added --json', isOffline: true, stdout: '[]\n' },
    { isOffline: true, results: '2 added 1 Rex, 3 added 4 Bellissima, 4 added 3 Lola' },
  );

  scenario(
    'with a lost response is added with --skip-added, and that row is repeated with its own key',
    {},
    { replies: { Bella: 'lost' }, code: 6 },
    {
      text: `name,category,status\nRex,1,\nBella,2,\nLolita,3,sold\n`,
      args: '--skip-added',
      sends: 'Bella Lolita',
      keys: 3,
    },
  );

  const TWELVE = /12 rows.* line 3 animal 1 \(id 2\)(, line \d+ animal \d+ \(id \d+\)){9}, and 2 more\n/;
  const formerRows = Array.from({ length: 12 }, (_, i) => ({
    line: i + 3,
    name: `animal ${i + 1}`,
    id: i + 2,
  }));
  for (const [args, stderr] of [
    ['', TWELVE],
    [' --json', `{"formerRows":${JSON.stringify(formerRows)}}\n`],
  ] as const)
    scenario(
      `reports the animals of rows that it no longer has, once: ten of them, or all with --json ${args}`,
      { text: manyRows(13) },
      {},
      { text: 'name,category\nanimal 0,1\nNew,1\n', args: `--skip-added${args}`, sends: 'New', stderr },
      { args: '--skip-added', lacks: 'animal 1' },
    );

  for (const [args, stderr] of [
    ['--skip-added --add-again', '--skip-added cannot be used with --add-again'],
    ['--skip-added', /found no earlier run of .* for http/],
  ] as const)
    scenario(
      `that was never added is refused with ${args}`,
      {},
      {
        args,
        code: 2,
        stderr,
        isOffline: true,
        leavesNoFiles: true,
      },
    );

  test('that is a pipe is refused with --skip-added', async () => {
    const { add, directory, service } = await bulkAdd();
    const pipe = join(directory, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const [{ code, stderr }] = await Promise.all([
      add(['--format', 'csv', '--skip-added'], {}, pipe),
      writeFile(pipe, CSV),
    ]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--skip-added needs a file path')]);
    expect(service.requestCount()).toBe(0);
  });
});
