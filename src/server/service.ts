import type { Clock } from '../contract/clock.ts';
import { API_PREFIX } from '../contract/operations.ts';
import { openJournalStore } from '../store/journal-store.ts';
import { KeyRegistry } from '../store/key-registry.ts';
import { quotaOf } from '../store/keys.ts';
import type { Seed, Store } from '../store/store.ts';
import { type Answered, createApp } from './app.ts';
import type { KeyDirectory } from './auth.ts';
import { createMemoryLimiter } from './limiter.ts';
import { listen } from './listen.ts';

export type ServiceOptions = {
  directory: string;
  host: string;
  port: number;
  clock: Clock;
  /** Asked for only where the store is empty. */
  seed?: (() => Promise<Seed>) | undefined;
  onWarning(message: string): void;
  /** Told once, when the store can accept nothing more: the service must be stopped. */
  onFailure(error: Error): void;
  onError(error: unknown): void;
  onAnswered?: ((answered: Answered) => void) | undefined;
};

/** The service, running. */
export type Service = {
  store: Store;
  keys: KeyRegistry;
  /** Whether the seed was used: a store with animals in it is left alone. */
  seeded: boolean;
  /** With the version prefix. */
  url: string;
  port: number;
  stop(graceMilliseconds: number): Promise<void>;
};

/**
 * Opens the store in a directory, and serves it.
 *
 * @throws StoreError, or the system's error where the address cannot be had; nothing is left open then
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { directory, host, port, clock, seed, onWarning, onFailure, onError, onAnswered } = options;
  const store = await openJournalStore({ directory, clock, onWarning, onFailure });
  try {
    const seeded = seed !== undefined && (await store.isEmpty());
    if (seeded) await store.seed(await seed());
    const keys = new KeyRegistry(directory, { onWarning });
    const limiter = createMemoryLimiter(clock);
    const app = createApp({ store, keys: keyDirectory(keys, clock), limiter, clock, onError, onAnswered });
    const listening = await listen(app, { host, port });
    const url = listening.origin + API_PREFIX;
    store.announce(url);
    return {
      store,
      keys,
      seeded,
      url,
      port: listening.port,
      async stop(graceMilliseconds) {
        await listening.stop(graceMilliseconds);
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The keys as the app asks for them: by hash, with the quota that holds. */
function keyDirectory(keys: KeyRegistry, clock: Clock): KeyDirectory {
  return {
    async find(sha256) {
      const key = await keys.find(sha256, clock.now());
      return key && { quota: quotaOf(key) };
    },
  };
}
