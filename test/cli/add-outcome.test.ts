import { describe, expect, test } from 'vitest';
import type { TerminalOptions } from '../helpers/context.ts';
import { runAgainst } from '../helpers/in-terminal.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

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

test.each<[string, Handler]>([
  ['201 with the animal', respond(201, REX)],
  ['201 with the name as the service stores it', respond(201, { ...REX, name: 'REX' })],
  ['200 with the animal', respond(200, REX)],
  ['203 with the animal', respond(203, REX)],
])('%s: added', async (_name, handler) => {
  const { code, stdout } = await addRex(handler);
  expect([code, JSON.parse(stdout).id]).toEqual([0, 7]);
});

test.each<[string, Handler]>([
  ['a cut connection', ({ socket }) => socket.destroy()],
  ['an internal error', refuse(500, 'internal_error')],
  ['a status of a proxy', respond(502, '<h1>Bad Gateway</h1>')],
  ['an error after a failed fsync', refuse(503, 'storage_failed')],
  ['the code of a full disk with another status', refuse(500, 'storage_full')],
  ['a redirect', respond(303, '', { Location: '/v1/pets/7' })],
  ['202', respond(202, REX)],
  ['204', respond(204, '')],
  ['200 with another animal', respond(200, { ...REX, name: 'Mia' })],
  ['200 with a list', respond(200, [REX])],
  ['201 without an id', respond(201, { name: 'Rex', categoryId: 3 })],
  ['201 with a page', respond(201, '<html>')],
])('%s: it may have been added', async (_name, handler) => {
  const { code, stdout, error, requests } = await addRex(handler);
  expect([code, stdout]).toEqual([6, '']);
  expect(error).toMatchObject({ code: 'outcome_unknown', mayHaveBeenAdded: true, exitCode: 6 });
  expect(requests).toHaveLength(1);
});

test('a response that did not arrive in time: it may have been added', async () => {
  const { code, error } = await addRex(() => {}, '--timeout', '0.1');
  expect([code, error.code, error.mayHaveBeenAdded]).toEqual([6, 'outcome_unknown', true]);
});

/** Cuts the connection of every creation, and responds to other requests with these headers. */
const cutCreation =
  (headers?: Record<string, string>): Handler =>
  (request, response) => {
    if (request.method === 'POST') request.socket.destroy();
    else reply(response, 200, [], headers);
  };

const listCommand = (hint: string) => /pets list --all[^;]*/.exec(hint)?.[0];

describe.each([
  ['Rex', ['add', 'Rex', '--category', '3']],
  ['a file', ['import', 'FILE']],
])('the hint after adding %s lists the same service', (_name, args) => {
  test.each<[string, string[], Record<string, string>, string]>([
    ['--profile', ['--profile', 'staging'], {}, '--profile staging'],
    ['PETS_PROFILE', [], { PETS_PROFILE: 'staging' }, '--profile staging'],
    ['the default profile', [], {}, '--profile prod'],
    ['--base-url', ['--base-url', "URL/it's"], {}, "--profile prod --base-url 'URL/it'\\''s'"],
    ['PETS_BASE_URL', [], { PETS_BASE_URL: 'URL/v2' }, '--profile prod --base-url URL/v2'],
    ['PETS_API_KEY', [], { PETS_API_KEY: 'k' }, ''],
    ['PETS_API_KEY and --base-url', ['--base-url', 'URL/v1'], { PETS_API_KEY: 'k' }, '--base-url URL/v1'],
  ])('with %s', async (_source, options, env, expected) => {
    const { origin } = await scriptedServer(cutCreation());
    const machine = await freshMachine();
    const file = await machine.file('a.csv', 'name,category\nRex,3\n');
    for (const name of ['prod', 'staging'])
      await machine.saveProfile(name, { baseUrl: `${origin}/v1`, key: 'k' });
    const withUrl = (text: string) => text.replace('URL', origin).replace('FILE', file);
    const variables = Object.entries(env).map(([name, value]) => [name, withUrl(value)]);
    const argv = [...args, ...options, '--json', '--no-retry'].map(withUrl);
    const { stderr } = await machine.pets(argv, { env: Object.fromEntries(variables) });
    const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
    expect(listCommand(error.hint)).toBe(withUrl(`pets list --all ${expected}`).trim());
  });
});

test('with an idempotency key, a GET first shows that the service supports it, and the hint quotes the key', async () => {
  const handler = cutCreation({ 'Idempotency-Supported': 'true' });
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
  ['too_many_connections', 6],
])('%s: it was not added, and the request is sent %i times', async (code, count) => {
  const { error, requests } = await addRex(refuse(503, code));
  expect(error).toEqual({
    code,
    exitCode: 7,
    status: 503,
    message: expect.stringMatching(/: no$/),
    hint: 'try again later',
  });
  expect(requests).toHaveLength(count);
});

test('a rejected animal was not added', async () => {
  const { error } = await addRex(refuse(422, 'invalid_request'));
  expect(error.mayHaveBeenAdded).toBeUndefined();
});

test.each<[TerminalOptions, string]>([
  [{ columns: 80 }, 'note: adding at HOST (key from PETS_API_KEY)\n'],
  [{ columns: 80, env: { TERM: 'dumb' } }, 'note: adding at HOST (key from PETS_API_KEY)\n'],
  [{}, ''],
])('a terminal shows to which service the animal is added: %o', async (options, notice) => {
  const argv = ['add', 'Rex', '--category', '3', '--color', 'never'];
  const { code, stderr, server } = await runAgainst(respond(201, REX), argv, options);
  expect([code, stderr]).toEqual([0, notice.replace('HOST', new URL(server.url).host)]);
});
