import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { CANARY, expectDecent, expectRefusal, lastError, type Refusal } from '../helpers/refusal.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { shell } from '../helpers/shell.ts';

// Servers that do not do as the contract says: each failure names the server, tells what it did, and shows no key.

async function loggedIn(url: string): Promise<Machine> {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: CANARY });
  return machine;
}

const html = (response: ServerResponse, status: number) =>
  reply(response, status, '<!doctype html><title>hello</title>', {
    'Content-Type': 'text/html; charset=utf-8',
  });

const echo = `Bearer ${CANARY} is not known`;
const pet = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';

type Row = readonly [
  name: string,
  answer: (response: ServerResponse) => void,
  expected: Pick<Refusal, 'exit' | 'code' | 'says'> & { status?: number },
];

const rows: Row[] = [
  [
    'HTML with 200',
    (r) => html(r, 200),
    { exit: 7, code: 'contract_error', says: ['not JSON', 'text/html'] },
  ],
  [
    'HTML with 404',
    (r) => html(r, 404),
    { exit: 7, status: 404, says: ['answered 404', 'text/html', '/v1'] },
  ],
  ['HTML with 400', (r) => html(r, 400), { exit: 7, status: 400, says: ['answered 400', 'text/html'] }],
  [
    'HTML with 401',
    (r) => html(r, 401),
    { exit: 4, status: 401, says: ['rejected key …K2mX from profile prod'] },
  ],
  [
    'HTML with 403',
    (r) => html(r, 403),
    { exit: 4, status: 403, says: ['rejected key …K2mX', 'pets login'] },
  ],
  [
    'HTML with 502',
    (r) => html(r, 502),
    { exit: 7, code: 'http_502', status: 502, says: ['answered 502', 'try again'] },
  ],
  ['an empty body with 200', (r) => reply(r, 200, ''), { exit: 7, says: ['not JSON'] }],
  ['an empty body with 500', (r) => reply(r, 500, ''), { exit: 7, status: 500, says: ['answered 500'] }],
  [
    'an empty body with 429',
    (r) => reply(r, 429, ''),
    { exit: 5, code: 'rate_limited', status: 429, says: ['rate-limited until', '--max-wait'] },
  ],
  ['JSON cut off', (r) => reply(r, 200, `[${pet},{"id":2`), { exit: 7, says: ['not JSON'] }],
  [
    'an object for a list',
    (r) => reply(r, 200, '{"pets":[]}'),
    { exit: 7, says: ['outside the contract', 'JSON array'] },
  ],
  ['null for a list', (r) => reply(r, 200, 'null'), { exit: 7, says: ['outside the contract'] }],
  [
    'an animal without an id',
    (r) => reply(r, 200, '[{"name":"Rex","categoryId":1}]'),
    { exit: 7, says: ['0.id is required'] },
  ],
  [
    'an id beyond int64',
    (r) => reply(r, 200, `[${pet.replace('1', '9223372036854775808')}]`),
    { exit: 7, says: ['0.id must be an integer'] },
  ],
  [
    'an id as text',
    (r) => reply(r, 200, `[${pet.replace('1', '"1"')}]`),
    { exit: 7, says: ['0.id must be an integer'] },
  ],
  [
    'an unknown status',
    (r) => reply(r, 200, `[${pet.replace('available', 'lost')}]`),
    { exit: 7, says: ['0.status must be one of'] },
  ],
  ['201 for a list', (r) => reply(r, 201, '[]'), { exit: 7, says: ['answered 201'] }],
  ['204 for a list', (r) => reply(r, 204, ''), { exit: 7, says: ['answered 204'] }],
  [
    'deep nesting',
    (r) => reply(r, 200, `${'['.repeat(5_000)}${']'.repeat(5_000)}`),
    { exit: 7, says: ['not JSON'] },
  ],
  ['10 MB of [', (r) => reply(r, 200, '['.repeat(10_000_000)), { exit: 7, says: ['not JSON'] }],
  [
    'an Error body with 500',
    (r) => reply(r, 500, { code: 'internal_error', message: 'the disk is full', status: 500 }),
    { exit: 7, code: 'internal_error', status: 500, says: ['the disk is full'] },
  ],
  [
    'an Error body with 400',
    (r) => reply(r, 400, { code: 'invalid_request', message: 'limit is odd', status: 400 }),
    { exit: 1, code: 'invalid_request', status: 400, says: ['limit is odd'] },
  ],
  [
    'an Error body with 404',
    (r) => reply(r, 404, { code: 'not_found', message: 'nothing here', status: 404 }),
    { exit: 7, code: 'contract_error', status: 404, says: ['no such address', 'nothing here', '/v1'] },
  ],
  [
    'the key sent back inside a 401',
    (r) => reply(r, 401, { code: 'unauthorized', message: echo, status: 401 }),
    { exit: 4, status: 401, says: ['rejected key …K2mX'] },
  ],
  [
    'the key sent back inside a 500',
    (r) => reply(r, 500, { code: 'internal_error', message: echo, status: 500 }),
    { exit: 7, status: 500, says: ['is not known'] },
  ],
  [
    'the key sent back inside a 429',
    (r) => reply(r, 429, { code: 'rate_limited', message: echo, status: 429 }),
    { exit: 5, says: ['is not known'] },
  ],
  [
    'the key sent back as a code',
    (r) => reply(r, 500, { code: CANARY, message: 'no', status: 500 }),
    { exit: 7, says: ['no'] },
  ],
  [
    'the key sent back as a content type',
    (r) => reply(r, 200, 'x', { 'Content-Type': CANARY }),
    { exit: 7, says: ['not JSON'] },
  ],
  [
    'a message that would steer a terminal',
    (r) => reply(r, 500, { code: 'x', message: 'a\u001b[2Jb\u202ec\r\nd', status: 500 }),
    { exit: 7, code: 'x', says: ['d'] },
  ],
  [
    'a key that is banned for a day',
    (r) => reply(r, 429, { code: 'key_banned', message: 'banned', status: 429 }, { 'Retry-After': '86400' }),
    { exit: 5, code: 'key_banned', status: 429, says: ['rate-limited until', 'banned'] },
  ],
  [
    'a Retry-After beyond every calendar',
    (r) => reply(r, 429, '', { 'Retry-After': '9'.repeat(400) }),
    { exit: 5, says: ['rate-limited until'] },
  ],
];

test.each(rows)('%s', async (_name, answer, { status, ...expected }) => {
  const server = await scriptedServer((_request, response) => answer(response));
  const machine = await loggedIn(server.url);
  const says = [`127.0.0.1:${new URL(server.url).port}`, ...expected.says];
  const options = ['--no-retry', '--max-wait', '0'];
  await expectRefusal(machine, ['list', ...options], { ...expected, says });
  expect(server.requests).toHaveLength(2);
  if (status !== undefined) {
    expect(lastError(await machine.pets(['list', '--json', ...options]))).toMatchObject({ status });
  }
});

test('what would steer a terminal is written out', async () => {
  const server = await scriptedServer((_request, response) =>
    reply(response, 500, { code: 'x', message: 'a\u001b[2Jb\u202ec\r\nd', status: 500 }),
  );
  const { stderr } = await (await loggedIn(server.url)).pets(['list', '--no-retry']);
  expect(stderr).toContain('a\\x1b[2Jb\\u202ec\\r\\nd');
  expect(stderr).not.toMatch(/[\u001b\u202e\r]/);
});

describe('redirects are not followed, and the key goes nowhere else', () => {
  test.each([301, 302, 303, 307, 308])('%i', async (status) => {
    const other = await scriptedServer((_request, response) => reply(response, 200, []));
    const server = await scriptedServer((_request, response) =>
      reply(response, status, '', { Location: `${other.url}/pets` }),
    );
    const machine = await loggedIn(server.url);
    const expected = { exit: 7, code: 'contract_error', says: ['redirects', String(status)] };
    await expectRefusal(machine, ['list'], expected);
    await expectRefusal(machine, ['add', 'Rex', '--category', '1'], expected);
    await expectRefusal(machine, ['list', '--all'], expected);
    expect(other.requests).toEqual([]);
  });

  test('a next page at another origin is not asked for', async () => {
    const other = await scriptedServer((_request, response) => reply(response, 200, []));
    const server = await scriptedServer((_request, response) =>
      reply(response, 200, `[${pet}]`, { Link: `<${other.url}/pets?cursor=x>; rel="next"` }),
    );
    const machine = await loggedIn(server.url);
    const ran = await machine.pets(['list', '--all', '--json']);
    expectDecent(ran);
    expect(ran).toMatchObject({ code: 7, stdout: '' });
    expect(lastError(ran)).toMatchObject({
      code: 'contract_error',
      message: expect.stringContaining(other.origin),
    });
    expect(other.requests).toEqual([]);
  });

  test('pages that lead in a circle', async () => {
    const server = await scriptedServer((_request, response) =>
      reply(response, 200, `[${pet}]`, { Link: '</v1/pets?cursor=x>; rel="next"' }),
    );
    const ran = await (await loggedIn(server.url)).pets(['list', '--all', '--json']);
    expect(ran).toMatchObject({ code: 7, stdout: '' });
    expect(lastError(ran).message).toContain('circle');
    expect(server.requests).toHaveLength(2);
  });
});

describe('a creation and a single animal', () => {
  test.each([
    ['200 for 201', 200, pet, 'answered 200'],
    ['HTML', 201, '<html>', 'not JSON'],
    ['a list', 201, `[${pet}]`, 'outside the contract'],
    ['no id', 201, '{"name":"Rex","categoryId":1}', 'id is required'],
  ])('add: %s', async (_name, status, body, says) => {
    const server = await scriptedServer((_request, response) => reply(response, status, body));
    const machine = await loggedIn(server.url);
    await expectRefusal(machine, ['add', 'Rex', '--category', '1'], { exit: 7, says: [says] });
  });

  test('add: an answer that never comes is not asked for twice', async () => {
    const server = await scriptedServer((_request, response) => response.destroy());
    const machine = await loggedIn(server.url);
    await expectRefusal(machine, ['add', 'Rex', '--category', '1'], { exit: 6, says: ['127.0.0.1'] });
    expect(server.requests).toHaveLength(2);
  });

  test('get: a missing animal', async () => {
    const server = await scriptedServer((request, response) =>
      request.url?.startsWith('/v1/pets?')
        ? reply(response, 200, [])
        : reply(response, 404, { code: 'not_found', message: 'none', status: 404 }),
    );
    const machine = await loggedIn(server.url);
    await expectRefusal(machine, ['get', '7'], { exit: 3, code: 'not_found', says: ['id 7', 'pets list'] });
  });

  test('get: under a wrong base URL no animal is missing, but the service', async () => {
    const server = await scriptedServer((_request, response) =>
      reply(response, 404, { code: 'not_found', message: 'none', status: 404 }),
    );
    const machine = await loggedIn(server.url);
    const says = ['no such address', server.url, '/v1'];
    await expectRefusal(machine, ['get', '7'], { exit: 7, code: 'contract_error', says });
    await expectRefusal(machine, ['get', '7', '8'], { exit: 7, code: 'contract_error', says });
  });

  test('add: what was added is not reported as a failure that may be repeated', async () => {
    const machine = await loggedIn(
      (
        await scriptedServer((_request, response) =>
          reply(response, 201, { id: 12, name: 'Rex', categoryId: 1, status: 'available' }),
        )
      ).url,
    );
    for (const json of ['', '--json']) {
      const { code, stderr } = await shell(machine, `pets add Rex --category 1 ${json} > /dev/full`);
      expect(code).toBe(1);
      expect(stderr).toContain('animal 12 was added');
      expect(stderr).toContain('do not add it again');
    }
  });

  test('get: HTML with 404 is no missing animal', async () => {
    const server = await scriptedServer((_request, response) => html(response, 404));
    const machine = await loggedIn(server.url);
    await expectRefusal(machine, ['get', '7'], { exit: 7, code: 'contract_error', says: ['answered 404'] });
  });

  test('orders: what is no JSON', async () => {
    const server = await scriptedServer((_request, response) => reply(response, 200, 'orders'));
    await expectRefusal(await loggedIn(server.url), ['orders'], { exit: 7, says: ['not JSON'] });
  });
});
