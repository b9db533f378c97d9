import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Backend, StoreLocation } from '../../../src/store/backend.ts';
import { journalLocation } from '../../../src/store/journal/journal-location.ts';
import { openJournalStore } from '../../../src/store/journal/journal-store.ts';
import { KeyFiles, saveBans } from '../../../src/store/journal/key-files.ts';
import { hashKey } from '../../../src/store/keys/keys.ts';
import { postgresLocation } from '../../../src/store/postgres/postgres-location.ts';
import type { Store } from '../../../src/store/store.ts';
import { manualClock } from '../clock.ts';
import { connectTo } from '../postgres.ts';
import { animal, noLock } from '../store-fixtures.ts';
import { temporaryDirectory } from '../temp.ts';

/** The SHA-256 of a banned API key. */
export const BANNED = hashKey('banned');

/** A directory for stores, and functions that open databases with the same clock. */
export async function copyFixture() {
  const clock = manualClock();
  const home = await temporaryDirectory();
  const inDirectory = (name: string) => journalLocation(join(home, name), clock);
  const at = (url: string): StoreLocation =>
    postgresLocation(url, {
      clock,
      env: {},
      userName: 'pets',
      random: Math.random,
      testTime: clock.now,
    });
  async function openServer(location: StoreLocation): Promise<Backend> {
    const claim = await location.claim({
      clock,
      bans: { after: 10, milliseconds: 3_600_000 },
      sleep: async (milliseconds) => void clock.advance(milliseconds),
      onWarning: () => {},
      onFailure: () => {},
    });
    const backend = await claim.open();
    onTestFinished(() => backend.close());
    return backend;
  }
  /** A directory with a store to which `fill` has added animals, with two keys and a ban. */
  async function directoryWith(fill: (store: Store) => Promise<unknown>) {
    const directory = join(home, 'store');
    await mkdir(directory);
    const store = await openJournalStore({ directory, clock, lock: noLock });
    await fill(store);
    await store.close();
    const keys = new KeyFiles(directory, { clock });
    await keys.create({ name: 'till', plan: 'free' });
    await keys.create({ name: 'import', plan: 'enterprise', quota: { perMinute: 1, perDay: 10 ** 15 } });
    await saveBans(directory, new Map([[BANNED, clock.now() + 3_600_000]]));
    return inDirectory('store');
  }
  return { clock, home, inDirectory, at, openServer, directoryWith };
}

/** Adds animals and an order to an empty store. */
export const many = (count: number) => (store: Store) =>
  store.seed({
    pets: Array.from({ length: count }, (_, i) => ({ id: BigInt(i + 1), ...animal() })),
    orders: [{ id: 1 }],
  });

/** What is in the schema `pets`; undefined if there is none. */
export async function stateOf(url: string) {
  const client = await connectTo(url);
  const { rows } = await client.query("select from pg_namespace where nspname = 'pets'");
  if (rows.length === 0) return undefined;
  const tables = ['meta', 'animals', 'orders', 'idempotency', 'keys', 'callers'];
  const state: Record<string, unknown> = {};
  for (const table of tables) state[table] = (await client.query(`select * from pets.${table}`)).rows;
  return state;
}
