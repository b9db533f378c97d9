import { describe, expect, it } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../../src/contract/json.ts';
import { petJson, petStatuses } from '../../../src/contract/schemas.ts';
import type { Page, PageQuery } from '../../../src/store/store.ts';
import { animal, randomOf, textsOf } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

export function describePages({ openStore }: Places): void {
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
          if (page.next !== undefined)
            listed.push([query, { pets: Buffer.from(page.pets), next: page.next }]);
          after = page.next ?? after;
          await Promise.all(adding);
        }
        // The first call of `list` can return an empty page.
        expect(listed.length).toBeGreaterThanOrEqual(19);
        for (const [query, page] of listed) expect(await store.list(query)).toEqual(page);
      },
    );

    it('of each status, limit and start have exactly the matching animals in order', async () => {
      const store = await openStore();
      const random = randomOf(1);
      const upTo = (limit: number) => Math.floor(random() * limit);
      let id = 1n;
      const edges = [1n, INT64_MAX].map((id) => ({ id, ...animal('edge') }));
      const others = Array.from({ length: 600 }, () => {
        id += BigInt(1 + upTo(4));
        // Few animals are sold, and only at the end.
        const status = id > 1_300n && random() < 0.1 ? 'sold' : (petStatuses[upTo(2)] ?? 'pending');
        return { id, ...animal(`n${id}`, { status }) };
      });
      const pets = [edges[0], ...others, edges[1]].filter((pet) => pet !== undefined);
      await store.seed({ pets, orders: [] });
      const check = async () => {
        const status = [undefined, ...petStatuses][upTo(4)];
        const limit = 1 + upTo(100);
        const after = [undefined, INT64_MIN, INT64_MAX][upTo(30)] ?? BigInt(upTo(1_800) - 200);
        const matching = pets.filter((pet) => pet.id > after && (!status || pet.status === status));
        const page = matching.slice(0, limit);
        const next = matching.length > limit ? page.at(-1)?.id : undefined;
        const listed = await store.list({ limit, status, after });
        expect({ ...listed, pets: `${listed.pets}` }, `${status} ${after}`).toEqual({
          pets: page.map(petJson).join(','),
          ...(next !== undefined && { next }),
        });
      };
      // A store may read several pages at once.
      for (let round = 0; round < 15; round++) await Promise.all(Array.from({ length: 20 }, check));
    });

    it.each([
      [undefined, 'x'.repeat(60_000)],
      ['sold', '猫'.repeat(20_000)],
    ] as const)('end after about 1 MiB (status %s)', async (status, name) => {
      const store = await openStore();
      const pet = animal(name, { status: 'sold' });
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
}
