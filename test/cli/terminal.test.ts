import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { startProgram } from '../helpers/context.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

test('get prints the animals that it has read before an error; a JSON document is complete or not there', async () => {
  const handler: Handler = ({ url = '' }, response) =>
    url.endsWith('/3')
      ? replyError(response, 401)
      : reply(response, 200, { id: Number(url.at(-1)), name: 'Rex', categoryId: 1 });
  const { code, stdout } = await runAgainst(handler, ['get', '1', '2', '3', '4']);
  expect([code, stdout]).toEqual([4, '1\tRex\t1\t\n2\tRex\t1\t\n']);
  const json = await runAgainst(handler, ['get', '1', '2', '3', '4', '--json']);
  expect([json.code, json.stdout]).toEqual([4, '']);
});

test('--debug logs each attempt with its headers, but never the key, even if the service echoes it', async () => {
  const { stderr, stdout } = await runAgainst(
    (request, response, count) =>
      count === 1
        ? request.socket.destroy()
        : replyError(response, 500, 'pets_secret_key', { 'X-Echo': 'pets_secret_key' }),
    ['list', '--debug', '--color', 'never'],
  );
  expect(stderr.match(/^GET http:\/\/127\.0\.0\.1:\d+\/v1\/pets\?limit=20$/gm)).toHaveLength(6);
  expect(stderr.match(/^ {2}> Authorization: Bearer …_key$/gm)).toHaveLength(6);
  expect(stderr).toMatch(/^failed: NetworkError: .* \(\d+ ms\)$/m);
  expect(stderr.match(/^500 \(\d+ ms\)$/gm)).toHaveLength(5);
  expect(stderr).toContain('  < x-echo: …_key');
  expect(stdout + stderr).not.toContain('pets_secret_key');
});

const REX = { id: 7, name: 'Rex', categoryId: 3, status: 'available' };

test.each<[string[], Record<string, string>, boolean]>([
  [[], {}, true],
  [['--color', 'never'], { FORCE_COLOR: '1' }, false],
  [['--color', 'always'], { NO_COLOR: '1' }, true],
  [[], { NO_COLOR: '1' }, false],
  [[], { NO_COLOR: '1', FORCE_COLOR: '1' }, false],
  [[], { NO_COLOR: '', FORCE_COLOR: '0' }, false],
  [[], { TERM: 'dumb' }, false],
])('a table with %j and %j has colors: %s', async (flags, env, isColored) => {
  const { stdout, stderr } = await runAgainst(respondWith([REX]), ['list', ...flags], { columns: 80, env });
  expect(stdout.includes('\u001b[32mavailable')).toBe(isColored);
  expect(/\u001b\[\d/.test(stdout + stderr)).toBe(isColored);
});

test.each([
  ['list --json', 'interrupted'],
  ['add Rex --category 1 --json', 'animal 7 was added, but not printed: interrupted'],
])('Ctrl-C ends pets %s while its output is not read: %s', async (line, message) => {
  const { url } = await scriptedServer(({ method }, response) =>
    method === 'GET' ? reply(response, 200, []) : reply(response, 201, { id: 7, name: 'Rex', categoryId: 1 }),
  );
  const home = await temporaryDirectory();
  const program = startProgram(line.split(' '), {
    stdout: new Writable({ write: () => setImmediate(program.raise, 'SIGINT') }),
    env: { PETS_BASE_URL: url, PETS_API_KEY: 'pets_key', PETS_CONFIG_DIR: home, PETS_STATE_DIR: home },
    homeDirectory: home,
  });
  expect([await program.ended, program.handlersLeft()]).toEqual([130, 0]);
  expect(program.stderr()).toContain(`"code":"interrupted","message":"${message}"`);
});
