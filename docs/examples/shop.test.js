// Tests of shop-client.js against pets serve, with vitest or jest (docs/testing.md).
import { beforeEach, expect, test } from 'vitest';
import { addAnimal } from './shop-client.js';

/** Uses a developer tool of pets serve. */
async function tool(method, path, body) {
  const response = await fetch(new URL(path, process.env.PETS_BASE_URL), {
    method,
    headers: { Authorization: `Bearer ${process.env.PETS_SERVE_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const REX = { name: 'Rex', categoryId: 1 };
let cursor;

beforeEach(async () => {
  await tool('DELETE', '/faults');
  ({ cursor } = await tool('POST', '/reset'));
});

/** What the client has sent in this test, the first request first. */
const sent = async () => (await tool('GET', `/requests?since=${cursor}`)).requests.reverse();

test.each(['once', 'again, after a reset'])(
  'the first new animal gets the id after the sample animals: %s',
  async () => {
    expect(await addAnimal(REX)).toMatchObject({ id: 67, ...REX });
    expect(await sent()).toMatchObject([{ status: 201, outcome: 'counted' }]);
  },
);

test.each([429, 503])('after two responses with %i, the animal is added once', async (answer) => {
  const match = { method: 'POST', path: '/v1/pets' };
  await tool('PUT', '/faults', [{ match, answer, times: 2, retryAfter: 1 }]);
  await addAnimal(REX);
  const requests = await sent();
  expect(requests.map(({ status }) => status)).toEqual([answer, answer, 201]);
  const keys = requests.map(({ request }) => request.headers['idempotency-key']);
  expect(new Set(keys).size).toBe(1);
});
