import { describe, expect, test } from 'vitest';
import { encodeCursor } from '../../src/server/routes.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { REX } from '../helpers/raw-requests.ts';
import { startReal } from '../helpers/real-service.ts';
import { create, start } from '../helpers/service.ts';

// `D1` and so on are the numbers of the decisions in docs/service.md.

const nextOf = (response: Response): string | undefined =>
  /^<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];

describe('D1 pagination', () => {
  test('a page has only animals of the status, and the next link keeps status and limit, by default 20', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const response = await call('/v1/pets?status=sold&limit=3');
    expect(await response.json()).toEqual(Array(3).fill(expect.objectContaining({ status: 'sold' })));
    expect(response.headers.get('link')).toMatch(/^<\/v1\/pets\?[^>]+>; rel="next"$/);
    const next = new URL(nextOf(response) ?? '', 'http://service');
    expect(Object.fromEntries(next.searchParams)).toEqual({
      limit: '3',
      status: 'sold',
      cursor: expect.any(String),
    });
    expect(nextOf(await call('/v1/pets'))).toContain('limit=20');
  });

  test('the last page has no next link, even if it is full; the only one links to itself', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const only = await call('/v1/pets?limit=66&status=available');
    expect(only.headers.get('link')).toBe('</v1/pets?limit=66&status=available>; rel="first"');
    expect(nextOf(await call('/v1/pets?limit=66'))).toBeUndefined();
    const second = await call(nextOf(await call('/v1/pets?limit=40')) ?? '');
    expect(second.headers.get('link')).toBeNull();
    expect(nextOf(await call('/v1/pets?limit=65'))).toBeDefined();
    expect(nextOf(await call('/v1/pets?status=sold&limit=100'))).toBeUndefined();
  });
});

describe('D2 invalid query', () => {
  const cursor = encodeCursor(3n);
  const ofFirstRelease = 'mJ0qPz3dN1xY7u2A3';
  test.each([
    ...[
      'limit=0',
      'limit=101',
      'limit=',
      'limit=05',
      'limit=1e1',
      'status=lost',
      'status=',
      'cursor=',
      'cursor=3',
    ],
    ...[cursor.replace('v1', 'v2'), cursor.toUpperCase(), cursor.slice(0, -1), 'v1', ofFirstRelease].map(
      (changed) => `cursor=${changed}`,
    ),
    ...['=', '%2B', 'A'.repeat(100)].map((suffix) => `cursor=${cursor}${suffix}`),
  ])('%s is 400', async (query) => {
    const { call } = await start();
    expect((await call(`/v1/pets?cursor=${cursor}`)).status).toBe(200);
    const response = await call(`/v1/pets?${query}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'invalid_request' });
  });

  test('an unknown parameter is ignored', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const [plain, odd] = [await call('/v1/pets?limit=2'), await call('/v1/pets?colour=red&limit=2&page=7')];
    expect(odd.status).toBe(200);
    expect(await odd.text()).toBe(await plain.text());
  });
});

test('D3 an animal created without a status is available', async () => {
  const { call } = await start();
  expect(await (await call('/v1/pets', create(REX))).json()).toMatchObject({ status: 'available' });
});

test.each(['', 'abc', '01', '9223372036854775808', '9'.repeat(90), '%20', '1%00', '+1', '1.0', '1e0'])(
  'D5 petId %s is not an int64: 404',
  async (id) => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const response = await call(`/v1/pets/${id}`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ code: 'not_found' });
  },
);

test('D6 orders are returned exactly as they were seeded, and are an empty array in a new store', async () => {
  const { call } = await start();
  expect(await (await call('/v1/store/orders')).text()).toBe('[]');
  const orders = [{ id: 9_007_199_254_740_993n, lines: [{ sku: 'é "x"', price: null }] }, {}];
  const service = await startReal({ seed: async () => ({ pets: [], orders }) });
  await service.restart();
  expect(await (await service.call('/store/orders')).text()).toBe(
    '[{"id":9007199254740993,"lines":[{"sku":"é \\"x\\"","price":null}]},{}]',
  );
});
