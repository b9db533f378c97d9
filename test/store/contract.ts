import { describe, expect, it } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../src/contract/int64.ts';
import { petStatuses } from '../../src/contract/schemas.ts';
import { StoreError, StoreNotEmptyError } from '../../src/store/errors.ts';
import type { Page, PageQuery, Store } from '../../src/store/store.ts';
import { type ManualClock, manualClock } from '../helpers/clock.ts';
import { animal, idempotency, textsOf } from '../helpers/store-fixtures.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const idsOf = (pets: readonly string[]) => pets.map((text) => /^\{"id":(-?\d+),/.exec(text)?.[1]);
const seedOf = (ids: readonly bigint[]) => ({
  pets: ids.map((id) => ({ id, ...animal(`n${id}`) })),
  orders: [],
});

async function allPages(store: Store, query: PageQuery): Promise<string[]> {
  const pets: string[] = [];
  for (let after: bigint | undefined; ; ) {
    const page = await store.list({ ...query, after });
    pets.push(...textsOf(page));
    if (page.next === undefined) return pets;
    after = page.next;
  }
}

/** What every store does. `open` makes an empty one. */
export function describeStore(name: string, open: (clock: ManualClock) => Promise<Store>): void {
  describe(`${name} as a Store`, () => {
    const make = async (clock = manualClock()) => ({ clock, store: await open(clock) });

    it('begins empty, with an id and a secret of its own', async () => {
      const { store } = await make();
      expect(await store.size()).toBe(0);
      expect(await store.list({ limit: 20 })).toEqual({ pets: Buffer.from('[]') });
      expect(await store.orders()).toEqual([]);
      expect(store.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(store.secret).toMatch(/^[0-9a-f]{64}$/);
    });

    it('gives ids from 1, in the order in which animals are accepted', async () => {
      const { store } = await make();
      const outcomes = await Promise.all(
        Array.from({ length: 2500 }, (_, i) => store.add({ pet: animal(`n${i}`) })),
      );
      outcomes.forEach((outcome, i) => {
        const pet = `{"id":${i + 1},"name":"n${i}","categoryId":3,"status":"available"}`;
        expect(outcome).toEqual({ kind: 'added', pet });
      });
      expect(await store.size()).toBe(2500);
      expect(idsOf(await allPages(store, { limit: 100 }))).toEqual(outcomes.map((_, i) => String(i + 1)));
    });

    it.each([
      ['an ordinary name', 'Rex'],
      ['quotes and backslashes', '"\\"},{"id":9,'],
      ['line breaks and controls', 'a\nb\r\u0000\u2028'],
      ['a lone surrogate', '\ud83d'],
      ['other scripts and emoji', 'Éclair 猫 🐈'],
      ['a mark of the journal', '{"crc":"00000000","seq":1}\n{"crc":"'],
      ['nothing', ''],
      ['a very long name', 'x'.repeat(100_000)],
    ])('keeps %s', async (_, name) => {
      const { store } = await make();
      const added = await store.add({ pet: animal(name) });
      const text = await store.get(1n);
      expect(added).toEqual({ kind: 'added', pet: text });
      expect(JSON.parse(text ?? '').name).toBe(name);
    });

    it.each([INT64_MAX, INT64_MIN, 9007199254740993n, -9007199254740993n, 0n])(
      'keeps the category %s',
      async (id) => {
        const { store } = await make();
        await store.add({ pet: animal('Rex', { categoryId: id }) });
        expect(await store.get(1n)).toContain(`"categoryId":${id},`);
      },
    );

    it('finds by id what is there, and nothing else', async () => {
      const { store } = await make();
      await store.seed(seedOf([-3n, 0n, 7n, 9007199254740993n]));
      for (const id of [-3n, 0n, 7n, 9007199254740993n])
        expect(await store.get(id)).toContain(`{"id":${id},`);
      for (const id of [-4n, 1n, 8n, 9007199254740992n, INT64_MAX])
        expect(await store.get(id)).toBeUndefined();
    });

    it.each([undefined, ...petStatuses])('pages by ascending id with the filter %s', async (status) => {
      const { store } = await make();
      const pets = Array.from({ length: 230 }, (_, i) => ({
        id: BigInt(3 * i),
        ...animal(`n${i}`, { status: petStatuses[(i * i) % 3] ?? 'sold' }),
      }));
      await store.seed({ pets, orders: [] });
      const expected = pets.filter((pet) => !status || pet.status === status).map(({ id }) => String(id));
      for (const limit of [1, 7, 100])
        expect(idsOf(await allPages(store, { limit, status }))).toEqual(expected);
    });

    it.each([undefined, 'available'] as const)(
      'never changes a page that has a next one, with the filter %s',
      async (status) => {
        const { store } = await make();
        for (let i = 0; i < 5; i++) await store.add({ pet: animal(`n${i}`) });
        const queries: PageQuery[] = [1, 2, 4].map((limit) => ({
          limit,
          status,
          after: limit === 1 ? 2n : undefined,
        }));
        const before = await Promise.all(queries.map((query) => store.list(query)));
        expect(before.map(({ next }) => next)).toEqual([3n, 2n, 4n]);
        for (let i = 0; i < 5; i++) await store.add({ pet: animal(`more${i}`) });
        expect(await Promise.all(queries.map((query) => store.list(query)))).toEqual(before);
      },
    );

    it('never changes one that was listed while others were being added', async () => {
      const { store } = await make();
      const adding = Array.from({ length: 300 }, (_, i) =>
        new Promise((resolve) => setTimeout(resolve, i % 7)).then(() => store.add({ pet: animal(`n${i}`) })),
      );
      const listed: [PageQuery, Page][] = [];
      let isDone = false;
      const added = Promise.all(adding).then(() => {
        isDone = true;
      });
      for (let after: bigint | undefined; !isDone; ) {
        const query: PageQuery = { limit: 3, after };
        const page = await store.list(query);
        if (page.next === undefined) await new Promise(setImmediate);
        else {
          listed.push([query, page]);
          after = page.next;
        }
      }
      await added;
      expect(listed.length).toBeGreaterThan(3);
      for (const [query, page] of listed) expect(await store.list(query)).toEqual(page);
    });

    it('says what is next only where something is', async () => {
      const { store } = await make();
      await store.seed(seedOf([1n, 2n, 3n, 4n]));
      expect((await store.list({ limit: 2 })).next).toBe(2n);
      expect((await store.list({ limit: 2, after: 2n })).next).toBeUndefined();
      expect((await store.list({ limit: 4 })).next).toBeUndefined();
      expect(await store.list({ limit: 2, after: 4n })).toEqual({ pets: Buffer.from('[]') });
      expect(await store.list({ limit: 2, after: INT64_MAX })).toEqual({ pets: Buffer.from('[]') });
      expect(await store.list({ limit: 2, status: 'sold' })).toEqual({ pets: Buffer.from('[]') });
    });

    it('goes on from an id that no animal has', async () => {
      const { store } = await make();
      await store.seed(seedOf([2n, 4n, 6n]));
      expect(idsOf(textsOf(await store.list({ limit: 9, after: 3n })))).toEqual(['4', '6']);
      expect(idsOf(textsOf(await store.list({ limit: 9, after: INT64_MIN })))).toEqual(['2', '4', '6']);
    });

    it('keeps a seed: ids in their order, orders digit for digit; then counts on', async () => {
      const { store } = await make();
      const orders = [{ id: 9223372036854775807n, note: 'é' }, { nested: [{ crc: '{"crc":"' }] }];
      await store.seed({ pets: seedOf([30n, 10n, 20n]).pets, orders });
      expect(idsOf(textsOf(await store.list({ limit: 9 })))).toEqual(['10', '20', '30']);
      expect(await store.orders()).toEqual([
        '{"id":9223372036854775807,"note":"é"}',
        '{"nested":[{"crc":"{\\"crc\\":\\""}]}',
      ]);
      expect(await store.add({ pet: animal() })).toMatchObject({ pet: expect.stringContaining('{"id":31,') });
    });

    it('gives 1 after a seed of ids below', async () => {
      const { store } = await make();
      await store.seed(seedOf([INT64_MIN, -1n]));
      expect(await store.add({ pet: animal() })).toMatchObject({ pet: expect.stringContaining('{"id":1,') });
    });

    it('refuses an animal once the last int64 is given', async () => {
      const { store } = await make();
      await store.seed(seedOf([INT64_MAX - 1n]));
      expect(await store.add({ pet: animal() })).toMatchObject({
        pet: expect.stringContaining(`{"id":${INT64_MAX},`),
      });
      await expect(store.add({ pet: animal() })).rejects.toThrow(StoreError);
      expect(await store.size()).toBe(2);
    });

    it('refuses a seed with an id twice, and stays empty', async () => {
      const { store } = await make();
      await expect(store.seed(seedOf([1n, 2n, 1n]))).rejects.toThrow(StoreError);
      expect(await store.size()).toBe(0);
      await store.seed(seedOf([5n]));
      expect(await store.size()).toBe(1);
    });

    it.each([
      ['animals', (store: Store) => store.add({ pet: animal() })],
      ['animals on their way', async (store: Store) => void store.add({ pet: animal() })],
      ['a seed', (store: Store) => store.seed(seedOf([1n]))],
      ['orders', (store: Store) => store.seed({ pets: [], orders: [{}] })],
    ])('refuses a seed where there are %s', async (_, fill) => {
      const { store } = await make();
      await fill(store);
      await expect(store.seed(seedOf([9n]))).rejects.toThrow(StoreNotEmptyError);
      expect(await store.get(9n)).toBeUndefined();
    });

    it('repeats an addition of the same key and body, and adds nothing', async () => {
      const { store } = await make();
      const addition = { pet: animal(), idempotency: idempotency('k') };
      const first = await store.add(addition);
      expect(first.kind).toBe('added');
      expect(await store.add(addition)).toEqual({ ...first, kind: 'replayed' });
      expect(await store.size()).toBe(1);
    });

    it('refuses a key with another body', async () => {
      const { store } = await make();
      await store.add({ pet: animal(), idempotency: idempotency('k') });
      const other = { pet: animal('Tom'), idempotency: idempotency('k', { bodyHash: '0'.repeat(64) }) };
      expect(await store.add(other)).toEqual({ kind: 'mismatch' });
      expect(await store.size()).toBe(1);
    });

    it('says that a key is in flight until its animal is durable', async () => {
      const { store } = await make();
      const addition = { pet: animal(), idempotency: idempotency('k') };
      const [first, second] = await Promise.all([store.add(addition), store.add(addition)]);
      expect([first.kind, second.kind]).toEqual(['added', 'in_flight']);
      expect(await store.add(addition)).toEqual({ ...first, kind: 'replayed' });
    });

    it('keeps the keys of two scopes apart, also where together they read alike', async () => {
      const { store } = await make();
      const pairs = [
        ['a', 'bc'],
        ['ab', 'c'],
        ['', 'abc'],
        ['1:a', 'b'],
        ['1', ':ab'],
        ['a\u0000', 'b'],
        ['a', '\u0000b'],
      ];
      for (const [scope = '', key = ''] of pairs) {
        const outcome = await store.add({ pet: animal(), idempotency: idempotency(key, { scope }) });
        expect(outcome.kind).toBe('added');
      }
    });

    it('remembers a key for 24 hours, and not longer', async () => {
      const { store, clock } = await make();
      const addition = { pet: animal(), idempotency: idempotency('k') };
      await store.add(addition);
      clock.advance(DAY_MS - 1);
      expect((await store.add(addition)).kind).toBe('replayed');
      clock.advance(1);
      expect((await store.add(addition)).kind).toBe('added');
      expect((await store.add(addition)).kind).toBe('replayed');
      expect(await store.size()).toBe(2);
    });

    it('remembers a key that was used anew, also where the clock was set back meanwhile', async () => {
      const { store, clock } = await make();
      const add = (key: string) => store.add({ pet: animal(), idempotency: idempotency(key) });
      await add('future');
      clock.advance(-10 * 3_600_000);
      await add('k');
      clock.advance(DAY_MS);
      expect((await add('k')).kind).toBe('added');
      clock.advance(11 * 3_600_000);
      expect((await add('k')).kind).toBe('replayed');
    });

    it('forgets thousands of keys, each at its time', async () => {
      const { store, clock } = await make();
      const add = (i: number) => store.add({ pet: animal(), idempotency: idempotency(`k${i}`) });
      for (let hour = 0; hour < 30; hour++) {
        await Promise.all(Array.from({ length: 100 }, (_, i) => add(100 * hour + i)));
        clock.advance(DAY_MS / 24);
      }
      expect((await add(599)).kind).toBe('added');
      expect((await add(700)).kind).toBe('replayed');
    });

    it('finishes what was accepted, then refuses everything', async () => {
      const { store } = await make();
      const adding = store.add({ pet: animal() });
      await store.close();
      await store.close();
      expect((await adding).kind).toBe('added');
      for (const call of [
        () => store.add({ pet: animal() }),
        () => store.list({ limit: 1 }),
        () => store.get(1n),
        () => store.orders(),
        () => store.size(),
        () => store.seed({ pets: [], orders: [] }),
      ]) {
        await expect(call()).rejects.toThrow(StoreError);
      }
    });
  });
}
