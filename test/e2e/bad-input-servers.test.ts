import { describe, expect, test } from 'vitest';
import { CANARY, expectFailure, expectNoLeaks, lastError } from '../helpers/failure.ts';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

// Servers that break the contract: each error names the server and what it did, and shows no key.

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

type Row = [name: string, reply: Reply, exit: number, code: string | undefined, ...contains: string[]];

const rows: Row[] = [
  ['HTML with 200', html(200), 7, 'contract_error', 'not JSON', 'text/html'],
  ['HTML with 404', html(404), 7, undefined, 'HTTP status 404', 'text/html', '/v1'],
  ['HTML with 400', html(400), 7, undefined, 'HTTP status 400', 'text/html'],
  ['HTML with 401', html(401), 4, undefined, 'rejected key …K2mX from profile prod'],
  ['HTML with 403', html(403), 4, undefined, 'rejected key …K2mX', 'pets login'],
  ['HTML with 502', html(502), 7, 'http_502', 'HTTP status 502', 'try again'],
  ['an empty body with 200', [200, ''], 7, undefined, 'not JSON'],
  ['an empty body with 500', [500, ''], 7, undefined, 'HTTP status 500'],
  ['an empty body with 429', [429, ''], 5, 'rate_limited', 'rate-limited until', '--max-wait'],
  ['truncated JSON', [200, `[${pet},{"id":2`], 7, undefined, 'not JSON'],
  ['an object for a list', [200, '{"pets":[]}'], 7, undefined, 'unexpected response', 'JSON array'],
  ['null for a list', [200, 'null'], 7, undefined, 'unexpected response'],
  ['an animal without an id', [200, '[{"name":"Rex","categoryId":1}]'], 7, undefined, '0.id is required'],
  [
    'an id beyond int64',
    [200, `[${pet.replace('1', '9223372036854775808')}]`],
    7,
    undefined,
    '0.id must be an integer',
  ],
  ['an id as text', [200, `[${pet.replace('1', '"1"')}]`], 7, undefined, '0.id must be an integer'],
  [
    'an unknown status',
    [200, `[${pet.replace('available', 'lost')}]`],
    7,
    undefined,
    '0.status must be one of',
  ],
  ['201 for a list', [201, '[]'], 7, undefined, 'HTTP status 201'],
  ['204 for a list', [204, ''], 7, undefined, 'HTTP status 204'],
  ['deep nesting', [200, `${'['.repeat(5_000)}${']'.repeat(5_000)}`], 7, undefined, 'not JSON'],
  ['10 MB of [', [200, '['.repeat(10_000_000)], 7, undefined, 'not JSON'],
  [
    'an Error body with 500',
    error(500, 'internal_error', 'the disk is full'),
    7,
    'internal_error',
    'the disk is full',
  ],
  [
    'an Error body with 400',
    error(400, 'invalid_request', 'limit is odd'),
    1,
    'invalid_request',
    'limit is odd',
  ],
  [
    'an Error body with 404',
    error(404, 'not_found', 'nothing here'),
    7,
    'contract_error',
    'not found (404',
    'nothing here',
    '/v1',
  ],
  ['the key in a 401', error(401, 'unauthorized', echo), 4, undefined, 'rejected key …K2mX'],
  ['the key in a 500', error(500, 'internal_error', echo), 7, undefined, 'is not known'],
  ['the key in a 429', error(429, 'rate_limited', echo), 5, undefined, 'is not known'],
  ['the key as an error code', error(500, CANARY, 'no'), 7, undefined, 'no'],
  ['the key as a content type', [200, 'x', { 'Content-Type': CANARY }], 7, undefined, 'not JSON'],
  ['control sequences in a message', error(500, 'x', 'a\u001b[2Jb\u202ec\r\nd'), 7, 'x', 'd'],
  [
    'a ban for a day',
    error(429, 'key_banned', 'banned', { 'Retry-After': '86400' }),
    5,
    'key_banned',
    'has banned this key until',
    'banned',
  ],
  [
    'a Retry-After beyond every calendar',
    [429, '', { 'Retry-After': '9'.repeat(400) }],
    5,
    undefined,
    'rate-limited until',
  ],
];

test.each(rows.map(([name, ...row]) => ({ name, row })))(
  '$name',
  async ({ row: [sent, exit, code, ...contains] }) => {
    const { server, machine } = await withReply(sent);
    const [status] = sent;
    await expectFailure(machine, ['list', '--no-retry', '--max-wait', '0'], {
      exit,
      ...(code && { code }),
      ...(status >= 400 && { status }),
      contains: [new URL(server.url).host, ...contains],
    });
    expect(server.requests).toHaveLength(2);
  },
);

test('control sequences are escaped', async () => {
  const { machine } = await withReply(error(500, 'x', 'a\u001b[2Jb\u202ec\r\nd'));
  const { stderr } = await machine.pets(['list', '--no-retry']);
  expect(stderr).toContain('a\\x1b[2Jb\\u202ec\\r\\nd');
  expect(stderr).not.toMatch(/[\u001b\u202e\r]/);
});

describe('redirects are not followed, and the key is sent to no other server', () => {
  const otherServer = () => scriptedServer((_request, response) => reply(response, 200, []));

  test.each([301, 302, 303, 307, 308])('%i', async (status) => {
    const other = await otherServer();
    const { machine } = await withReply([status, '', { Location: `${other.url}/pets` }]);
    for (const args of [['list'], ['add', 'Rex', '--category', '1'], ['list', '--all']]) {
      await expectFailure(machine, args, {
        exit: 7,
        code: 'contract_error',
        contains: ['redirect', String(status)],
      });
    }
    expect(other.requests).toEqual([]);
  });

  test('a next page at another origin is not requested', async () => {
    const other = await otherServer();
    const { machine } = await withReply([
      200,
      `[${pet}]`,
      { Link: `<${other.url}/pets?cursor=x>; rel="next"` },
    ]);
    const ran = await machine.pets(['list', '--all', '--json']);
    expectNoLeaks(ran);
    expect(ran).toMatchObject({ code: 7, stdout: '' });
    expect(lastError(ran)).toMatchObject({
      code: 'contract_error',
      message: expect.stringContaining(other.origin),
    });
    expect(other.requests).toEqual([]);
  });

  test('pages whose links form a circle', async () => {
    const { server, machine } = await withReply([
      200,
      `[${pet}]`,
      { Link: '</v1/pets?cursor=x>; rel="next"' },
    ]);
    const ran = await machine.pets(['list', '--all', '--json']);
    expect(ran).toMatchObject({ code: 7, stdout: '' });
    expect(lastError(ran).message).toContain('was not followed');
    expect(server.requests).toHaveLength(2);
  });
});

describe('a creation and a single animal', () => {
  test.each([
    ['200 for 201', [200, pet], 'HTTP status 200'],
    ['HTML', [201, '<html>'], 'not JSON'],
    ['a list', [201, `[${pet}]`], 'unexpected response'],
    ['no id', [201, '{"name":"Rex","categoryId":1}'], 'id is required'],
  ] as [string, Reply, string][])('add: %s', async (_name, sent, contains) => {
    const { machine } = await withReply(sent);
    await expectFailure(machine, ['add', 'Rex', '--category', '1'], { exit: 7, contains: [contains] });
  });

  test('add: a creation without a response is not repeated', async () => {
    const { server, machine } = await withServer((_request, response) => response.destroy());
    await expectFailure(machine, ['add', 'Rex', '--category', '1'], { exit: 6, contains: ['127.0.0.1'] });
    expect(server.requests).toHaveLength(2);
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
    const expected = { exit: 7, code: 'contract_error', contains: ['not found (404', server.url, '/v1'] };
    await expectFailure(machine, ['get', '7'], expected);
    await expectFailure(machine, ['get', '7', '8'], expected);
  });

  test('get: neither is a 404 with HTML', async () => {
    const { machine } = await withReply(html(404));
    await expectFailure(machine, ['get', '7'], {
      exit: 7,
      code: 'contract_error',
      contains: ['HTTP status 404'],
    });
  });

  test('orders: a body that is not JSON', async () => {
    const { machine } = await withReply([200, 'orders']);
    await expectFailure(machine, ['orders'], { exit: 7, contains: ['not JSON'] });
  });
});
