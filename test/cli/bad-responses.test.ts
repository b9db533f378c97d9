import { describe, expect, test } from 'vitest';
import { CANARY, expectFailure, expectNoLeaks } from '../helpers/failure.ts';
import { closedPort } from '../helpers/listen.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';
import { rawServer } from '../helpers/wire-server.ts';

// Servers that break the contract, and connections that fail. Each error names the server and its mistake, and shows no API
// key. test/client/error-responses.test.ts and describe-error.test.ts have more of them.

/** A machine whose profile prod points to this URL. */
async function loggedIn(url: string) {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: CANARY });
  return machine;
}

/** A server with this handler, and a machine whose profile prod points to it. */
async function withServer(handler: Handler) {
  const server = await scriptedServer(handler);
  return { server, machine: await loggedIn(server.url) };
}

type Reply = [status: number, body: unknown, headers?: Record<string, string>];

const withReply = ([status, body, headers]: Reply) =>
  withServer((_request, response) => reply(response, status, body, headers));

const html = (status: number): Reply => [
  status,
  '<!doctype html><title>Page</title><p>hello',
  { 'Content-Type': 'text/html; charset=utf-8' },
];
const error = (status: number, message: string, code = 'a_code'): Reply => [
  status,
  { code, message, status },
];
const echo = `Bearer ${CANARY} is not known`;
const pet = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';

const contractErrors: [name: string, reply: Reply, ...contains: string[]][] = [
  ['HTML with 200', html(200), 'not JSON', 'text/html'],
  ['HTML with 404', html(404), 'HTTP status 404', 'text/html', '/v1'],
  ['an Error body with 404', error(404, 'nothing here'), 'not found (404', 'nothing here', '/v1'],
  ['a redirect', [302, '', { Location: 'http://other.invalid/v1' }], 'redirect', '302'],
  ['an object for a list', [200, '{"pets":[]}'], 'unexpected response', 'JSON array'],
  ['an animal without an id', [200, '[{"name":"Rex","categoryId":1}]'], '0.id is required'],
  ['201 for a list', [201, '[]'], 'HTTP status 201'],
  ['10 MB of [', [200, '['.repeat(10_000_000)], 'not JSON that pets can read: [[['],
  ['an empty body', [200, ''], 'HTTP status 200, not JSON'],
  ['the key as a content type', [200, 'x', { 'Content-Type': CANARY }], 'not JSON'],
];

type Row = [name: string, reply: Reply, exit: number, code: string, ...contains: string[]];

test.each<Row>([
  ...contractErrors.map(([name, sent, ...contains]): Row => [name, sent, 7, 'contract_error', ...contains]),
  ['HTML with 403', html(403), 1, 'http_403', 'HTTP status 403', 'hello'],
  ['an empty body with 429', [429, ''], 5, 'rate_limited', 'is rate-limited until ', '(in 1 min)'],
  ['the key in a 401', error(401, echo), 4, 'a_code', 'rejected key …K2mX'],
  ['the key in a 500', error(500, echo), 7, 'a_code', 'is not known'],
  ['the key in a 429', error(429, echo), 5, 'a_code', 'is not known'],
  ['the key as an error code', error(500, 'no', CANARY), 7, '…K2mX', 'no'],
  ['a long Retry-After', [429, '', { 'Retry-After': '9'.repeat(400) }], 5, 'rate_limited', 'try again later'],
])('%s', async (_name, sent, exit, code, ...contains) => {
  const { server, machine } = await withReply(sent);
  const [status] = sent;
  await expectFailure(machine, ['list', '--no-retry', '--max-wait', '0'], {
    exit,
    code,
    ...(status >= 400 && { status }),
    contains: [new URL(server.url).host, ...contains],
  });
  expect(server.requests).toHaveLength(2);
});

test('a port that nothing listens on', async () => {
  const port = await closedPort();
  const machine = await loggedIn(`http://127.0.0.1:${port}/v1`);
  const contains = [`127.0.0.1:${port}`, 'refused', 'pets serve'];
  for (const command of [['list'], ['add', 'Rex', '--category', '1']])
    await expectFailure(machine, [...command, '--no-retry'], { exit: 6, code: 'network_error', contains });
});

test.each([
  ['closed at once', '', 'connection closed'],
  ['a frame of HTTP/2', '\0\0\0\x04\0\0\0\0\0', 'it supports only HTTP/2'],
  ['bytes that are not HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', ''],
  ['an invalid Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n[]', ''],
  ['the key in an invalid head', `HTTP/1.1 200 OK\r\n${CANARY}\u0000: x\r\n\r\n[]`, ''],
  ['https to a server that speaks http', 'HTTP/1.1 400 no\r\n\r\n', '', 'https:'],
])('%s', async (_name, bytes, contains, protocol = 'http:') => {
  const server = await rawServer((socket) => socket.once('data', () => socket.end(bytes)));
  await expectFailure(await loggedIn(server.url.replace('http:', protocol)), ['list', '--no-retry'], {
    exit: 6,
    code: 'network_error',
    contains: [`127.0.0.1:${server.port}`, contains],
  });
});

test.each([
  ['a response that never begins', ''],
  ['a response that never ends', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n['],
])('--timeout ends the attempt: %s', async (_name, bytes) => {
  const server = await rawServer((socket) => socket.once('data', () => socket.write(bytes)));
  await expectFailure(await loggedIn(server.url), ['list', '--timeout', '0.2', '--no-retry'], {
    exit: 6,
    code: 'timeout',
    contains: [`127.0.0.1:${server.port}`, 'within 0.2 s', '--timeout'],
  });
});

test('the longest timeout does not overflow into an immediate one', async () => {
  const { machine } = await withServer((_request, response) => {
    setTimeout(() => reply(response, 200, []), 100);
  });
  const ran = await machine.pets(['list', '--timeout', '1000000', '--no-retry']);
  expect(ran).toMatchObject({ code: 0, stderr: '' });
});

// Other links and redirects that are not followed: test/client/pages.test.ts and error-responses.test.ts.
test('a next page at another origin is an error, and no page is printed', async () => {
  const Link = '<http://elsewhere.invalid/pets?cursor=x>; rel="next"';
  const { server, machine } = await withReply([200, `[${pet}]`, { Link }]);
  const ran = await machine.pets(['list', '--all', '--json']);
  expectNoLeaks(ran);
  expect(ran).toMatchObject({ code: 7, stdout: '' });
  expect(ran.stderr).toContain('http://elsewhere.invalid');
  expect(server.requests).toHaveLength(1);
});

test('a created animal that cannot be printed is reported as added', async () => {
  const { machine } = await withReply([201, pet.replace('1', '12')]);
  for (const json of ['', '--json']) {
    const { code, stderr } = await machine.shell(`pets add Rex --category 1 ${json} > /dev/full`);
    expect(code).toBe(1);
    expect(stderr).toContain('animal 12 was added');
    expect(stderr).toContain('do not add it again');
  }
});

describe('pets get after 404', () => {
  test('reports a missing animal', async () => {
    const { machine } = await withServer((request, response) =>
      reply(response, ...((request.url?.startsWith('/v1/pets?') ? [200, []] : error(404, 'none')) as Reply)),
    );
    const contains = ['id 7', 'pets list'];
    await expectFailure(machine, ['get', '7'], { exit: 3, code: 'not_found', contains });
  });

  test('reports a wrong base URL if the list is missing, too', async () => {
    const { server, machine } = await withReply(error(404, 'none'));
    const contains = ['not found (404', server.url, '/v1'];
    for (const ids of [['7'], ['7', '8']])
      await expectFailure(machine, ['get', ...ids], { exit: 7, code: 'contract_error', contains });
  });
});
