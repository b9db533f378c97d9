import { describe, expect, test } from 'vitest';
import { closedPort } from '../helpers/listen.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

// The first request of `pets login` has no API key. These tests show what the command learns from the response.

/** Logs in to a server with this handler. Returns the result and the Authorization header of each request. */
async function loginTo(handler: Handler, options: string[] = []) {
  const server = await scriptedServer(handler);
  const machine = await freshMachine();
  const args = ['login', '--with-key', '--base-url', server.url, ...options];
  const ran = await machine.pets(args, { stdin: 'pets_secret_key' });
  return { ...ran, sent: server.requests.map(({ headers }) => headers.authorization) };
}

const WITH_KEY = 'Bearer pets_secret_key';

test.each<[string, Handler]>([
  ['a list', (_, response) => reply(response, 200, [])],
  ['401', (_, response, count) => (count === 1 ? replyError(response, 401) : reply(response, 200, []))],
  ['403', (_, response, count) => (count === 1 ? replyError(response, 403) : reply(response, 200, []))],
  ['503', (_, response, count) => (count === 1 ? replyError(response, 503) : reply(response, 200, []))],
  ['429', (_, response, count) => (count === 1 ? replyError(response, 429) : reply(response, 200, []))],
  ['text', (_, response, count) => reply(response, 200, count === 1 ? 'log in first' : [])],
])('after %s without a key, the key is verified', async (_name, handler) => {
  const { code, sent } = await loginTo(handler);
  expect([code, sent]).toEqual([0, [undefined, WITH_KEY]]);
});

describe('the key is not sent', () => {
  test.each<[string, number, Handler, string]>([
    ['404', 7, (_, response) => replyError(response, 404), 'check the base URL http://127.0.0.1:'],
    [
      'a redirect to https',
      7,
      (request, response) => reply(response, 308, '', { Location: `https://127.0.0.1${request.url}` }),
      'use the base URL https://127.0.0.1/v1',
    ],
    [
      'a redirect to another host',
      7,
      (request, response) => reply(response, 301, '', { Location: `https://evil.example${request.url}` }),
      'check the base URL http://127.0.0.1:',
    ],
    ['a closed connection', 6, (request) => request.socket.destroy(), 'if the service uses https'],
  ])('after %s', async (_name, exitCode, handler, hint) => {
    const { code, sent, stderr } = await loginTo(handler);
    expect([code, sent]).toEqual([exitCode, [undefined]]);
    expect(stderr).toContain(hint);
  });

  test('at a port where nothing listens', async () => {
    const machine = await freshMachine();
    const url = `http://127.0.0.1:${await closedPort()}/v1`;
    const ran = await machine.pets(['login', '--with-key', '--base-url', url], { stdin: 'pets_secret_key' });
    expect([ran.code, ran.stderr]).toEqual([6, expect.stringContaining('connection refused')]);
  });
});

test('with --no-verify nothing is sent', async () => {
  const { code, sent } = await loginTo((_, response) => replyError(response, 404), ['--no-verify']);
  expect([code, sent]).toEqual([0, []]);
});

test.each([
  ['api.example.com/v1', 'add it: https://api.example.com/v1'],
  ['localhost:7387/v1', 'add it: http://localhost:7387/v1'],
  ['127.0.0.1/v1', 'add it: http://127.0.0.1/v1'],
  ['ftp://api.example.com/v1', 'for example https://api.example.com/v1'],
])('--base-url %s: %s', async (baseUrl, hint) => {
  const machine = await freshMachine();
  const { code, stderr } = await machine.pets(['login', '--with-key', '--base-url', baseUrl]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(hint)]);
});
