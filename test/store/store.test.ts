import { describe, expect, it, onTestFinished } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../src/contract/int64.ts';
import { StoreError, StoreNotEmptyError } from '../../src/store/errors.ts';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import type { Page, PageQuery, Store } from '../../src/store/store.ts';
import { manualClock } from '../helpers/clock.ts';
import { allTexts, animal, callsOf, idempotency, textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const EMPTY: Page = { pets: Buffer.alloc(0) };

const idsOf = (texts: readonly string[]) => texts.map((text) => /^\{"id":(-?\d+),/.exec(text)?.[1]);
const withId = (id: bigint) => ({ pet: expect.stringContaining(`{"id":${id},`) });
const seedOf = (...ids: bigint[]) => ({ pets: ids.map((id) => ({ id, ...animal(`n${id}`) })), orders: [] });

async function openStore() {
  const store = await openJournalStore({ directory: await temporaryDirectory(), clock: manualClock() });
  onTestFinished(() => store.close());
  return store;
}

describe('adding and getting animals', () => {
  it('starts empty, with an id', async () => {
    const store = await openStore();
    expect(await store.size()).toBe(0);
    expect(await store.list({ limit: 20 })).toEqual(EMPTY);
    expect(await store.orders()).toEqual([]);
    expect(store.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it('assigns ids from 1 in the order of the calls', async () => {
    const store = await openStore();
    const results = await Promise.all(
      Array.from({ length: 2500 }, (_, i) => store.add({ pet: animal(`n${i}`) })),
    );
    results.forEach((result, i) => {
      const pet = `{"id":${i + 1},"name":"n${i}","categoryId":3,"status":"available"}`;
      expect(result).toEqual({ kind: 'added', pet });
    });
    expect(await store.size()).toBe(2500);
    expect(idsOf(await allTexts(store, { limit: 100 }))).toEqual(results.map((_, i) => String(i + 1)));
  });

  it('gets an animal by its id', async () => {
    const store = await openStore();
    const ids = [-3n, 0n, 7n, 9007199254740993n];
    await store.seed(seedOf(...ids));
    for (const id of ids) expect(await store.get(id)).toContain(`{"id":${id},`);
    for (const id of [-4n, 1n, 8n, 9007199254740992n, INT64_MAX]) {
      expect(await store.get(id)).toBeUndefined();
    }
  });

  it('refuses an animal after the last int64 was assigned', async () => {
    const store = await openStore();
    await store.seed(seedOf(INT64_MAX - 1n));
    expect(await store.add({ pet: animal() })).toMatchObject(withId(INT64_MAX));
    await expect(store.add({ pet: animal() })).rejects.toThrow(StoreError);
    expect(await store.size()).toBe(2);
  });
});

describe('pages', () => {
  it.each([undefined, 'available'] as const)(
    'with a next page do not change when animals are added (status %s)',
    async (status) => {
      const store = await openStore();
      const listed: [PageQuery, Page][] = [];
      let after: bigint | undefined;
      for (let round = 0; round < 20; round++) {
        const adding = Array.from({ length: 4 }, (_, i) => store.add({ pet: animal(`n${round}-${i}`) }));
        const query: PageQuery = { limit: 3, status, after };
        const page = await store.list(query);
        if (page.next !== undefined) listed.push([query, { pets: Buffer.from(page.pets), next: page.next }]);
        after = page.next ?? after;
        await Promise.all(adding);
      }
      // The first call of `list` can return an empty page.
      expect(listed.length).toBeGreaterThanOrEqual(19);
      for (const [query, page] of listed) expect(await store.list(query)).toEqual(page);
    },
  );

  it('have `next` only if more animals follow', async () => {
    const store = await openStore();
    await store.seed(seedOf(1n, 2n, 3n, 4n));
    expect((await store.list({ limit: 2 })).next).toBe(2n);
    expect((await store.list({ limit: 2, after: 2n })).next).toBeUndefined();
    expect((await store.list({ limit: 4 })).next).toBeUndefined();
    expect(await store.list({ limit: 2, after: 4n })).toEqual(EMPTY);
    expect(await store.list({ limit: 2, after: INT64_MAX })).toEqual(EMPTY);
    expect(await store.list({ limit: 2, status: 'sold' })).toEqual(EMPTY);
  });

  it('can start after an id that no animal has', async () => {
    const store = await openStore();
    await store.seed(seedOf(2n, 4n, 6n));
    expect(idsOf(textsOf(await store.list({ limit: 9, after: 3n })))).toEqual(['4', '6']);
    expect(idsOf(textsOf(await store.list({ limit: 9, after: INT64_MIN })))).toEqual(['2', '4', '6']);
  });

  it.each([undefined, 'sold'] as const)('end after about 1 MiB (status %s)', async (status) => {
    const store = await openStore();
    const pet = animal('x'.repeat(60_000), { status: 'sold' });
    await Promise.all(Array.from({ length: 50 }, () => store.add({ pet })));
    const pages: Page[] = [];
    do pages.push(await store.list({ limit: 100, status, after: pages.at(-1)?.next }));
    while (pages.at(-1)?.next !== undefined && pages.length < 50);
    const ids = pages.flatMap(textsOf).map((text) => JSON.parse(text).id);
    expect(ids).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect(pages.map((page) => textsOf(page).length)).toEqual([18, 18, 14]);
  });

  it('have at least one animal, however long', async () => {
    const store = await openStore();
    for (let i = 0; i < 2; i++) await store.add({ pet: animal('x'.repeat(2_000_000)) });
    const page = await store.list({ limit: 2 });
    expect(textsOf(page)).toHaveLength(1);
    expect(page.next).toBe(1n);
  });
});

describe('seeding', () => {
  it('continues with 1 if all ids are negative', async () => {
    const store = await openStore();
    await store.seed(seedOf(INT64_MIN, -1n));
    expect(await store.add({ pet: animal() })).toMatchObject(withId(1n));
  });

  it('refuses a seed with a duplicate id, and stays empty', async () => {
    const store = await openStore();
    await expect(store.seed(seedOf(1n, 2n, 1n))).rejects.toThrow(StoreError);
    expect(await store.size()).toBe(0);
    await store.seed(seedOf(5n));
    expect(await store.size()).toBe(1);
  });

  it.each([
    ['animals', (store: Store) => store.add({ pet: animal() })],
    ['an animal that is being written', async (store: Store) => void store.add({ pet: animal() })],
    ['a seed', (store: Store) => store.seed(seedOf(1n))],
    ['orders', (store: Store) => store.seed({ pets: [], orders: [{}] })],
  ])('refuses a store with %s', async (_, fill) => {
    const store = await openStore();
    await fill(store);
    await expect(store.seed(seedOf(9n))).rejects.toThrow(StoreNotEmptyError);
    expect(await store.get(9n)).toBeUndefined();
  });
});

it('an idempotency key is in flight until the animal is durable', async () => {
  const store = await openStore();
  const request = { pet: animal(), idempotency: idempotency('k') };
  const [first, second] = await Promise.all([store.add(request), store.add(request)]);
  expect([first.kind, second.kind]).toEqual(['added', 'in_flight']);
  expect(await store.add(request)).toEqual({ ...first, kind: 'replayed' });
});

it('completes accepted animals when it is closed, then refuses every call', async () => {
  const store = await openStore();
  const adding = store.add({ pet: animal() });
  await store.close();
  await store.close();
  expect((await adding).kind).toBe('added');
  for (const call of callsOf(store)) await expect(call()).rejects.toThrow(StoreError);
});
