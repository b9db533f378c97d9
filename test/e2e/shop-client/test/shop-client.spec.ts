import { beforeEach, expect, test } from 'vitest';
import { addAnimal } from '../src/shop-client.ts';

type Sent = {
  time: string;
  status: number;
  outcome: string;
  request: { headers: Record<string, string>; body?: string };
};

const REX = { name: 'Rex', categoryId: 1 };

/** Uses a developer tool of `pets serve`, which sets both variables. */
async function use<Result>(method: string, path: string, body?: unknown): Promise<Result> {
  const response = await fetch(new URL(path, process.env['PETS_BASE_URL']), {
    method,
    headers: {
      Authorization: `Bearer ${process.env['PETS_SERVE_TOKEN']}`,
      'Content-Type': 'application/json',
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as Result;
}

/** The requests after this cursor belong to the current test. */
let cursor = '';

/** What the client has sent in the current test, the first request first. */
async function sent(): Promise<Sent[]> {
  const { requests } = await use<{ requests: Sent[] }>('GET', `/requests?since=${cursor}&wait=5`);
  return requests.toReversed();
}

beforeEach(async () => {
  await use('DELETE', '/faults');
  ({ cursor } = await use<{ cursor: string }>('POST', '/reset'));
});

// After the reset before each test, the first new animal always gets the id after the 66 sample animals.
test.each(['once', 'in another test'])('an animal is added: %s', async () => {
  expect(await addAnimal(REX)).toMatchObject({ id: 67, ...REX });
  const [request, ...others] = await sent();
  expect(others).toEqual([]);
  expect(request).toMatchObject({ status: 201, outcome: 'counted' });
  expect(JSON.parse(request?.request.body ?? '')).toEqual(REX);
});

test.each([429, 503])(
  'after two responses with %i, the animal is added once, after the waits',
  async (status) => {
    const rule = { match: { method: 'POST', path: '/v1/pets' }, answer: status, times: 2, retryAfter: 1 };
    await use('PUT', '/faults', [rule]);

    expect(await addAnimal(REX)).toMatchObject({ id: 67 });

    const requests = await sent();
    expect(requests.map((request) => request.status)).toEqual([status, status, 201]);
    expect(requests.map(({ outcome }) => outcome)).toEqual(['injected_fault', 'injected_fault', 'counted']);
    // The client waited for the second in Retry-After.
    const [first = 0, second = 0, third = 0] = requests.map(({ time }) => Date.parse(time));
    expect(Math.min(second - first, third - second)).toBeGreaterThan(990);
    // Each request had the same key, so that the animal could not be added twice.
    const keys = requests.map(({ request }) => request.headers['idempotency-key']);
    expect(keys).toEqual([expect.any(String), keys[0], keys[0]]);
  },
);

test('an animal that is not valid is not sent again', async () => {
  await expect(addAnimal({ name: 'Rex', categoryId: 1.5 })).rejects.toThrow('400');
  expect(await sent()).toMatchObject([{ status: 400 }]);
});
