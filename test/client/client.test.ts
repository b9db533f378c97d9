import { describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { ApiFailure, OutcomeUnknownError, RemovedError } from '../../src/client/errors.ts';
import { PET, rejection, type TestClientOptions, testClient } from '../helpers/client.ts';
import { manualClock } from '../helpers/clock.ts';
import { type Handler, reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

async function connect(handler: Handler, options: TestClientOptions = {}) {
  const server = await scriptedServer(handler);
  return { server, ...testClient(server.url, options) };
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

describe('an animal in the response to a creation', () => {
  /** Creates two animals, the second named Rex. Returns both outcomes, and the differences reported for them. */
  async function addTwo(sent: object, ...received: [object, object?]) {
    const differences: string[] = [];
    const { client, server } = await connect(
      (_, response, count) => reply(response, 201, received[count - 1] ?? { id: 'other', name: 'Rex' }),
      { onDifference: (difference) => differences.push(difference) },
    );
    const body = { name: 'Rex', categoryId: 3n, ...sent };
    const outcomes: string[] = [];
    for (const create of [body, { ...body, name: 'Rex' }]) {
      const error = await client.call('createPet', { body: create }).catch((reason: unknown) => reason);
      outcomes.push(error instanceof OutcomeUnknownError ? (error.cause as Error).message : 'added');
    }
    expect(server.requests).toHaveLength(2);
    return {
      outcome: outcomes[0],
      second: outcomes[1],
      changes: differences.filter((each) => each.startsWith('added')),
    };
  }

  test.each<[string, object, object]>([
    ['equal', { status: 'sold' }, { name: 'Rex', categoryId: 3, status: 'sold' }],
    ['without a status and a category', { status: 'sold' }, { name: 'Rex' }],
    ['with a status that was not sent', {}, { name: 'Rex', status: 'pending' }],
    ['with fields that are null', { status: 'sold' }, { name: 'Rex', status: null, categoryId: null }],
    ['with the category as text, and with zeros', {}, { name: 'Rex', categoryId: '03.0' }],
    ['with a trimmed name', { name: ' Rex\n' }, { name: 'Rex' }],
    ['with a name in another case', { name: 'Straße' }, { name: 'STRASSE' }],
    ['with a name in another Unicode form', { name: 'Zoe\u0308' }, { name: 'Zo\u00eb' }],
  ])('%s, was added', async (_name, sent, received) => {
    expect(await addTwo(sent, { id: 1, ...received })).toEqual({
      outcome: 'added',
      second: 'added',
      changes: [],
    });
  });

  test.each<[object, string]>([
    [{ status: 'available' }, 'status available instead of sold'],
    [{ categoryId: 4 }, 'categoryId 4 instead of 3'],
    [{ status: 'lost', categoryId: '4' }, 'status lost instead of sold and categoryId 4 instead of 3'],
  ])('with %j was added, and the difference is reported', async (received, change) => {
    const { outcome, changes } = await addTwo({ status: 'sold' }, { id: 1, name: 'Rex', ...received });
    expect([outcome, changes]).toEqual(['added', [`added the animal with ${change}`]]);
  });

  test('with another name, or the id of an earlier creation: the outcome is unknown', async () => {
    const { outcome } = await addTwo({}, { id: 1, name: 'Max', categoryId: 3 });
    expect(outcome).toBe('unexpected response: an animal with the name "Max" instead of "Rex"');
    const { second } = await addTwo({}, { id: 1, name: 'Rex' }, { id: '1', name: 'Rex' });
    expect(second).toBe(
      'unexpected response: an animal with id 1, which the service has already given to another animal',
    );
  });
});

const SUNSET = new Date('2030-12-05T00:00:00Z');
const announcement = { Deprecation: '@1795132800', Sunset: SUNSET.toUTCString() };
const get = (client: Client) => client.call('getPet', { params: { petId: 1n } });

test.each<[string, string, Record<string, string>, number]>([
  ['not reported more than half a year before its removal', '2030-06-07T23:59:59Z', announcement, 0],
  ['reported once a day in the last half year', '2030-06-08T00:00:00Z', announcement, 1],
  ['reported after its removal date', '2030-12-06T00:00:00Z', announcement, 1],
  ['compared with the date in the specification', '2030-06-08T00:00:00Z', { Deprecation: '?1' }, 1],
  ['not reported without its headers', '2030-06-08T00:00:00Z', {}, 0],
])('a deprecated operation is %s', async (_name, now, headers, count) => {
  const reported: unknown[] = [];
  const { client } = await connect(
    (_, response, requests) =>
      requests === 1 ? replyError(response, 400, 'a_code', headers) : reply(response, 200, PET, headers),
    {
      clock: manualClock(now),
      onDeprecated: (deprecated) => reported.push(deprecated),
    },
  );
  await rejection(get(client));
  await get(client);
  const sunset = headers['Sunset'] === undefined ? undefined : SUNSET;
  expect(reported).toEqual(
    Array.from({ length: count }, () => ({ operation: 'getPet', sunset, link: undefined })),
  );
});

const earlier = { Sunset: 'Fri, 01 Jan 2027 00:00:00 GMT' };
const later = { Sunset: 'Thu, 01 Jan 2032 00:00:00 GMT' };
const none: Record<string, string> = {};
test.each([
  ['410 at any time', 410, '2026-11-21T00:00:00Z', none, none, true],
  ['404 after the date in the specification', 404, '2030-12-05T00:00:00Z', none, none, true],
  ['405 after the date in the specification', 405, '2030-12-05T00:00:00Z', none, none, true],
  ['404 before the date', 404, '2030-12-04T23:59:59Z', none, none, false],
  ['404 after the date in the response', 404, '2027-01-01T00:00:00Z', none, earlier, true],
  ['404 before a date that the service has put off', 404, '2030-12-05T00:00:00Z', none, later, false],
  ['400 after the date', 400, '2030-12-05T00:00:00Z', none, none, false],
])('a deprecated operation was removed after %s', async (_name, status, now, before, headers, isRemoved) => {
  const clock = manualClock('2026-11-20T00:00:00Z');
  const { client } = await connect(
    (_, response, count) =>
      count === 1 ? reply(response, 200, PET, before) : replyError(response, status, 'a_code', headers),
    { clock },
  );
  await get(client);
  clock.set(now);
  const error = await rejection(get(client));
  expect(error).toBeInstanceOf(ApiFailure);
  expect(error instanceof RemovedError).toBe(isRemoved);
});
