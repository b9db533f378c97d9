import { describe, expect, test } from 'vitest';
import { CANARY, expectFailure, expectNoLeaks, lastError } from '../helpers/failure.ts';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

// Tests with servers that break the contract. Each error names the server and its mistake, and shows no API key.

/** A server with this handler, and a machine whose profile prod points to it. */
async function withServer(handler: Handler) {
  const server = await scriptedServer(handler);
  const machine: Machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: server.url, key: CANARY });
  return { server, machine };
}

type Reply = [status: number, body: unknown, headers?: Record<string, string>];

const withReply = ([status, body, headers]: Reply) =>
  withServer((_request, response) => reply(response, status, body, headers));

const html = (status: number): Reply => [
  status,
  '<!doctype html><title>hello</title>',
  { 'Content-Type': 'text/html; charset=utf-8' },
];
const error = (
  status: number,
  code: string,
  message: string,
  headers: Record<string, string> = {},
): Reply => [status, { code, message, status }, headers];

const echo = `Bearer ${CANARY} is not known`;
const pet = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';

const toList = (text: string): Reply => [200, text];

type Row = [name: string, reply: Reply, exit: number, code: string | undefined, ...contains: string[]];

// test/client/error-responses.test.ts has more responses that break the contract.
const contractErrors: [name: string, reply: Reply, ...contains: string[]][] = [
  ['HTML with 200', html(200), 'not JSON', 'text/html'],
  ['HTML with 404', html(404), 'HTTP status 404', 'text/html', '/v1'],
  [
    'an Error body with 404',
    error(404, 'not_found', 'nothing here'),
    'not found (404',
    'nothing here',
    '/v1',
  ],
  ['a redirect', [302, '', { Location: 'http://other.invalid/v1' }], 'redirect', '302'],
  ['an object for a list', toList('{"pets":[]}'), 'unexpected response', 'JSON array'],
  ['null for a list', toList('null'), 'unexpected response'],
  ['an animal without an id', toList('[{"name":"Rex","categoryId":1}]'), '0.id is required'],
  ['201 for a list', [201, '[]'], 'HTTP status 201'],
  ['10 MB of [', toList('['.repeat(10_000_000)), 'JSON nested deeper than 500 levels'],
  ['an empty body', toList(''), 'HTTP status 200 with an empty body'],
  ['the key as a content type', [200, 'x', { 'Content-Type': CANARY }], 'not JSON'],
];

const otherErrors: Row[] = [
  ['HTML with 400', html(400), 7, undefined, 'HTTP status 400', 'text/html'],
  ['HTML with 401', html(401), 4, undefined, 'rejected key …K2mX from profile prod'],
  [
    'HTML with 403',
    html(403),
    1,
    'http_403',
    'HTTP status 403',
    'hello',
    'use a key that is allowed to do this',
  ],
  ['an empty body with 403', [403, ''], 4, undefined, 'rejected key …K2mX', 'pets login'],
  ['HTML with 502', html(502), 7, 'http_502', 'HTTP status 502', 'try again'],
  ['an empty body with 500', [500, ''], 7, undefined, 'HTTP status 500'],
  ['an empty body with 429', [429, ''], 5, 'rate_limited', 'is rate-limited until ', '(in 1 min)'],
  ['an Error body with 500', error(500, 'an_error', 'the disk is full'), 7, 'an_error', 'the disk is full'],
  ['an Error body with 400', error(400, 'an_error', 'limit is odd'), 1, 'an_error', 'limit is odd'],
  ['the key in a 401', error(401, 'unauthorized', echo), 4, undefined, 'rejected key …K2mX'],
  ['the key in a 500', error(500, 'internal_error', echo), 7, undefined, 'is not known'],
  ['the key in a 429', error(429, 'rate_limited', echo), 5, undefined, 'is not known'],
  ['the key as an error code', error(500, CANARY, 'no'), 7, undefined, 'no'],
  [
    'a ban for a day',
    error(429, 'key_banned', 'banned', { 'Retry-After': '86400' }),
    5,
    'key_banned',
    'has banned this key until',
    'banned',
  ],
  [
    'a Retry-After of 400 digits',
    [429, '', { 'Retry-After': '9'.repeat(400) }],
    5,
    undefined,
    'is rate-limited: ',
    'try again later',
  ],
];

const asRows = (errors: typeof contractErrors): Row[] =>
  errors.map(([name, sent, ...contains]) => [name, sent, 7, 'contract_error', ...contains]);
const rows = [...asRows(contractErrors), ...otherErrors];

test.each<Row>(rows)('%s', async (_name, sent, exit, code, ...contains) => {
  const { server, machine } = await withReply(sent);
  const [status] = sent;
  await expectFailure(machine, ['list', '--no-retry', '--max-wait', '0'], {
    exit,
    ...(code && { code }),
    ...(status >= 400 && { status }),
    contains: [new URL(server.url).host, ...contains],
  });
  expect(server.requests).toHaveLength(2);
});

test('control sequences are escaped', async () => {
  const { machine } = await withReply(error(500, 'x', 'a\u001b[2Jb\u202ec\r\nd'));
  const { stderr } = await machine.pets(['list', '--no-retry']);
  expect(stderr).toContain('a\\x1b[2Jb\\u202ec\\r\\nd');
  expect(stderr).not.toMatch(/[\u001b\u202e\r]/);
});

// Other links and redirects that are not followed: test/client/pages.test.ts and error-responses.test.ts.
test.each([
  ['at another origin', 'http://elsewhere.invalid/pets?cursor=x', 'http://elsewhere.invalid', 1],
  ['that was already read', '/v1/pets?cursor=x', 'was not followed', 2],
])('a next page %s is an error, and no page is printed', async (_name, link, message, count) => {
  const { server, machine } = await withReply([200, `[${pet}]`, { Link: `<${link}>; rel="next"` }]);
  const ran = await machine.pets(['list', '--all', '--json']);
  expectNoLeaks(ran);
  expect(ran).toMatchObject({ code: 7, stdout: '' });
  expect(lastError(ran)).toMatchObject({
    code: 'contract_error',
    message: expect.stringContaining(message),
  });
  expect(server.requests).toHaveLength(count);
});

describe('a creation and a single animal', () => {
  test.each([
    ['202', [202, pet], 'HTTP status 202'],
    ['HTML', [201, '<html>'], 'not JSON'],
    ['204', [204, ''], 'HTTP status 204 with an empty body'],
    ['no id', [201, '{"name":"Rex","categoryId":1}'], 'id is required'],
  ] as [string, Reply, string][])('add: %s', async (_name, sent, contains) => {
    const { machine } = await withReply(sent);
    const unknown = { exit: 6, code: 'outcome_unknown', contains: [contains] };
    await expectFailure(machine, ['add', 'Rex', '--category', '1'], unknown);
  });

  test('add: a created animal that cannot be printed is reported as added', async () => {
    const { machine } = await withReply([201, pet.replace('1', '12')]);
    for (const json of ['', '--json']) {
      const { code, stderr } = await machine.shell(`pets add Rex --category 1 ${json} > /dev/full`);
      expect(code).toBe(1);
      expect(stderr).toContain('animal 12 was added');
      expect(stderr).toContain('do not add it again');
    }
  });

  test('get: a missing animal', async () => {
    const { machine } = await withServer((request, response) =>
      request.url?.startsWith('/v1/pets?')
        ? reply(response, 200, [])
        : reply(response, ...error(404, 'not_found', 'none')),
    );
    await expectFailure(machine, ['get', '7'], {
      exit: 3,
      code: 'not_found',
      contains: ['id 7', 'pets list'],
    });
  });

  test('get: a 404 from a wrong base URL is not reported as a missing animal', async () => {
    const { server, machine } = await withReply(error(404, 'not_found', 'none'));
    const wrongUrl = { exit: 7, code: 'contract_error', contains: ['not found (404', server.url, '/v1'] };
    await expectFailure(machine, ['get', '7'], wrongUrl);
    await expectFailure(machine, ['get', '7', '8'], wrongUrl);
    const withHtml = await withReply(html(404));
    const expected = { exit: 7, code: 'contract_error', contains: ['HTTP status 404'] };
    await expectFailure(withHtml.machine, ['get', '7'], expected);
  });

  test('orders: a body that is not JSON', async () => {
    const { machine } = await withReply([200, 'orders']);
    await expectFailure(machine, ['orders'], { exit: 7, contains: ['not JSON'] });
  });
});
