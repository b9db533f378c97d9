import { expect, test } from 'vitest';
import type { TerminalOptions } from '../helpers/context.ts';
import { runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply, replyError } from '../helpers/scripted-server.ts';

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

test('a rejected animal was not added', async () => {
  const { error } = await addRex(refuse(422, 'invalid_request'));
  expect(error.mayHaveBeenAdded).toBeUndefined();
});

test.each<[TerminalOptions, string]>([
  [{ columns: 80 }, 'note: adding at HOST (key from PETS_API_KEY)\n'],
  [{}, ''],
])('a terminal shows to which service the animal is added: %o', async (options, notice) => {
  const argv = ['add', 'Rex', '--category', '3', '--color', 'never'];
  const { code, stderr, server } = await runAgainst(respond(201, REX), argv, options);
  expect([code, stderr]).toEqual([0, notice.replace('HOST', new URL(server.url).host)]);
});
