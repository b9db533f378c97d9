import { describe, expect, test } from 'vitest';
import { sampleData } from '../../src/server/mocks.ts';
import { startReal } from '../helpers/real-service.ts';
import { start } from '../helpers/service.ts';

// `D1` and so on are the numbers of the details in docs/service.md.

const nextOf = (response: Response): string | undefined =>
  /^<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];

describe('D1 pagination', () => {
  test('links have the path of a public URL', async () => {
    const { call, store } = await start({ publicUrl: 'https://shop.example/inventory/v1' });
    await store.seed(sampleData());
    const link = (await call('/v1/pets?limit=1&status=sold')).headers.get('link');
    expect(link).toMatch(/^<\/inventory\/v1\/pets\?limit=1&status=sold&cursor=\w+>; rel="next"$/);
    const deprecated = await call('/v1/pets/1');
    expect(deprecated.headers.get('link')).toBe('</inventory/v1/pets>; rel="successor-version"');
  });

  test('a page has only animals of the status; the next link keeps status and limit, and no unknown parameter (D2)', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const response = await call('/v1/pets?colour=red&status=sold&limit=3&page=7');
    expect(await response.json()).toEqual(Array(3).fill(expect.objectContaining({ status: 'sold' })));
    expect(response.headers.get('link')).toMatch(
      /^<\/v1\/pets\?limit=3&status=sold&cursor=\w+>; rel="next"$/,
    );
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

// fuzz-requests.test.ts tests invalid queries and ids.

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
