import { describe, expect, test } from 'vitest';
import { PET, type TestClientOptions, testClient } from '../helpers/client.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

async function connect(handler: Handler, options: TestClientOptions = {}) {
  const server = await scriptedServer(handler);
  return { server, ...testClient(server.url, options) };
}

describe('a call', () => {
  test('sends the key as a bearer token, and the query', async () => {
    const { client, server } = await connect((_, response) => reply(response, 200, []));
    await client.call('listPets', { query: { limit: 5, status: 'sold' } });
    expect(server.requests).toMatchObject([
      {
        method: 'GET',
        url: '/v1/pets?limit=5&status=sold',
        headers: {
          authorization: 'Bearer pets_key',
          accept: 'application/json',
          'accept-encoding': 'gzip, br',
          'user-agent': 'pets/test',
        },
      },
    ]);
  });

  test('sends and reads exact numbers, and sends a new idempotency key with each creation', async () => {
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

describe('a deprecated operation', () => {
  const collect = async (handler: Handler) => {
    const reported: unknown[] = [];
    const { client } = await connect(handler, { onDeprecated: (deprecated) => reported.push(deprecated) });
    await client.call('getPet', { params: { petId: 1n } }).catch(() => {});
    await client.call('getPet', { params: { petId: 1n } });
    return reported;
  };

  test('is reported once, also from an error response', async () => {
    const headers = { Deprecation: '@1795132800', Sunset: 'Thu, 05 Dec 2030 00:00:00 GMT' };
    const reported = await collect((_, response, count) =>
      count === 1 ? replyError(response, 404, 'a_code', headers) : reply(response, 200, PET, headers),
    );
    expect(reported).toEqual([{ operation: 'getPet', sunset: new Date('2030-12-05T00:00:00Z') }]);
  });

  test.each([{}, { Deprecation: '@1795132800' }, { Sunset: 'some day' }])(
    'is recognised by any of its headers: %j',
    async (headers) => {
      const reported = await collect((_, response) => reply(response, 200, PET, headers));
      expect(reported).toEqual(Object.keys(headers).map(() => ({ operation: 'getPet', sunset: undefined })));
    },
  );
});
