import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { expect, onTestFinished } from 'vitest';
import type { Backend, OpenOptions, StoreLocation } from '../../src/store/backend.ts';
import type { StoreError } from '../../src/store/errors.ts';
import { type JournalOptions, openJournalStore as open } from '../../src/store/journal/journal-location.ts';
import type { JournalStore } from '../../src/store/journal/journal-store.ts';
import type { CreateRequest, IdempotentCall, Page, PageQuery, Seed, Store } from '../../src/store/store.ts';
import { systemClock } from '../../src/system/clock.ts';
import { acquireDirectoryLock } from '../../src/system/directory-lock.ts';
import { realFileSystem } from '../../src/system/file-system.ts';
import { manualClock } from './clock.ts';
import { SimulatedDisk } from './store-disk.ts';
import { temporaryDirectory } from './temp.ts';

export function animal(name = 'Rex', more: Partial<CreateRequest['pet']> = {}): CreateRequest['pet'] {
  return { name, categoryId: 3n, status: 'available', ...more };
}

export function idempotency(key: string, more: Partial<IdempotentCall> = {}): IdempotentCall {
  return { scope: 'a', key, bodyHash: 'f'.repeat(64), ...more };
}

/** The text of each animal of a page. No JSON string can contain `{"id":`, because its quotes would be escaped. */
export function textsOf({ pets }: Page): string[] {
  return pets.length === 0 ? [] : pets.toString().split(/,(?=\{"id":)/);
}

/** The ids of animals in their texts. */
export const idsOf = (texts: readonly string[]) => texts.map((text) => /^\{"id":(-?\d+),/.exec(text)?.[1]);

/** Matches the result of a creation by the id of its animal. */
export const withId = (id: bigint) => ({ pet: expect.stringContaining(`{"id":${id},`) });

/** A seed of animals with these ids. */
export const seedOf = (...ids: bigint[]): Seed => ({
  pets: ids.map((id) => ({ id, ...animal(`n${id}`) })),
  orders: [],
});

/** A call of each method of the store. All must reject after `close`, and after another server has written. */
export const callsOf = (
  store: Store,
): Record<Exclude<keyof Store, 'id' | 'close'>, () => Promise<unknown>> => ({
  add: () => store.add({ pet: animal() }),
  list: async () => store.list({ limit: 1 }),
  get: () => store.get(1n),
  orders: () => store.orders(),
  size: () => store.size(),
  checkWritable: () => store.checkWritable(),
  seed: () => store.seed({ pets: [], orders: [] }),
});

/** The text of every animal that matches the query. */
export async function allTexts(store: Store, query: PageQuery = { limit: 100 }): Promise<string[]> {
  const texts: string[] = [];
  for (let after: bigint | undefined; ; ) {
    const page = await store.list({ ...query, after });
    texts.push(...textsOf(page));
    if (page.next === undefined) return texts;
    after = page.next;
  }
}

/** A journal line with a valid checksum. `rest` is the text after the checksum, which need not be valid. */
export function journalLine(rest: string): Buffer {
  const crc = crc32(Buffer.from(rest)).toString(16).padStart(8, '0');
  return Buffer.from(`{"crc":"${crc}",${rest}\n`);
}

/** A lock that does nothing, for stores that only one test uses. */
export const noLock = async () => ({ announce() {}, async release() {} });

/** Opens the journal store in a directory, with defaults for all other options. */
export const openJournalStore = (
  options: Partial<JournalOptions> & Pick<JournalOptions, 'directory'>,
): Promise<JournalStore> =>
  open({
    clock: systemClock,
    files: realFileSystem,
    lock: acquireDirectoryLock,
    onWarning() {},
    onFailure() {},
    onSync() {},
    ...options,
  });

/** Opens a store as a server does, by default without bans. It is closed after the test. */
export async function openAsServer(
  location: StoreLocation,
  options: Partial<OpenOptions> = {},
): Promise<Backend> {
  const backend = await location.open({
    clock: systemClock,
    bans: { after: 0, milliseconds: 0 },
    sleep: async (milliseconds) => void (await sleep(milliseconds)),
    onWarning() {},
    onFailure() {},
    ...options,
  });
  onTestFinished(() => backend.close());
  return backend;
}

/** An empty store on a simulated disk, for tests of other modules. */
export const memoryStore = (clock = manualClock()): Promise<Store> =>
  openJournalStore({ directory: '/store', clock, lock: noLock, files: new SimulatedDisk(() => 0.5) });

/** Opens a store with the given journal, adds an animal, and closes the store. Returns the results or the error. */
export async function openJournal(bytes: Uint8Array, existingDirectory?: string) {
  const directory = existingDirectory ?? (await temporaryDirectory());
  await mkdir(directory, { recursive: true });
  const path = join(directory, 'journal.ndjson');
  await writeFile(path, bytes);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  try {
    const store = await openJournalStore({ directory, clock: manualClock(), lock: noLock, onWarning });
    const pets = textsOf(await store.list({ limit: 100 }));
    const orders = await store.orders();
    const added = await store.add({ pet: animal('new') });
    await store.close();
    return { directory, path, warnings, pets, orders, added, error: undefined };
  } catch (error) {
    return { directory, path, warnings, pets: [], orders: [], added: undefined, error: error as StoreError };
  }
}

/** Random numbers from 0 up to 1, the same for the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The result of each promise. For a rejected promise, the `outcome` of its error, or else the class of the error. */
export async function outcomes(added: Promise<number>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(added);
  return settled.map((each) => {
    if (each.status === 'fulfilled') return each.value;
    return each.reason.outcome ?? each.reason.constructor;
  });
}
