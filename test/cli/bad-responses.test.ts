import { expect, test } from 'vitest';
import { CANARY, expectFailure } from '../helpers/failure.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';
import { rawServer } from '../helpers/wire-server.ts';

// Servers that break the contract, and connections that fail. Each error names the server and the mistake, and shows no
// API key. test/client/error-responses.test.ts and errors.test.ts have more errors.

async function loggedIn(url: string) {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: CANARY });
  return machine;
}

async function withServer(handler: Handler) {
  const server = await scriptedServer(handler);
  return { server, machine: await loggedIn(server.url) };
}

type Reply = [status: number, body: unknown, headers?: Record<string, string>];

const withReply = ([status, body, headers]: Reply) =>
  withServer((_request, response) => reply(response, status, body, headers));

const NOT_FOUND: Reply = [404, { code: 'a_code', message: 'nothing here', status: 404 }];

test.each<[name: string, reply: Reply, ...contains: string[]]>([
  ['a page with 404', [404, '<p>hello', { 'Content-Type': 'text/html' }], 'HTTP status 404', 'text/html'],
  ['an object for a list', [200, '{"pets":[]}'], 'unexpected response', 'JSON array'],
])('%s', async (_name, sent, ...contains) => {
  const { server, machine } = await withReply(sent);
  const host = new URL(server.url).host;
  const expected = { exit: 7, code: 'contract_error', contains: [host, '/v1', ...contains] };
  await expectFailure(machine, ['list'], { ...expected, ...(sent[0] >= 400 && { status: sent[0] }) });
  expect(server.requests).toHaveLength(2);
});

test('--timeout ends an attempt whose response never ends', async () => {
  const server = await rawServer((socket) =>
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[')),
  );
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

const pet = '{"id":12,"name":"Rex","categoryId":1,"status":"available"}';

test('a created animal that cannot be printed is reported as added', async () => {
  const { machine } = await withReply([201, pet]);
  for (const json of ['', '--json']) {
    const { code, stderr } = await machine.shell(`pets add Rex --category 1 ${json} > /dev/full`);
    expect(code).toBe(1);
    expect(stderr).toContain('animal 12 was added');
    expect(stderr).toContain('do not add it again');
  }
});

test('pets get after 404 reports a missing animal, or without an error code a wrong base URL', async () => {
  const { machine } = await withReply(NOT_FOUND);
  const contains = ['id 7', 'pets list --all', 'pets orders 7'];
  await expectFailure(machine, ['get', '7'], { exit: 3, code: 'not_found', contains });
  const other = await withReply([404, '<p>nothing here', { 'Content-Type': 'text/html' }]);
  for (const ids of [['7'], ['7', '8']])
    await expectFailure(other.machine, ['get', ...ids], {
      exit: 7,
      code: 'contract_error',
      contains: ['404', other.server.url],
    });
});

test.each([
  ['the service is', (path: string) => path.startsWith('/v1/'), '', '/v1'],
  ['the service with a prefix is', (path: string) => path.startsWith('/shop/v1/'), '/shop', '/shop/v1'],
  ['nothing is', () => false, '', undefined],
])('a base URL without /v1, if %s at the address with it', async (_name, isService, given, found) => {
  const server = await scriptedServer((request, response) => {
    const isKeyless = request.headers.authorization === undefined;
    if (!isService(request.url ?? ''))
      return reply(response, 404, 'nothing', { 'Content-Type': 'text/plain' });
    reply(
      response,
      isKeyless ? 401 : 200,
      isKeyless ? { code: 'unauthorized', message: 'no', status: 401 } : [],
    );
  });
  const machine = await freshMachine();
  const env = { PETS_BASE_URL: server.origin + given, PETS_API_KEY: CANARY };
  const { code, stderr } = await machine.pets(['list'], { env });
  expect(code).toBe(7);
  expect(stderr).toContain(
    found ? `use the base URL ${server.origin}${found}\n` : `check the base URL ${server.origin}`,
  );
  // The key is only sent to the address that the user has given.
  const sent = server.requests.map(({ url, headers }) => [
    url.split('?')[0],
    headers.authorization !== undefined,
  ]);
  expect(sent).toEqual([
    [`${given}/pets`, true],
    [`${given}/v1/pets`, false],
  ]);
});
