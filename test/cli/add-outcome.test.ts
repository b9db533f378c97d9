import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { runInTerminal, type TerminalOptions } from '../helpers/context.ts';
import { runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// These tests show when `pets add` reports that an animal was added, was not added, or may have been added.

const REX = { id: 7, name: 'Rex', categoryId: 3, status: 'available' };

const respond =
  (status: number, body: unknown, headers?: Record<string, string>): Handler =>
  (_, response) =>
    reply(response, status, body, headers);
const refuse =
  (status: number, code: string): Handler =>
  (_, response) =>
    replyError(response, status, code);

async function addRex(handler: Handler, ...options: string[]) {
  const argv = ['add', 'Rex', '--category', '3', '--json', ...options];
  const { code, stdout, stderr, server } = await runAgainst(handler, argv);
  const last = stderr.trim().split('\n').at(-1) || '{}';
  return { code, stdout, error: JSON.parse(last).error, requests: server.requests };
}

test.each([200, 203])('%i with the animal: added', async (status) => {
  const { code, stdout } = await addRex(respond(status, REX));
  expect([code, JSON.parse(stdout).id]).toEqual([0, 7]);
});

// test/client has the other responses after which the outcome is unknown.
test.each<[string, Handler]>([
  ['a cut connection', ({ socket }) => socket.destroy()],
  ['202', respond(202, REX)],
  ['200 with another animal', respond(200, { ...REX, name: 'Mia' })],
])('%s: it may have been added', async (_name, handler) => {
  const { code, stdout, error, requests } = await addRex(handler);
  expect([code, stdout]).toEqual([6, '']);
  expect(error).toMatchObject({ code: 'outcome_unknown', mayHaveBeenAdded: true, exitCode: 6 });
  expect(requests).toHaveLength(1);
});

test('with an idempotency key, a GET first shows that the service supports it, and the hint quotes the key', async () => {
  const handler: Handler = (request, response) => {
    if (request.method === 'POST') request.socket.destroy();
    else reply(response, 200, [], { 'Idempotency-Supported': 'true' });
  };
  const { error, requests } = await addRex(handler, '--idempotency-key', "a b'c", '--no-retry');
  expect(error).toMatchObject({ code: 'outcome_unknown', idempotencyKey: "a b'c" });
  expect(error.hint).toMatch(/with --idempotency-key 'a b'\\''c'$/);
  expect(requests.map(({ method }) => method)).toEqual(['GET', 'POST']);
});

test.each([
  // Disk space rarely becomes free within seconds.
  ['storage_full', 3],
  ['storage_unreachable', 6],
  ['starting', 6],
])('%s: it was not added, and the request is sent %i times', async (code, count) => {
  const { error, requests } = await addRex(refuse(503, code));
  expect(error).toEqual({
    code,
    exitCode: 7,
    status: 503,
    message: expect.stringMatching(/: no \(503\)$/),
    hint: 'try again later',
  });
  expect(requests).toHaveLength(count);
});

describe('the same name and category again within a day', () => {
  /** Adds an animal with the same state directory each time, and reports the question or note, and the requests. */
  async function shop() {
    const server = await scriptedServer((request, response, count) => {
      const headers = { 'Idempotency-Supported': 'true' };
      if (request.method === 'GET') return reply(response, 200, [], headers);
      const pet = JSON.parse(server.requests[count - 1]?.body ?? '');
      return reply(response, 201, { status: 'available', ...pet, id: count }, headers);
    });
    const PETS_STATE_DIR = await temporaryDirectory();
    const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_key', PETS_STATE_DIR };
    const clock = manualClock();
    const add = async (line: string, options: TerminalOptions = {}) => {
      const before = server.requests.length;
      const argv = ['add', ...line.split(' '), '--base-url', server.url];
      const ran = await runInTerminal(argv, { env, clock, ...options });
      return { ...ran, requests: server.requests.length - before };
    };
    return { add, clock, url: server.url, file: join(PETS_STATE_DIR, 'added.json') };
  }
  const AT_TERMINAL = { columns: 300, typed: ['n'] };
  const QUESTION =
    'this computer added Rex with the same category at 12:00:00 UTC. Add another animal? [no/yes]';

  test('is a question at a terminal, and nothing is sent after no', async () => {
    const { add, file, url } = await shop();
    expect(await add('Rex --category 3', AT_TERMINAL)).toMatchObject({ code: 0, requests: 1 });
    expect(await readFile(file, 'utf8')).not.toContain('Rex');
    const no = await add('Rex --category 3', AT_TERMINAL);
    expect(no).toMatchObject({ code: 1, stdout: '', requests: 0 });
    expect(no.stderr).toContain(QUESTION);
    expect(no.stderr).toContain('not confirmed; nothing was added');
    expect(no.stderr).toContain(`pets find --base-url ${url} -- Rex\n`);
    const yes = await add('Rex --category 3', { columns: 300, typed: ['y'] });
    expect(yes).toMatchObject({ code: 0, requests: 1 });
  });

  test('is a note in a script, which adds the animal', async () => {
    const { add } = await shop();
    expect((await add('Rex --category 3')).stderr).toBe('');
    const again = await add('Rex --category 3');
    expect(again).toMatchObject({ code: 0, requests: 1 });
    expect(again.stderr).toContain('note: this computer added Rex with the same category at 12:00:00 UTC');
    expect((await add('Rex --category 3 --no-input', AT_TERMINAL)).requests).toBe(1);
  });

  test('is the same only with the same name and category, without an idempotency key, and for a day', async () => {
    const { add, clock, file } = await shop();
    for (const line of [
      'Rex --category 3',
      'Rex --category 4',
      'rex --category 3',
      'Rex --category 3 --idempotency-key k',
    ])
      expect((await add(line, AT_TERMINAL)).code).toBe(0);
    clock.advance(86_400_000);
    expect((await add('Rex --category 3', AT_TERMINAL)).code).toBe(0);
    await writeFile(file, 'torn');
    expect((await add('Rex --category 3', AT_TERMINAL)).code).toBe(0);
  });
});

const respondWithPets: Handler = (request, response) =>
  request.method === 'POST'
    ? reply(response, 201, { ...REX, categoryId: 2 })
    : reply(response, 200, [REX, { ...REX, id: 8, name: 'Minka', categoryId: 2 }]);

test('without a name or a category, a terminal asks for the name, shows animals of each category, and asks for a number', async () => {
  const server = await scriptedServer(respondWithPets);
  const env = {
    PETS_BASE_URL: server.url,
    PETS_API_KEY: 'pets_key',
    PETS_STATE_DIR: await temporaryDirectory(),
  };
  const options = { env, columns: 300, typed: ['', 'Rex', 'cat', '2'] };
  const { code, stderr } = await runInTerminal(['add'], options);
  expect(stderr).toContain('category 3: Rex\n');
  expect(stderr).toContain('category 2: Minka\n');
  expect(stderr).toContain('the category must be a whole number');
  expect([code, server.requests.at(-1)?.body]).toEqual([0, '{"name":"Rex","categoryId":2}']);
});
