import { expect, test } from 'vitest';
import { CANARY, expectFailure } from '../helpers/failure.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

// Servers that break the contract, and connections that fail. Each error names the server and the mistake, and shows no
// API key. test/client/error-responses.test.ts and errors.test.ts have more errors.

async function withServer(handler: Handler) {
  const [machine, server] = [await freshMachine(), await scriptedServer(handler)];
  await machine.saveProfile('prod', { baseUrl: server.url, key: CANARY });
  return { server, machine };
}

type Reply = [status: number, body: unknown, headers?: Record<string, string>];

const withReply = ([status, body, headers]: Reply) =>
  withServer((_request, response) => reply(response, status, body, headers));

const NOT_FOUND: Reply = [404, { code: 'a_code', message: 'nothing here', status: 404 }];

const pet = '{"id":12,"name":"Rex","categoryId":1,"status":"available"}';

test('a created animal that cannot be printed is reported as added', async () => {
  const { machine } = await withServer(({ method }, response) =>
    method === 'POST' ? reply(response, 201, pet) : reply(response, 200, []),
  );
  for (const json of ['', '--json']) {
    const { code, stderr } = await machine.shell(`pets add Rex --category 1 ${json} > /dev/full`);
    expect(code).toBe(1);
    expect(stderr).toContain('animal 12 was added');
    expect(stderr).toContain('do not add it again; to see it: pets get 12');
  }
  await machine.file('rows.csv', 'name,category\nRex,1\n');
  const { code, stderr } = await machine.shell('pets import ~/rows.csv > /dev/full');
  expect([code, stderr]).toEqual([1, expect.stringMatching(/no space.*\n.*added 1 of 1 row; do not add/)]);
});

test('pets get after 404 reports a missing animal, or without an error code a wrong base URL; hints repeat --profile', async () => {
  const { machine } = await withReply(NOT_FOUND);
  const contains = ['id 7', 'pets list --profile prod --all', 'pets orders --profile prod 7'];
  await expectFailure(machine, ['get', '7', '--profile', 'prod'], { exit: 3, code: 'not_found', contains });
  const { machine: empty } = await withReply([200, []]);
  const orders = ['to list all: pets orders --profile prod'];
  const missing = { exit: 3, code: 'not_found', contains: orders };
  await expectFailure(empty, ['orders', '7', '--profile', 'prod'], missing);
  const wrong = { exit: 2, contains: ['for example: --since yesterday --until today'] };
  await expectFailure(empty, ['orders', '--since=today', '--until=1d', '--profile', 'prod'], wrong);
  const other = await withReply([404, '<p>nothing here', { 'Content-Type': 'text/html' }]);
  const elsewhere = { exit: 7, code: 'contract_error', contains: ['404', other.server.url] };
  await expectFailure(other.machine, ['get', '7', '8'], elsewhere);
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
    found ? `try the base URL ${server.origin}${found}\n` : `check the base URL ${server.origin}`,
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
