import { expect, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';
import { closedPort } from '../helpers/listen.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

// Tests of `pets profiles` on a terminal and in a pipe. The manual clock shows 12:00:00.

const RESET = String(Date.parse('2026-11-20T12:00:42Z') / 1_000);

async function profiles(args: readonly string[], columns?: number) {
  const quota = {
    Date: 'Fri, 20 Nov 2026 12:00:00 GMT',
    'X-RateLimit-Limit': '300',
    'X-RateLimit-Remaining': '297',
    'X-RateLimit-Reset': RESET,
  };
  const server = await scriptedServer((_request, response) => reply(response, 200, [], quota));
  const down = `http://127.0.0.1:${await closedPort()}/v1`;
  const ran = await runInTerminal(['profiles', ...args, '--color', 'never'], {
    ...(columns && { columns }),
    files: {
      'prod.json': JSON.stringify({ baseUrl: server.url, key: 'pets_prod_k2mX' }),
      'staging.json': JSON.stringify({ baseUrl: down, key: 'pets_staging_aB3d' }),
    },
  });
  expect(ran.code).toBe(0);
  return { ...ran, lines: ran.stdout.trimEnd().split('\n'), url: server.url, down };
}

const cellsOf = (lines: readonly string[]) => lines.map((line) => line.split(/ {2,}/));

test('--check shows the remaining requests as a table, or six fields in a pipe, and errors in full below', async () => {
  const { lines, stderr, url, down } = await profiles(['--check'], 80);
  expect(cellsOf(lines)).toEqual([
    ['PROFILE', 'DEFAULT', 'CHECK', 'REMAINING', 'BASE URL', 'KEY'],
    ['prod', 'default', 'valid', '297', url, '…k2mX'],
    ['staging', 'network_error', down, '…aB3d'],
    ['local', 'no key', '-', '-'],
  ]);
  expect(stderr.replace(/\s+/g, ' ')).toContain(`note: staging: cannot reach ${new URL(down).host}`);
  const piped = await profiles(['--check']);
  expect(piped.lines.map((line) => line.split('\t'))).toEqual([
    ['prod', 'default', 'valid', '297', piped.url, '…k2mX'],
    ['staging', '', 'network_error', '', piped.down, '…aB3d'],
    ['local', '', 'no key', '', '-', '-'],
  ]);
  expect(piped.stderr).toMatch(/^note: staging: cannot reach .*connection refused/);
});

test.each([
  [401, 'unauthorized', ['unauthorized', 'URL'], 4],
  [429, 'key_banned', ['key_banned', '0', 'URL'], 5],
  [500, 'internal_error', ['internal_error', 'URL'], 7],
])('--check of a service that responds with %i %s', async (status, code, cells, exitCode) => {
  const headers = status === 429 ? { 'Retry-After': '30' } : {};
  const server = await scriptedServer((_request, response) => replyError(response, status, code, headers));
  const files = { 'staging.json': JSON.stringify({ baseUrl: server.url, key: 'pets_staging_k2mX' }) };
  const check = ['profiles', '--check', '--color', 'never', '--profile', 'staging'];
  const ran = await runInTerminal(check, { columns: 80, files });
  const [, staging = []] = cellsOf(ran.stdout.replace(server.url, 'URL').split('\n'));
  expect([ran.code, staging.slice(1, 1 + cells.length)]).toEqual([exitCode, cells]);
  expect(ran.stderr).toContain(
    exitCode === 4 ? 'rejected key …k2mX from profile staging: ' : 'error: 127.0.0.1',
  );
  expect(ran.stderr).not.toContain('--max-wait');
  expect(server.requests).toHaveLength(1);
  const json = await runInTerminal([...check, '--json'], { files });
  expect([json.code, JSON.parse(json.stdout)[0].check]).toMatchObject([exitCode, { ok: false, code }]);
  const hint = 'log in with a valid key: pets login --profile staging';
  expect(JSON.parse(json.stderr).error).toMatchObject(exitCode === 4 ? { code, hint } : { code });
});

test('a key in PETS_API_KEY without a base URL is listed, and the problem is reported', async () => {
  const ran = await runInTerminal(['profiles', '--json'], { env: { PETS_API_KEY: 'pets_env_key' } });
  expect(ran.code).toBe(0);
  const environment = { profile: 'environment', baseUrl: null, key: null, default: true, damaged: true };
  expect(JSON.parse(ran.stdout).at(-1)).toEqual(environment);
  expect(ran.stderr).toContain('no base URL for the key in PETS_API_KEY; set PETS_BASE_URL');
});

test('saving a profile adds no handlers of signals, which could end a server that is stopping', async () => {
  const args = ['login', '--no-verify', '--base-url', 'https://api.example.com/v1'];
  const { code, stderr } = await runInTerminal(args, { stdin: 'pets_prod_k2mX' });
  expect([code, process.listenerCount('SIGXFSZ')]).toEqual([0, 0]);
  // The waits of this test take no time, so the second has passed before the key was read.
  expect(stderr).toContain('reads the key from standard input, and waits for its end');
});

test('a profile may begin with a byte order mark, and must not be UTF-16', async () => {
  const [marked, utf16] = ['\ufeff{}', Buffer.from('{}', 'utf16le').toString('latin1')];
  const settings = await runInTerminal(['profiles'], { files: { 'settings.json': marked } });
  expect([settings.code, settings.stderr]).toEqual([0, '']);
  const { code, stderr } = await runInTerminal(['list'], { files: { 'prod.json': utf16 } });
  expect([code, stderr]).toEqual([1, expect.stringMatching(/damaged: it is UTF-16\n.* move it away/)]);
});

test('--check reports each profile whose check failed, even if two have the same message', async () => {
  const server = await scriptedServer((_request, response) => replyError(response, 500, 'internal_error'));
  const profile = JSON.stringify({ baseUrl: server.url, key: 'pets_same_k2mX' });
  const files = { 'prod.json': profile, 'staging.json': profile };
  const { code, stderr } = await runInTerminal(['profiles', '--check'], { columns: 200, files });
  expect([code, stderr.match(/: no \(500\)/g)?.length]).toEqual([7, 2]);
});
