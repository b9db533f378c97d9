import type { Addition, Idempotency, Page } from '../../src/store/store.ts';

export function animal(name = 'Rex', more: Partial<Addition['pet']> = {}): Addition['pet'] {
  return { name, categoryId: 3n, status: 'available', ...more };
}

export function idempotency(key: string, more: Partial<Idempotency> = {}): Idempotency {
  return { scope: 'a', key, bodyHash: 'f'.repeat(64), ...more };
}

/** The text of each animal of a page, byte for byte. No string within one can hold `{"id":`: its quotes are escaped. */
export function textsOf({ pets }: Page): string[] {
  const list = pets.toString();
  return list === '[]' ? [] : list.slice(1, -1).split(/,(?=\{"id":)/);
}

/** Numbers from 0 up to 1 that are the same for the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
