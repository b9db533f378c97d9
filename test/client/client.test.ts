import { describe, expect, test } from 'vitest';
import { ApiFailure, ContractError, RateLimitError } from '../../src/client/errors.ts';
import { failureOf, PET, type TestClientOptions, testClient } from '../helpers/client.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

const ERROR = { code: 'rate_limited', message: 'too many', status: 429 };

async function connect(handler: Handler, options: TestClientOptions = {}) {
  const server = await scriptedServer(handler);
  return { server, ...testClient(options.baseUrl ?? server.url, options) };
}

describe('a call', () => {
  test('sends the key as a bearer token, and the operation as the contract has it', async () => {
    const { client, server } = await connect((_, response) => reply(response, 200, []));
    await client.call('listPets', { query: { limit: 5, status: 'sold' } });
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({
      method: 'GET',
      url: '/v1/pets?limit=5&status=sold',
      headers: { authorization: 'Bearer pets_key', accept: 'application/json' },
    });
  });

  test('sends a body digit for digit, with an idempotency key of its own', async () => {
    const { client, server } = await connect((_, response) =>
      reply(
        response,
        201,
        '{"id":9007199254740993,"name":"Rex","categoryId":9223372036854775807,"new":1.50}',
      ),
    );
    const body = { name: 'Rex', categoryId: 9223372036854775807n };
    const { value } = await client.call('createPet', { body });
    await client.call('createPet', { body });
    expect(server.requests[0]?.body).toBe('{"name":"Rex","categoryId":9223372036854775807}');
    expect(server.requests[0]?.headers['content-type']).toBe('application/json');
    const keys = server.requests.map(({ headers }) => headers['idempotency-key']);
    expect(keys[0]).toMatch(/^"[0-9a-f-]{36}"$/);
    expect(keys[1]).not.toBe(keys[0]);
    expect(value).toMatchObject({ id: 9007199254740993n, categoryId: 9223372036854775807n });
    expect(String(value['new'])).toBe('1.50');
  });

  test('puts a path parameter into the path', async () => {
    const { client, server } = await connect((_, response) => reply(response, 200, PET));
    await client.call('getPet', { params: { petId: 9223372036854775807n } });
    expect(server.requests[0]?.url).toBe('/v1/pets/9223372036854775807');
  });
});

describe('retries', () => {
  test('after 429 it waits what Retry-After says, tells so, and sends the same again', async () => {
    const { client, server, waits, slept } = await connect((_, response, count) =>
      count === 1 ? reply(response, 429, ERROR, { 'Retry-After': '7' }) : reply(response, 201, PET),
    );
    await client.call('createPet', { body: { name: 'Rex', categoryId: 3n } });
    expect(slept).toEqual([7_000]);
    expect(waits).toEqual([
      { reason: 'rate limit', milliseconds: 7_000, until: Date.parse('2026-11-20T12:00:07Z') },
    ]);
    const [first, second] = server.requests;
    expect(second?.body).toBe(first?.body);
    expect(second?.headers['idempotency-key']).toBe(first?.headers['idempotency-key']);
  });

  test('at most four attempts at a rate limit, each wait at least as long as its backoff', async () => {
    const { client, server, slept } = await connect((_, response) =>
      reply(response, 429, ERROR, { 'Retry-After': '1' }),
    );
    const error = await failureOf(client.call('listPets', { query: {} }));
    expect(error).toBeInstanceOf(RateLimitError);
    expect(server.requests).toHaveLength(4);
    expect(slept).toEqual([1_000, 2_000, 4_000]);
  });

  test('a wait longer than allowed fails at once and says until when', async () => {
    const { client, server, slept, clock } = await connect((_, response) =>
      reply(response, 429, 'not even JSON', { 'Retry-After': '3600' }),
    );
    const error = (await failureOf(client.call('listPets', { query: {} }))) as RateLimitError;
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error.until).toBe(clock.now() + 3_600_000);
    expect(server.requests).toHaveLength(1);
    expect(slept).toEqual([]);
  });

  test('without retries each request is sent once', async () => {
    const { client, server } = await connect((_, response) => reply(response, 503, ERROR), {
      maxWaitMilliseconds: undefined,
    });
    await failureOf(client.call('listPets', { query: {} }));
    expect(server.requests).toHaveLength(1);
  });
});

describe('an operation that is to be removed', () => {
  const sunset = { Deprecation: '@1795132800', Sunset: 'Thu, 05 Dec 2030 00:00:00 GMT' };

  test('is told once, whatever the answers are', async () => {
    const told: unknown[] = [];
    const { client } = await connect(
      (_, response, count) => reply(response, count === 1 ? 404 : 200, count === 1 ? ERROR : PET, sunset),
      { onDeprecated: (deprecated) => told.push(deprecated) },
    );
    await failureOf(client.call('getPet', { params: { petId: 1n } }));
    await client.call('getPet', { params: { petId: 1n } });
    expect(told).toEqual([{ operation: 'getPet', sunset: new Date('2030-12-05T00:00:00Z') }]);
  });

  test.each([{}, { Deprecation: '@1795132800' }, { Sunset: 'some day' }])('%j', async (headers) => {
    const told: unknown[] = [];
    const { client } = await connect((_, response) => reply(response, 200, PET, headers), {
      onDeprecated: (deprecated) => told.push(deprecated),
    });
    await client.call('getPet', { params: { petId: 1n } });
    expect(told).toEqual(Object.keys(headers).map(() => ({ operation: 'getPet', sunset: undefined })));
  });
});

describe('errors are of one kind each', () => {
  test.each([
    ['an Error body', 400, JSON.stringify({ code: 'bad', message: 'no', status: 400 }), ApiFailure],
    ['401 without an Error body', 401, '<html>', ApiFailure],
    ['404 without an Error body', 404, '<html>', ContractError],
    ['500 without an Error body', 500, '<html>', ApiFailure],
    ['429 without an Error body', 429, '<html>', RateLimitError],
    ['a redirect', 302, '', ContractError],
    ['HTML where JSON is expected', 200, '<html>', ContractError],
    ['an empty body', 200, '', ContractError],
    ['another shape', 200, '{"pets":[]}', ContractError],
    ['an animal without an id', 200, '[{"name":"Rex","categoryId":3}]', ContractError],
    ['an id beyond int64', 200, '[{"id":9223372036854775808,"name":"Rex","categoryId":3}]', ContractError],
    ['a success of another kind', 204, '', ContractError],
    ['a body nested 100,000 deep', 200, '['.repeat(100_000), ContractError],
  ])('%s', async (_name, status, body, kind) => {
    const { client } = await connect((_, response) => reply(response, status, body), {
      maxWaitMilliseconds: undefined,
    });
    expect(await failureOf(client.call('listPets', { query: {} }))).toBeInstanceOf(kind);
  });

  test('a reply without end is cut at 64 MiB', async () => {
    const chunk = Buffer.alloc(4 * 1024 * 1024, ' ');
    const { client, server } = await connect(
      (_, response) => {
        response.writeHead(200);
        const more = () => {
          while (!response.destroyed && response.write(chunk));
        };
        response.on('drain', more);
        more();
      },
      { timeoutMilliseconds: 15_000 },
    );
    expect(await failureOf(client.call('listPets', { query: {} }))).toBeInstanceOf(ContractError);
    expect(server.requests).toHaveLength(1);
  });
});
