import { writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { maskKey } from '../../src/cli/output/text.ts';
import { runInTerminal, startInTerminal } from '../helpers/context.ts';
import { snapshot } from '../helpers/failure.ts';
import { temporaryDirectory } from '../helpers/temp.ts';
import { type Act, formatResponse, wireServer } from '../helpers/wire-server.ts';

// A service may send the API key back in any part of a response. The command never prints or stores it, not even with
// --debug.

const PLAIN = 'pets_secret_key_plain';
const SPECIAL = 'pets_secret/key+with=signs&"quotes"';
const encodings = (key: string) => [key, encodeURIComponent(key), JSON.stringify(key).slice(1, -1)];

const COMMANDS = [
  ['list', '--all', '--ndjson'],
  ['get', '7', '8'],
  ['add', 'Rex', '--category', '1'],
  ['import', 'animals.csv'],
  ['orders'],
  ['profiles', '--check'],
];

/** All decoded strings of NDJSON, one per line. */
function stringsOf(ndjson: string): string {
  const texts: string[] = [];
  for (const line of ndjson.trim().split('\n')) {
    JSON.parse(line, (_name, value) => (typeof value === 'string' ? texts.push(value) : undefined));
  }
  return texts.join('\n');
}

/** Runs commands with and without --json. Checks that none prints or stores the key. */
async function expectRedacted(baseUrl: string, key: string): Promise<void> {
  const runs = COMMANDS.flatMap((command) => [
    [...command, '--debug'],
    ...(command.includes('--ndjson') ? [] : [[...command, '--debug', '--json']]),
  ]).map(async (command) => {
    const file = join(await temporaryDirectory(), 'animals.csv');
    await writeFile(file, 'name,category\nRex,1\n');
    const args = command.map((word) => (word === 'animals.csv' ? file : word));
    const { ended, home, ...program } = await startInTerminal(args, {
      env: { PETS_BASE_URL: baseUrl, PETS_API_KEY: key, PETS_MAX_WAIT: '5' },
    });
    await ended;
    const stderr = program.stderr();
    const everything = program.stdout() + stderr + JSON.stringify(await snapshot(home));
    for (const text of encodings(key)) expect(everything, command.join(' ')).not.toContain(text);
    const shown = args.includes('--json') ? stringsOf(stderr) : stderr;
    expect(shown, command.join(' ')).toContain(`Bearer ${maskKey(key)}`);
  });
  await Promise.all(runs);
}

const error = (status: number, key: string): object => ({
  code: key,
  message: `no ${key}, ${encodeURIComponent(key)}`,
  status,
});
const location = (key: string) => ({ Location: `https://other.example/?${encodeURIComponent(key)}#${key}` });
const respond =
  (status: number, headers: (key: string) => Record<string, string> = () => ({}), body = error) =>
  (key: string): Act =>
  (socket: Socket) =>
    socket.write(
      formatResponse(status, body(status, key), {
        'X-Key': key,
        Sunset: key,
        Link: `<https://help.invalid/${encodeURIComponent(key)}>; rel="deprecation"`,
        Connection: 'close',
        ...headers(key),
      }),
    );

const sendText =
  (format: (key: string) => string) =>
  (key: string): Act =>
  (socket) =>
    socket.write(format(key));

describe.each([
  ['a plain key', PLAIN],
  ['a key with special characters', SPECIAL],
])('%s', (_name, key) => {
  test.each<[string, (key: string) => Act]>([
    ...[401, 500].map((status): [string, (key: string) => Act] => [String(status), respond(status)]),
    ['200 with the key in its headers', respond(200, location, () => ({}))],
    ['429', respond(429, () => ({ 'Retry-After': '9' }))],
    ['a redirect', sendText((sent) => formatResponse(302, `<html>${sent}`, location(sent)))],
    ['a status text', sendText((sent) => `HTTP/1.1 400 ${sent}\r\nContent-Length: 0\r\n\r\n`)],
    ['HTML', sendText((sent) => formatResponse(200, sent, { 'Content-Type': `text/html; ${sent}` }))],
    ['text that is not HTTP', sendText((sent) => `${sent}\r\n\r\n`)],
  ])('%s', async (_kind, act) => {
    const server = await wireServer(act(key));
    await expectRedacted(server.url, key);
    for (const { headers } of server.requests) expect(headers['authorization']).toBe(`Bearer ${key}`);
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
