import { expect, test } from 'vitest';
import {
  ApiFailure,
  ContractError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
} from '../../src/client/errors.ts';
import { add, KEY, list, PET, rejection, testClient } from '../helpers/client.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { formatResponse, wireServer } from '../helpers/wire-server.ts';

// The client does not accept these responses. The tests check the error of a read, and whether a creation is ambiguous.

const HTML = '<html>Welcome to the hotel</html>';
const NESTED = '['.repeat(100_000) + ']'.repeat(100_000);
const asHtml = { 'Content-Type': 'text/html' };
const error = (status: number) => ({ code: 'a_code', message: 'no', status });

type Kind = typeof ApiFailure | typeof NetworkError | typeof ContractError | typeof RateLimitError;
type Row = [string, number, unknown, Record<string, string>, Kind, { sends?: number; isAmbiguous: boolean }];

const rows: Row[] = [
  ['HTML with status 200', 200, HTML, asHtml, ContractError, { isAmbiguous: true }],
  ['an empty body', 200, '', {}, ContractError, { isAmbiguous: true }],
  ['incomplete JSON', 200, '{"id":1,', {}, NetworkError, { sends: 6, isAmbiguous: true }],
  ['JSON nested 100,000 levels deep', 200, NESTED, {}, ContractError, { isAmbiguous: true }],
  ['an animal without an id', 200, { ...PET, id: undefined }, {}, ContractError, { isAmbiguous: true }],
  ['a name that is null', 200, { ...PET, name: null }, {}, ContractError, { isAmbiguous: true }],
  ['204', 204, '', {}, ContractError, { isAmbiguous: true }],
  ['202 with an animal', 202, PET, {}, ContractError, { isAmbiguous: true }],
  ['400', 400, error(400), {}, ApiFailure, { isAmbiguous: false }],
  // Listing and adding animals never fail with 404, so the base URL must be wrong.
  ['404 with HTML', 404, HTML, asHtml, ContractError, { isAmbiguous: false }],
  ['408', 408, error(408), {}, ApiFailure, { sends: 6, isAmbiguous: true }],
  ['429', 429, error(429), { 'Retry-After': '3600' }, RateLimitError, { isAmbiguous: false }],
  ['429 with HTML', 429, HTML, { ...asHtml, 'Retry-After': '3600' }, RateLimitError, { isAmbiguous: false }],
  ['500', 500, error(500), {}, ApiFailure, { sends: 6, isAmbiguous: true }],
  ['502 with HTML', 502, HTML, asHtml, ApiFailure, { sends: 6, isAmbiguous: true }],
  ['599', 599, '', {}, ApiFailure, { isAmbiguous: true }],
];

test.each(rows)('%s', async (_name, status, body, headers, kind, { sends = 1, isAmbiguous }) => {
  const server = await scriptedServer((_, response) => reply(response, status, body, headers));
  expect(await rejection(list(testClient(server.url).client))).toBeInstanceOf(kind);
  expect(server.requests).toHaveLength(sends);

  const failure = await rejection(add(testClient(server.url).client));
  expect(server.requests).toHaveLength(sends + 1);
  expect(failure).toBeInstanceOf(isAmbiguous ? OutcomeUnknownError : kind);
  if (isAmbiguous) expect((failure as Error).cause).toBeInstanceOf(kind);
});

test.each([
  [200, ContractError],
  [400, ApiFailure],
])('a response larger than 64 MiB with status %i', async (status, kind) => {
  const chunk = Buffer.alloc(4 * 1024 * 1024, ' ');
  const server = await scriptedServer((_, response) => {
    response.writeHead(status);
    const more = () => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', more);
    more();
  });
  expect(await rejection(list(testClient(server.url).client))).toBeInstanceOf(kind);
  expect(server.requests).toHaveLength(1);
});

test.each<[number, string, (other: string) => string | undefined]>([
  [301, 'to another origin', (other) => `${other}/v1/pets`],
  [302, 'to the same origin', () => '/v1/animals'],
  [303, 'without a Location', () => undefined],
  [307, 'to another origin with a user name', (other) => other.replace('//', `//${KEY}@`)],
  [308, 'to an invalid URL', () => 'http://['],
])('a redirect (%i) %s is not followed', async (status, _name, locate) => {
  const other = await scriptedServer((_, response) => reply(response, 200, []));
  const location = locate(other.origin);
  const server = await scriptedServer((_, response) =>
    reply(response, status, HTML, location === undefined ? asHtml : { ...asHtml, Location: location }),
  );
  const { client } = testClient(server.url);
  for (const call of [list, add]) {
    const reason = await rejection(call(client));
    // 301, 307 and 308 only name another URL, so the request was not applied.
    expect(reason instanceof OutcomeUnknownError).toBe([302, 303].includes(status) && call === add);
    const failure = reason instanceof OutcomeUnknownError ? reason.cause : reason;
    expect(failure).toBeInstanceOf(ContractError);
    const words = location === undefined ? 'unexpected response' : `redirect to ${location} was not followed`;
    expect((failure as Error).message).toBe(`${words}: HTTP status ${status}`);
  }
  expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'POST']);
  expect(other.requests).toEqual([]);
});

test.each<[number, string, string | undefined]>([
  [400, '{}', 'HTTP status 400'],
  [503, '{"message":"busy"}', 'busy (503)'],
  [429, '{}', 'rate limit exceeded'],
  [400, '{"why":"so"}', 'HTTP status 400: {"why":"so"}'],
  [400, '{"title":"no","detail":"why"}', 'why'],
  [400, '{"type":"about:blank","title":"why","status":400}', 'why'],
  [400, '{"message":["why","not"],"error":"Bad Request"}', 'why; not'],
  [400, '{"error":"why"}', 'why'],
  [400, '{"error":{"code":7,"message":"why"}}', 'why'],
  [400, ' why\nnot ', 'why'],
  [400, '<title>no</title><p>why</p>', 'HTTP status 400'],
])('the message of an error with status %i and the body %j is %j', async (status, body, message) => {
  const server = await scriptedServer((_, response) => reply(response, status, body));
  const { client } = testClient(server.url, { maxWaitMilliseconds: undefined });
  expect(await rejection(list(client))).toMatchObject({ message });
});

test('headers that Node refuses are a response: there is no retry, and a creation is ambiguous', async () => {
  const server = await wireServer((socket, _, { line }) =>
    socket.write(formatResponse(line.startsWith('GET') ? 200 : 201, [PET], { Cookie: 'x'.repeat(20_000) })),
  );
  const { client } = testClient(server.url, { supportsIdempotency: true });
  const error = await rejection(list(client));
  expect(error).toBeInstanceOf(ContractError);
  expect(error).toMatchObject({ status: undefined, hint: expect.stringContaining('--max-http-header-size') });
  expect(await rejection(add(client))).toMatchObject({ cause: { code: 'contract_error' } });
  expect(server.requests).toHaveLength(2);
});
