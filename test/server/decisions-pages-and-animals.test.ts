import { describe, expect, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { encodeCursor } from '../../src/server/routes.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { REX } from '../helpers/raw-requests.ts';
import { startReal } from '../helpers/real-service.ts';
import { create, start } from '../helpers/service.ts';

// `D1` and so on are the numbers of the decisions in docs/service.md.

const idOf = async (response: Response): Promise<number> => ((await response.json()) as { id: number }).id;
const nextOf = (response: Response): string | undefined =>
  /^<([^>]+)>/.exec(response.headers.get('link') ?? '')?.[1];

describe('D1 pagination', () => {
  test('the next link keeps status and limit, by default 20', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const response = await call('/v1/pets?status=sold&limit=3');
    expect(response.headers.get('link')).toMatch(/^<\/v1\/pets\?[^>]+>; rel="next"$/);
    const next = new URL(nextOf(response) ?? '', 'http://service');
    expect(Object.fromEntries(next.searchParams)).toEqual({
      limit: '3',
      status: 'sold',
      cursor: expect.any(String),
    });
    expect(nextOf(await call('/v1/pets'))).toContain('limit=20');
  });

  test.each(['', '&status=available', '&status=sold'])(
    'the pages%s contain every animal exactly once, in ascending order, while others are added',
    async (filter) => {
      const { store, call } = await start({ quota: plans.enterprise });
      await store.seed(sampleData());
      const status = filter.slice('&status='.length);
      const wanted = sampleData()
        .pets.filter((pet) => status === '' || pet.status === status)
        .map(({ id }) => Number(id));
      const late = create(`{"name":"Late","categoryId":1,"status":"${status || 'pending'}"}`);
      const seen: number[] = [];
      let path: string | undefined = `/v1/pets?limit=5${filter}`;
      while (path !== undefined && seen.length < 200) {
        const [page, ...added] = await Promise.all([
          call(path),
          ...(seen.length < 50 ? [call('/v1/pets', late), call('/v1/pets', late)] : []),
        ]);
        const pets = (await page.json()) as { id: number; status: string }[];
        expect(pets.filter((pet) => status !== '' && pet.status !== status)).toEqual([]);
        seen.push(...pets.map(({ id }) => id));
        path = nextOf(page);
        // Animals that were added during the last request may be missing.
        if (path !== undefined) wanted.push(...(await Promise.all(added.map(idOf))));
      }
      expect(seen).toEqual([...new Set(seen)].sort((x, y) => x - y));
      expect(seen).toEqual(expect.arrayContaining(wanted));
      expect(wanted.length).toBeGreaterThan(11);
    },
  );

  test('the last page has no link, even if it is full', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    expect(nextOf(await call('/v1/pets?limit=66'))).toBeUndefined();
    expect(nextOf(await call('/v1/pets?limit=65'))).toBeDefined();
    expect(nextOf(await call('/v1/pets?status=sold&limit=100'))).toBeUndefined();
  });
});

describe('D2 invalid query', () => {
  const cursor = encodeCursor(3n);
  const ofFirstRelease = 'mJ0qPz3dN1xY7u2A3';
  test.each([
    ...['limit=0', 'limit=101', 'limit=', 'limit=1e1', 'status=lost', 'status=', 'cursor=', 'cursor=3'],
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

describe('D4 ids', () => {
  test('start at 1 without gaps, also after rejected creations, and are never reused, not even after a restart', async () => {
    const service = await startReal();
    const add = async () => idOf(await service.call('/pets', create(REX)));
    expect(await add()).toBe(1);
    expect((await service.call('/pets', create('{"name":"Rex"}'))).status).toBe(400);
    const several = await Promise.all(Array.from({ length: 20 }, add));
    expect(several.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i + 2));
    await service.restart();
    expect(await add()).toBe(22);
  });
});

test.each(['', 'abc', '01', '9223372036854775808', '%20', '1%00'])(
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
