import { expect, test } from 'vitest';
import { runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply, replyError } from '../helpers/scripted-server.ts';

// Whether `pets add` reports that an animal was added, was not added, or may have been added.

const REX = { id: 7, name: 'Rex', categoryId: 3 };

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

test.each(['storage_full', 'too_many_connections'])(
  '%s: it was not added, and the request is repeated',
  async (code) => {
    const { error, requests } = await addRex(refuse(503, code));
    expect(error).toEqual({
      code,
      exitCode: 7,
      status: 503,
      message: expect.stringMatching(/: no; the request was not carried out$/),
      hint: 'try again later',
    });
    expect(requests).toHaveLength(6);
  },
);

test('a rejected animal was not added', async () => {
  const { error } = await addRex(refuse(422, 'invalid_request'));
  expect(error.mayHaveBeenAdded).toBeUndefined();
});
