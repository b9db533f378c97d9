import { describe, expect, onTestFinished, test } from 'vitest';
import { type ClientOptions, createClient } from '../../src/client/client.ts';
import {
  ApiFailure,
  ContractError,
  InterruptedError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
  TimeoutError,
} from '../../src/client/errors.ts';
import { createKnownService } from '../../src/client/known-service.ts';
import { createOwnMarks } from '../../src/client/marks.ts';
import { listPages } from '../../src/client/pages.ts';
import type { Wait } from '../../src/client/sender.ts';
import { createTransport } from '../../src/client/transport.ts';
import { manualClock } from '../helpers/clock.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

const PET = { id: 1, name: 'Rex', categoryId: 3, status: 'available' };
const ERROR = { code: 'rate_limited', message: 'too many', status: 429 };

async function connect(handler: Handler, options: Partial<ClientOptions> = {}) {
  const server = await scriptedServer(handler);
  const clock = manualClock();
  const transport = createTransport({ clock });
  onTestFinished(() => transport.close());
  const waits: Wait[] = [];
  const slept: number[] = [];
  const client = createClient({
    baseUrl: server.url,
    key: 'pets_key',
    service: createKnownService({ baseUrl: server.url, key: 'pets_key' }, createOwnMarks(), clock),
    transport,
    clock,
    async sleep(milliseconds, signal) {
      signal.throwIfAborted();
      slept.push(milliseconds);
      clock.advance(milliseconds);
    },
    random: () => 0,
    signal: new AbortController().signal,
    timeoutMilliseconds: 2_000,
    maxWaitMilliseconds: 75_000,
    onWait: (wait) => waits.push(wait),
    ...options,
  });
  return { client, server, waits, slept, clock };
}

const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error,
  );

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
    const error = await failure(client.call('listPets', { query: {} }));
    expect(error).toBeInstanceOf(RateLimitError);
    expect(server.requests).toHaveLength(4);
    expect(slept).toEqual([1_000, 2_000, 4_000]);
  });

  test('a wait longer than allowed fails at once and says until when', async () => {
    const { client, server, slept, clock } = await connect((_, response) =>
      reply(response, 429, 'not even JSON', { 'Retry-After': '3600' }),
    );
    const error = (await failure(client.call('listPets', { query: {} }))) as RateLimitError;
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error.until).toBe(clock.now() + 3_600_000);
    expect(server.requests).toHaveLength(1);
    expect(slept).toEqual([]);
  });

  test('without retries each request is sent once', async () => {
    const { client, server } = await connect((_, response) => reply(response, 503, ERROR), {
      maxWaitMilliseconds: undefined,
    });
    await failure(client.call('listPets', { query: {} }));
    expect(server.requests).toHaveLength(1);
  });

  test('a read that meets a failing service is sent three times; a creation once', async () => {
    const { client, server } = await connect((_, response) => reply(response, 500, ERROR));
    await failure(client.call('listOrders', {}));
    expect(server.requests).toHaveLength(3);
    await failure(client.call('createPet', { body: { name: 'Rex', categoryId: 3n } }));
    expect(server.requests).toHaveLength(4);
  });

  test.each(['before the answer', 'in the middle of the answer'])(
    'a read whose connection is cut %s is sent again',
    async (when) => {
      const { client, server } = await connect((request, response, count) => {
        if (count === 2) return reply(response, 200, [PET]);
        if (when !== 'before the answer') response.writeHead(200, { 'Content-Length': '100' }).write('[');
        setImmediate(() => request.socket.destroy());
      });
      const { value } = await client.call('listPets', { query: {} });
      expect(value).toHaveLength(1);
      expect(server.requests).toHaveLength(2);
    },
  );

  test.each([500, 503])('a creation that met %i may have been carried out', async (status) => {
    const { client } = await connect((_, response) => reply(response, status, ERROR));
    const error = await failure(client.call('createPet', { body: { name: 'Rex', categoryId: 3n } }));
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expect((error as Error).cause).toBeInstanceOf(ApiFailure);
  });

  test('a creation whose connection is cut is not sent again', async () => {
    const { client, server } = await connect((request) => request.socket.destroy());
    const error = await failure(client.call('createPet', { body: { name: 'Rex', categoryId: 3n } }));
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    const { idempotencyKey, cause } = error as OutcomeUnknownError;
    expect(server.requests.map(({ headers }) => headers['idempotency-key'])).toEqual([`"${idempotencyKey}"`]);
    expect(cause).toBeInstanceOf(NetworkError);
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
    await failure(client.call('getPet', { params: { petId: 1n } }));
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
    expect(await failure(client.call('listPets', { query: {} }))).toBeInstanceOf(kind);
  });

  test('a service that is down is a network error, with nothing sent', async () => {
    const { client } = await connect(() => {}, {
      baseUrl: 'http://127.0.0.1:1/v1',
      maxWaitMilliseconds: undefined,
    });
    const error = (await failure(client.call('listPets', { query: {} }))) as NetworkError;
    expect(error).toBeInstanceOf(NetworkError);
    expect(error).toMatchObject({ code: 'ECONNREFUSED', sent: false });
  });

  test.each(['says nothing', 'stops in the middle'])('a service that %s is a timeout', async (what) => {
    const { client } = await connect(
      (_, response) => {
        if (what === 'stops in the middle') response.writeHead(200, { 'Content-Length': '100' }).write('[');
      },
      { timeoutMilliseconds: 60, maxWaitMilliseconds: undefined },
    );
    expect(await failure(client.call('listPets', { query: {} }))).toBeInstanceOf(TimeoutError);
  });

  test('an interrupt ends a request that runs, and is no network error', async () => {
    const interrupt = new AbortController();
    const { client } = await connect(() => interrupt.abort(), { signal: interrupt.signal });
    expect(await failure(client.call('listPets', { query: {} }))).toBeInstanceOf(InterruptedError);
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
    expect(await failure(client.call('listPets', { query: {} }))).toBeInstanceOf(ContractError);
    expect(server.requests).toHaveLength(1);
  });

  test('a redirect is not followed, and the key goes nowhere else', async () => {
    const other = await scriptedServer((_, response) => reply(response, 200, []));
    const { client } = await connect((_, response) =>
      reply(response, 307, '', { Location: `${other.url}/pets` }),
    );
    expect(await failure(client.call('listPets', { query: {} }))).toBeInstanceOf(ContractError);
    expect(other.requests).toEqual([]);
  });
});

describe('pages', () => {
  const collect = async (handler: Handler, pageSize = 2) => {
    const { client, server } = await connect(handler);
    const pages: { count: number; more: string }[] = [];
    for await (const { pets, more } of listPages(client, { limit: pageSize }, pageSize)) {
      pages.push({ count: pets.length, more });
    }
    return { pages, server };
  };

  test('follow the next links to the end', async () => {
    const { pages, server } = await collect((_, response, count) =>
      reply(response, 200, [PET, PET], count < 3 ? { Link: `</v1/pets?cursor=${count}>; rel="next"` } : {}),
    );
    expect(server.requests.map(({ url }) => url)).toEqual([
      '/v1/pets?limit=2',
      '/v1/pets?cursor=1',
      '/v1/pets?cursor=2',
    ]);
    // A full page without a link is the last, where others had one.
    expect(pages.map(({ more }) => more)).toEqual(['yes', 'yes', 'no']);
  });

  test.each([
    ['a page that is not full and has no link', [PET], {}, 'no'],
    ['a full page without a link', [PET, PET], {}, 'unknown'],
    ['a link of another relation', [PET], { Link: '</v1/pets?a>; rel="prev"' }, 'no'],
    [
      'a relation among others, without quotes, in another header',
      [PET],
      { Link: ['</a>; rel=prev', '<?b=1>; title="a, b"; rel="x next"'] },
      'yes',
    ],
  ])('%s', async (_name, body, headers, more) => {
    const { pages } = await collect((_, response, count) =>
      reply(response, 200, count === 1 ? body : [], count === 1 ? headers : {}),
    );
    expect(pages[0]?.more).toBe(more);
  });

  test('refuse a link to another origin: the key is not sent there', async () => {
    const other = await scriptedServer((_, response) => reply(response, 200, []));
    const error = await failure(
      collect((_, response) => reply(response, 200, [PET], { Link: `<${other.url}/pets>; rel="next"` })),
    );
    expect(error).toBeInstanceOf(ContractError);
    expect(other.requests).toEqual([]);
  });

  test('refuse to go on from one empty page to the next', async () => {
    const asked: number[] = [];
    const error = await failure(
      collect((_, response, count) => {
        asked.push(count);
        reply(response, 200, [], { Link: `</v1/pets?cursor=${count}>; rel="next"` });
      }),
    );
    expect(error).toBeInstanceOf(ContractError);
    expect(asked).toHaveLength(11);
  });

  test('refuse to go in a circle', async () => {
    const error = await failure(
      collect((_, response, count) =>
        reply(response, 200, [PET], { Link: `</v1/pets?cursor=${count % 2}>; rel="next"` }),
      ),
    );
    expect(error).toBeInstanceOf(ContractError);
    expect((error as Error).message).toContain('circle');
  });
});
