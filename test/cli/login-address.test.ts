import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

// The first request of `pets login` has no API key. These tests show what the command learns from the response.

/** Logs in to a server with this handler. Returns the result and the Authorization header of each request. */
async function loginTo(handler: Handler, options: string[] = []) {
  const server = await scriptedServer(handler);
  const machine = await freshMachine();
  const args = ['login', '--base-url', server.url, ...options];
  const ran = await machine.pets(args, { stdin: 'pets_secret_key' });
  return { ...ran, sent: server.requests.map(({ headers }) => headers.authorization) };
}

const asksForKey: Handler = ({ headers }, response) =>
  headers.authorization ? reply(response, 200, []) : replyError(response, 401);

test('the key is sent to the address that asks for one with 401, here that with /v1, and saved for the user alone', async () => {
  const server = await scriptedServer((request, response) =>
    request.url?.startsWith('/shop/v1/') ? asksForKey(request, response, 0) : replyError(response, 404),
  );
  const machine = await freshMachine();
  const baseUrl = `${server.origin}/shop`;
  const { code, stderr } = await machine.pets(['login', '--base-url', baseUrl], { stdin: 'pets_secret_key' });
  const saved = `saved key …_key for ${baseUrl}/v1 to profile prod. Next: pets list\n`;
  expect([code, stderr]).toEqual([0, expect.stringContaining(saved)]);
  expect((await stat(join(machine.configDirectory, 'prod.json'))).mode & 0o777).toBe(0o600);
  expect(server.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
    ['/shop/pets?limit=1', undefined],
    ['/shop/v1/pets?limit=1', undefined],
    ['/shop/v1/pets?limit=1', 'Bearer pets_secret_key'],
  ]);
});

const WAIT = { 'Retry-After': '99' };

test.each<[string, number, Handler, string]>([
  ['a list', 7, (_, response) => reply(response, 200, []), 'to save the key without sending it'],
  ['text', 7, (_, response) => reply(response, 200, 'log in first'), 'check the base URL'],
  ['a 429', 5, (_, response) => replyError(response, 429, 'rate_limited', WAIT), 'or add --no-verify'],
  [
    'a redirect to https',
    7,
    (request, response) => reply(response, 308, '', { Location: `https://127.0.0.1${request.url}` }),
    `redirect to https://127.0.0.1/v1/pets?limit=1 was not followed`,
  ],
  [
    'a redirect to another host',
    7,
    (request, response) => reply(response, 301, '', { Location: `https://evil.example${request.url}` }),
    'check the base URL http://127.0.0.1:',
  ],
])('the key is not sent after %s', async (_name, exitCode, handler, hint) => {
  const { code, sent, stderr } = await loginTo(handler);
  expect([code, sent]).toEqual([exitCode, [undefined]]);
  expect(stderr).toContain(hint);
});

test('with --no-verify nothing is sent', async () => {
  const { code, sent } = await loginTo((_, response) => replyError(response, 404), ['--no-verify']);
  expect([code, sent]).toEqual([0, []]);
});
