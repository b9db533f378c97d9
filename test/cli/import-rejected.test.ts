import type { ServerResponse } from 'node:http';
import { describe, test } from 'vitest';
import { importing, manyRows, type Reply, type Step, scenario } from '../helpers/import-commands.ts';
import { reply, replyError } from '../helpers/scripted-server.ts';

const PROBLEM = { type: 'about:blank', title: 'Conflict', detail: 'the name is taken' };
const inFlight = (response: ServerResponse) =>
  replyError(response, 409, 'idempotency_in_flight', { 'Idempotency-Supported': 'true' });

describe('a row that the service rejects fails, and the run continues', () => {
  for (const [what, status, body, message] of [
    ['an Error object', 400, { code: 'wrong', message: 'not a name', status: 400 }, 'not a name'],
    ['problem details', 409, PROBLEM, 'the name is taken'],
  ] as const)
    scenario(
      `with status ${status} and ${what}`,
      { supportsKeys: status % 2 === 0 },
      {
        replies: { Bella: (response) => reply(response, status, body) },
        code: 8,
        sends: 'Rex Bella Lola',
        stdout: `2\tadded\t1\tRex\t\n3\tfailed\t\tBella\t${message}\n4\tadded\t3\tLola\t\n`,
      },
      { sends: 'Bella', results: '2 added before 1 Rex, 3 added 4 Bella, 4 added before 3 Lola' },
    );

  const rejected = { args: '--add-again', replies: { Bella: 422 }, code: 8, stderr: /of their own\n/ };
  scenario('with an id', { text: 'id,name,category\n1,Bella,1\n' }, rejected);
  for (const [status, code] of Object.entries({ 401: 4, 403: 1, 404: 7 }))
    scenario(
      `but ${status} does not concern a single row, and ends the run`,
      {},
      { replies: { Bella: Number(status) }, code, stdout: '', sends: 'Rex Bella' },
      { sends: 'Bella Lola' },
    );
  const mayBeAdded = { args: '--json', stdout: '', error: { mayHaveBeenAdded: true } };
  for (const [replies, code] of [
    [{ Bella: ['lost', 401] as Reply[] }, 4],
    [{ Bella: 'lost' as const, Lola: 401 }, 4],
  ] as const)
    scenario(
      `but 401 after a lost response ends the run, and the error says that a row may have been added (${Object.keys(replies)})`,
      {},
      { ...mayBeAdded, replies, code },
      { sends: 'Bella Lola' },
    );
});

describe('a row that may have been added is unknown, and the run continues', () => {
  const UNKNOWN: Step = { code: 8, results: '2 added 1 Rex, 3 unknown Bella, 4 added 3 Lola' };
  scenario(
    'if an attempt had no response and the next one is rejected',
    {},
    {
      ...UNKNOWN,
      replies: { Bella: ['lost', (response) => replyError(response, 400, 'wrong')] },
      sends: 'Rex Bella Bella Lola',
      stdout: /unknown\t\tBella\trejected \(no\), but an earlier attempt may have added the animal\n/,
    },
    { sends: 'Bella', keys: 3 },
  );
  scenario(
    'if the first request with its idempotency key never ends',
    {},
    { ...UNKNOWN, replies: { Bella: inFlight }, sends: `Rex ${'Bella '.repeat(6)}Lola` },
    { sends: 'Bella', keys: 3 },
  );
});

const lost = (...indices: number[]) =>
  Object.fromEntries(indices.map((i) => [`animal ${i}`, 'lost' as const]));

describe('without idempotency keys, a row with a lost response is unknown, and the run continues', () => {
  test('whatever hides the outcome', async () => {
    const replies: Record<string, Reply> = {
      'animal 3': 'lost',
      'animal 5': 500,
      'animal 7': 303,
      'animal 9': 202,
      'animal 11': (response) => reply(response, 201, 'not JSON'),
    };
    const { run } = await importing({ supportsKeys: false, text: manyRows(30) });
    await run({
      replies,
      code: 8,
      keys: 30,
      stderr: [
        'added 25 of 30 rows; 5 may have been added',
        'to let pets find out which rows were added, run pets import FILE\n',
      ],
    });
  });
});

for (const supportsKeys of [false, true])
  scenario(
    `five lost rows in a row end the run; the next run sends the other rows (${supportsKeys ? 'with' : 'without'} keys)`,
    { supportsKeys, text: manyRows(30) },
    {
      args: '--json',
      replies: lost(0, 1, 2, 3, 5, 6, 7, 8, 9),
      code: 6,
      keys: 10,
      stdout: '',
      stderr: 'added 1 of 30 rows; 9 may have been added; to continue: pets import FILE --json',
      error: { code: 'outcome_unknown', mayHaveBeenAdded: true, exitCode: 6 },
    },
    supportsKeys
      ? { keys: 30, stderr: 'added 29 of 30 rows; 1 was added before' }
      : { code: 8, keys: 30, stderr: 'added 20 of 30 rows; 1 was added before; 9 may have been added' },
  );
