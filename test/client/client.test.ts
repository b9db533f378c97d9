import { expect, test } from 'vitest';
import { OutcomeUnknownError } from '../../src/client/errors.ts';
import { testClient } from '../helpers/client.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

async function connect(handler: Handler) {
  const server = await scriptedServer(handler);
  return { server, ...testClient(server.url) };
}

test('a call sends the key as a bearer token, and the query', async () => {
  const { client, server } = await connect((_, response) => reply(response, 200, []));
  await client.call('listPets', { query: { limit: 5, status: 'sold' } });
  const headers = { accept: 'application/json', 'accept-encoding': 'gzip', 'user-agent': 'pets/test' };
  expect(server.requests).toMatchObject([
    {
      method: 'GET',
      url: '/v1/pets?limit=5&status=sold',
      headers: { ...headers, authorization: 'Bearer pets_key' },
    },
  ]);
});

test('a call sends and reads exact numbers, and sends a new idempotency key with each creation', async () => {
  const { client, server } = await connect((_, response, count) =>
    reply(
      response,
      201,
      `{"id":900719925474099${count + 2},"name":"Rex","categoryId":9223372036854775807,"new":1.50}`,
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

test.each<[string, string, string, isAdded: boolean]>([
  ['with the same name', 'Rex', 'Rex', true],
  ['with a trimmed name', ' Rex\n', 'Rex', true],
  ['with a name in another case', 'Straße', 'STRASSE', true],
  ['with a name in another Unicode form', 'Zoe\u0308', 'Zo\u00eb', true],
  ['with another name', 'Rex', 'Max', false],
])('an animal %s in the response to a creation', async (_name, sent, received, isAdded) => {
  const { client, server } = await connect((_, response) =>
    reply(response, 201, { id: 1, name: received, categoryId: null, status: null }),
  );
  const result = await client
    .call('createPet', { body: { name: sent, categoryId: 3n, status: 'sold' } })
    .catch((reason: unknown) => reason);
  if (isAdded) expect(result).toMatchObject({ value: { name: received } });
  else {
    expect(result).toBeInstanceOf(OutcomeUnknownError);
    const message = 'unexpected response: an animal with the name "Max" instead of "Rex"';
    expect((result as OutcomeUnknownError).cause).toMatchObject({ message });
  }
  expect(server.requests).toHaveLength(1);
});
