import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { maskKey } from '../../src/cli/profiles/profile.ts';
import { runInTerminal } from '../helpers/context.ts';
import { closedPort } from '../helpers/raw-server.ts';
import { tlsServer } from '../helpers/tls-server.ts';
import { type Act, formatResponse, reset, wireServer } from '../helpers/wire-server.ts';

// A service may send the API key back in any part of a response. The command never prints it, not even with --debug.

const PLAIN = 'pets_secret_key_plain';
const SPECIAL = 'pets_secret/key+with=signs&"quotes"';
const encodings = (key: string) => [key, encodeURIComponent(key), JSON.stringify(key).slice(1, -1)];

const COMMANDS = [['list'], ['get', '7'], ['add', 'Rex', '--category', '1']];

/** All strings in NDJSON. */
function ndjson(text: string): string {
  const texts: string[] = [];
  for (const line of text.trim().split('\n')) {
    JSON.parse(line, (_name, value) => (typeof value === 'string' ? texts.push(value) : undefined));
  }
  return texts.join('\n');
}

/** Runs some commands with and without --json, checks that none prints the key, and returns their exit codes. */
async function expectRedacted(baseUrl: string, key: string, flags: string[] = []): Promise<number[]> {
  const runs = COMMANDS.flatMap((command) => [
    [...command, '--debug'],
    [...command, '--debug', '--json'],
  ]).map(async (args) => {
    const { code, stdout, stderr } = await runInTerminal([...args, ...flags], {
      env: { PETS_BASE_URL: baseUrl, PETS_API_KEY: key, PETS_MAX_WAIT: '5' },
    });
    for (const text of encodings(key)) expect(stdout + stderr, args.join(' ')).not.toContain(text);
    const text = args.includes('--json') ? ndjson(stderr) : stderr;
    expect(text).toContain(`Bearer ${maskKey(key)}`);
    return code;
  });
  return [...new Set(await Promise.all(runs))].sort();
}

const error = (status: number, key: string) => ({
  code: key,
  message: `no ${key}, ${encodeURIComponent(key)}`,
  status,
});
const location = (key: string) => ({ Location: `https://other.example/?${encodeURIComponent(key)}#${key}` });
const silent: Act = () => {};
const respond =
  (status: number, headers: (key: string) => Record<string, string> = () => ({})) =>
  (key: string): Act =>
  (socket: Socket) =>
    socket.write(
      formatResponse(status, error(status, key), { 'X-Key': key, Connection: 'close', ...headers(key) }),
    );

describe.each([
  ['a plain key', PLAIN],
  ['a key with special characters', SPECIAL],
])('%s', (_name, key) => {
  test.each<[string, (key: string) => Act, number[]]>([
    ['401', respond(401, (it) => ({ 'WWW-Authenticate': `Bearer realm="${it}"` })), [4]],
    ['404', respond(404), [7]],
    ['409', respond(409), [1]],
    ['429', respond(429, () => ({ 'Retry-After': '9' })), [5]],
    ['503', respond(503), [6, 7]],
    ['a redirect with an Error body', respond(302, location), [7]],
    ['a redirect', (it) => (socket) => socket.write(formatResponse(302, `<html>${it}`, location(it))), [7]],
    [
      'a status text',
      (it) => (socket) =>
        socket.end(`HTTP/1.1 400 ${it}\r\nContent-Type: text/${it}\r\nContent-Length: 0\r\n\r\n`),
      [7],
    ],
    [
      'HTML',
      (it) => (socket) =>
        socket.write(formatResponse(200, `<html>${it}</html>`, { 'Content-Type': `text/html; ${it}` })),
      [7],
    ],
    ['invalid JSON', (it) => (socket) => socket.write(formatResponse(200, { [it]: it, pets: [it] })), [7]],
    ['a reset', () => reset, [6]],
    ['an incomplete header', (it) => (socket) => socket.end(`HTTP/1.1 200 OK\r\nX-Key: ${it}`), [6]],
    ['text that is not HTTP', (it) => (socket) => socket.end(`${it}\r\n\r\n`), [6]],
    ['no response', () => silent, [6]],
  ])('%s', async (_kind, act, codes) => {
    const server = await wireServer(act(key));
    const flags = act(key) === silent ? ['--timeout', '0.1'] : [];
    expect(await expectRedacted(server.url, key, flags)).toEqual(codes);
    for (const { headers } of server.requests) expect(headers['authorization']).toBe(`Bearer ${key}`);
  });

  test('a port on which nothing listens', async () => {
    expect(await expectRedacted(`http://127.0.0.1:${await closedPort()}/v1`, key)).toEqual([6]);
  });

  test('an invalid certificate', async () => {
    const { port } = await tlsServer('self-signed');
    expect(await expectRedacted(`https://localhost:${port}/v1`, key)).toEqual([6]);
  });
});

test('a header whose name is the key in lower case', async () => {
  const key = 'pets_Secret_KEY_Mixed';
  const server = await wireServer((socket) =>
    socket.write(formatResponse(400, error(400, key), { [key]: 'x', 'X-Other': key.toUpperCase() })),
  );
  const { stdout, stderr } = await runInTerminal(['list', '--debug'], {
    env: { PETS_BASE_URL: server.url, PETS_API_KEY: key },
  });
  expect((stdout + stderr).toLowerCase()).not.toContain(key.toLowerCase());
});

test('a deprecation link that contains the key', async () => {
  const server = await wireServer((socket) =>
    socket.write(
      formatResponse(404, error(404, PLAIN), { Link: `<https://x.example/${PLAIN}>; rel="deprecation"` }),
    ),
  );
  for (const flags of [[], ['--json'], ['--debug']]) {
    const { stdout, stderr } = await runInTerminal(['get', '7', ...flags], {
      env: { PETS_BASE_URL: server.url, PETS_API_KEY: PLAIN },
    });
    expect(stderr).toContain(`https://x.example/${maskKey(PLAIN)}`);
    expect(stdout + stderr).not.toContain(PLAIN);
  }
});

test('a link to the next page that contains the key', async () => {
  const server = await wireServer((socket, count) =>
    socket.write(
      formatResponse(count % 2 === 1 ? 200 : 500, count % 2 === 1 ? [] : error(500, PLAIN), {
        Link: `</v1/pets?cursor=${PLAIN}>; rel="next"`,
      }),
    ),
  );
  for (const flags of [['--debug'], ['--debug', '--json']]) {
    const { stdout, stderr } = await runInTerminal(['list', '--all', ...flags], {
      env: { PETS_BASE_URL: server.url, PETS_API_KEY: PLAIN },
    });
    expect(server.requests.map(({ line }) => line)).toContain(`GET /v1/pets?cursor=${PLAIN} HTTP/1.1`);
    expect(stdout + stderr).not.toContain(PLAIN);
  }
});
