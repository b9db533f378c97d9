import { describe, expect, test } from 'vitest';
import { ApiFailure, ContractError, OutcomeUnknownError, RateLimitError } from '../../src/client/errors.ts';
import { add, failureOf, KEY, list, PET, testClient } from '../helpers/client.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

// Answers that are no success, whole: what they are for a read, and whether a creation is in doubt behind them.

const HTML = '<html>Welcome to the hotel</html>';
const asHtml = { 'Content-Type': 'text/html' };
const error = (status: number) => ({ code: 'a_code', message: 'no', status });

type Kind = typeof ApiFailure | typeof ContractError | typeof RateLimitError;
type Row = [string, number, unknown, Record<string, string>, Kind, { sends?: number; isDoubted: boolean }];

const rows: Row[] = [
  ['a web page instead of a list', 200, HTML, asHtml, ContractError, { isDoubted: true }],
  ['a success that says nothing', 204, '', {}, ContractError, { isDoubted: true }],
  ['a success that is not done yet', 202, {}, {}, ContractError, { isDoubted: true }],
  ['400', 400, error(400), {}, ApiFailure, { isDoubted: false }],
  ['401', 401, error(401), {}, ApiFailure, { isDoubted: false }],
  ['401 of a web page', 401, HTML, asHtml, ApiFailure, { isDoubted: false }],
  ['403', 403, error(403), {}, ApiFailure, { isDoubted: false }],
  // No operation of these has one: the service is somewhere else.
  ['404', 404, error(404), {}, ContractError, { isDoubted: false }],
  ['404 of a web page', 404, HTML, asHtml, ContractError, { isDoubted: false }],
  ['407', 407, HTML, asHtml, ContractError, { isDoubted: false }],
  ['408', 408, error(408), {}, ApiFailure, { sends: 3, isDoubted: true }],
  ['409', 409, error(409), {}, ApiFailure, { isDoubted: false }],
  ['422', 422, error(422), {}, ApiFailure, { isDoubted: false }],
  ['429', 429, error(429), { 'Retry-After': '3600' }, RateLimitError, { isDoubted: false }],
  ['500', 500, error(500), {}, ApiFailure, { sends: 3, isDoubted: true }],
  ['501', 501, error(501), {}, ApiFailure, { isDoubted: true }],
  ['502 of a web page', 502, HTML, asHtml, ApiFailure, { sends: 3, isDoubted: true }],
  ['503', 503, error(503), {}, ApiFailure, { sends: 3, isDoubted: true }],
  ['504', 504, '', {}, ApiFailure, { sends: 3, isDoubted: true }],
  ['599', 599, '', {}, ApiFailure, { isDoubted: true }],
];

describe.each(rows)('%s', (_name, status, body, headers, kind, { sends = 1, isDoubted }) => {
  const start = async () => {
    const server = await scriptedServer((_, response) => reply(response, status, body, headers));
    return { server, ...testClient(server.url) };
  };

  test('to a read', async () => {
    const { client, server } = await start();
    expect(await failureOf(list(client))).toBeInstanceOf(kind);
    expect(server.requests).toHaveLength(sends);
  });

  test(`to a creation, which ${isDoubted ? 'is' : 'is not'} in doubt`, async () => {
    const { client, server } = await start();
    const failure = await failureOf(add(client));
    expect(server.requests).toHaveLength(1);
    expect(failure).toBeInstanceOf(isDoubted ? OutcomeUnknownError : kind);
    if (isDoubted) expect((failure as Error).cause).toBeInstanceOf(kind);
  });
});

describe('a creation that was carried out, as its status says, is in doubt where what came of it cannot be read', () => {
  test.each([
    ['a web page', HTML],
    ['nothing', ''],
    ['half a JSON text', '{"id":1,'],
    ['text behind the JSON', `${JSON.stringify(PET)} `.concat('x')],
    ['an array', [PET]],
    ['an animal without an id', { ...PET, id: undefined }],
    ['an id that is a text', { ...PET, id: '1' }],
    ['an id beyond int64', '{"id":9223372036854775808,"name":"Rex","categoryId":3}'],
    ['null', 'null'],
  ])('%s', async (_name, body) => {
    const server = await scriptedServer((_, response) => reply(response, 201, body));
    const { client } = testClient(server.url);
    const failure = await failureOf(add(client));
    expect(failure).toBeInstanceOf(OutcomeUnknownError);
    expect((failure as Error).cause).toBeInstanceOf(ContractError);
    expect(server.requests).toHaveLength(1);
  });
});

describe.each([301, 302, 303, 307, 308])('a redirect (%i)', (status) => {
  test.each([
    ['to another origin', (other: string) => `${other}/v1/pets`],
    ['to the same origin', () => '/v1/animals'],
    ['to a user of another origin', (other: string) => other.replace('//', `//${KEY}@`)],
    ['to nowhere', () => undefined],
    ['to what is no address', () => 'http://['],
  ])('%s is not followed', async (_name, locate) => {
    const other = await scriptedServer((_, response) => reply(response, 200, []));
    const location = locate(other.origin);
    const server = await scriptedServer((_, response) =>
      reply(response, status, HTML, location === undefined ? asHtml : { ...asHtml, Location: location }),
    );
    const { client } = testClient(server.url);
    for (const call of [list, add]) {
      const told = await failureOf(call(client));
      // 307 and 308 alone say that it is to be done elsewhere.
      expect(told instanceof OutcomeUnknownError).toBe(status <= 303 && call === add);
      const failure = told instanceof OutcomeUnknownError ? told.cause : told;
      expect(failure).toBeInstanceOf(ContractError);
      expect((failure as Error).message).toContain(`not followed (${status})`);
    }
    expect(server.requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'GET /v1/pets',
      'POST /v1/pets',
    ]);
    expect(other.requests).toEqual([]);
  });
});
