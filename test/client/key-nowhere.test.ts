import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { maskKey } from '../../src/cli/profiles/profile.ts';
import { runInTerminal } from '../helpers/context.ts';
import { closedPort } from '../helpers/raw-server.ts';
import { tlsServer } from '../helpers/tls-server.ts';
import { type Act, answer, reset, wireServer } from '../helpers/wire-server.ts';

// Whatever a service does with the key that it was sent: we show it nowhere, with --debug neither.

const PLAIN = 'pets_secret_key_plain';
const SIGNS = 'pets_secret/key+with=signs&"quotes"';
const forms = (key: string) => [key, encodeURIComponent(key), JSON.stringify(key).slice(1, -1)];

const COMMANDS = [['list'], ['get', '7'], ['add', 'Rex', '--category', '1']];

/** Every text in lines of JSON, each of which must be one. */
function ndjson(text: string): string {
  const texts: string[] = [];
  for (const line of text.trim().split('\n')) {
    JSON.parse(line, (_name, value) => (typeof value === 'string' ? texts.push(value) : undefined));
  }
  return texts.join('\n');
}

/** Some commands, with and without JSON, against what one service does; gives their exit codes. */
async function expectNowhere(baseUrl: string, key: string, more: string[] = []): Promise<number[]> {
  const runs = COMMANDS.flatMap((command) => [
    [...command, '--debug'],
    [...command, '--debug', '--json'],
  ]).map(async (args) => {
    const { code, stdout, stderr } = await runInTerminal([...args, ...more], {
      env: { PETS_BASE_URL: baseUrl, PETS_API_KEY: key, PETS_MAX_WAIT: '5' },
    });
    for (const form of forms(key)) expect(stdout + stderr, args.join(' ')).not.toContain(form);
    const said = args.includes('--json') ? ndjson(stderr) : stderr;
    expect(said).toContain(`Bearer ${maskKey(key)}`);
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
const says =
  (status: number, headers: (key: string) => Record<string, string> = () => ({})) =>
  (key: string): Act =>
  (socket: Socket) =>
    socket.write(answer(status, error(status, key), { 'X-Key': key, Connection: 'close', ...headers(key) }));

describe.each([
  ['a plain key', PLAIN],
  ['a key with signs', SIGNS],
])('%s', (_name, key) => {
  test.each<[string, (key: string) => Act, number[]]>([
    ['a rejected key', says(401, (it) => ({ 'WWW-Authenticate': `Bearer realm="${it}"` })), [4]],
    ['not found', says(404), [7]],
    ['a conflict', says(409), [1]],
    ['a refused rate limit', says(429, () => ({ 'Retry-After': '9' })), [5]],
    ['a failing service', says(503), [6, 7]],
    ['a redirect with an Error body', says(302, location), [7]],
    ['a redirect', (it) => (socket) => socket.write(answer(302, `<html>${it}`, location(it))), [7]],
    [
      'a status text',
      (it) => (socket) =>
        socket.end(`HTTP/1.1 400 ${it}\r\nContent-Type: text/${it}\r\nContent-Length: 0\r\n\r\n`),
      [7],
    ],
    [
      'a web page',
      (it) => (socket) =>
        socket.write(answer(200, `<html>${it}</html>`, { 'Content-Type': `text/html; ${it}` })),
      [7],
    ],
    ['another shape', (it) => (socket) => socket.write(answer(200, { [it]: it, pets: [it] })), [7]],
    ['a cut', () => reset, [6]],
    ['a cut in a line', (it) => (socket) => socket.end(`HTTP/1.1 200 OK\r\nX-Key: ${it}`), [6]],
    ['what is no HTTP', (it) => (socket) => socket.end(`${it}\r\n\r\n`), [6]],
    ['silence', () => silent, [6]],
  ])('%s', async (_kind, act, codes) => {
    const server = await wireServer(act(key));
    const more = act(key) === silent ? ['--timeout', '0.1'] : [];
    expect(await expectNowhere(server.url, key, more)).toEqual(codes);
    for (const { headers } of server.requests) expect(headers['authorization']).toBe(`Bearer ${key}`);
  });

  test('nobody listens', async () => {
    expect(await expectNowhere(`http://127.0.0.1:${await closedPort()}/v1`, key)).toEqual([6]);
  });

  test('a certificate that is refused', async () => {
    const { port } = await tlsServer('self-signed');
    expect(await expectNowhere(`https://localhost:${port}/v1`, key)).toEqual([6]);
  });
});

test('a header whose name is the key, in lower case as any name', async () => {
  const key = 'pets_Secret_KEY_Mixed';
  const server = await wireServer((socket) =>
    socket.write(answer(400, error(400, key), { [key]: 'x', 'X-Other': key.toUpperCase() })),
  );
  const { stdout, stderr } = await runInTerminal(['list', '--debug'], {
    env: { PETS_BASE_URL: server.url, PETS_API_KEY: key },
  });
  expect((stdout + stderr).toLowerCase()).not.toContain(key.toLowerCase());
});

test('a page about the end of an operation whose address holds it', async () => {
  const server = await wireServer((socket) =>
    socket.write(answer(404, error(404, PLAIN), { Link: `<https://x.example/${PLAIN}>; rel="deprecation"` })),
  );
  for (const flags of [[], ['--json'], ['--debug']]) {
    const { stdout, stderr } = await runInTerminal(['get', '7', ...flags], {
      env: { PETS_BASE_URL: server.url, PETS_API_KEY: PLAIN },
    });
    expect(stderr).toContain(`https://x.example/${maskKey(PLAIN)}`);
    expect(stdout + stderr).not.toContain(PLAIN);
  }
});

test('a link to the next page that holds it', async () => {
  const server = await wireServer((socket, count) =>
    socket.write(
      answer(count % 2 === 1 ? 200 : 500, count % 2 === 1 ? [] : error(500, PLAIN), {
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
