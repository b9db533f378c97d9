import { expect, it } from 'vitest';
import { openJournalStore } from '../../src/store/journal-store.ts';
import { textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

it.each([undefined, 'sold'] as const)(
  'a page of huge animals (status %s) ends behind a mebibyte, and the next one begins there',
  async (status) => {
    const store = await openJournalStore({ directory: await temporaryDirectory() });
    const pet = { name: 'x'.repeat(60_000), categoryId: 1n, status: 'sold' } as const;
    await Promise.all(Array.from({ length: 50 }, () => store.add({ pet })));
    const lengths: number[] = [];
    const ids: number[] = [];
    let after: bigint | undefined;
    do {
      const page = await store.list({ limit: 100, status, after });
      lengths.push(textsOf(page).length);
      ids.push(...textsOf(page).map((text) => JSON.parse(text).id as number));
      after = page.next;
    } while (after !== undefined && lengths.length < 50);
    expect(ids).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect(lengths).toEqual([18, 18, 14]);
    await store.close();
  },
);

it('a page has at least one animal, however large', async () => {
  const store = await openJournalStore({ directory: await temporaryDirectory() });
  const pet = { name: 'x'.repeat(2_000_000), categoryId: 1n, status: 'sold' } as const;
  await store.add({ pet });
  await store.add({ pet });
  const page = await store.list({ limit: 2 });
  expect(textsOf(page)).toHaveLength(1);
  expect(page.next).toBe(1n);
  await store.close();
});
