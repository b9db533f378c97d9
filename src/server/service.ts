import { lookup } from 'node:dns/promises';
import { setMaxListeners } from 'node:events';
import type { Clock } from '../contract/clock.ts';
import { API_PREFIX } from '../contract/operations.ts';
import { openBanFile } from '../store/ban-file.ts';
import { openJournalStore } from '../store/journal-store.ts';
import { KeyRegistry } from '../store/key-registry.ts';
import type { Seed, Store } from '../store/store.ts';
import { type Answered, createApp } from './app.ts';
import { listen } from './connection/listen.ts';
import type { FaultOptions } from './faults/draw.ts';
import { type BanRule, type Bans, createBans, type SaveBans } from './limits/bans.ts';
import { createMemoryLimiter } from './limits/limiter.ts';
import { isLoopback, namesFor } from './request/hosts.ts';

export type ServiceOptions = {
  directory: string;
  host: string;
  port: number;
  clock: Clock;
  /** Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  bans: BanRule;
  /** Refuses addresses that send too many requests without a valid key; not at loopback it always does. */
  limitFailedKeys: boolean;
  /** More names that a Host header may have. */
  allowHosts: readonly string[];
  cors: readonly string[];
  faults?: FaultOptions | undefined;
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
  faults: FaultOptions | undefined;
  stop(graceMilliseconds: number): Promise<void>;
};

/**
 * Opens the store in a directory, and serves it.
 *
 * @throws StoreError, or the system's error where the address cannot be had; nothing is left open then
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { directory, host, port, clock, seed, cors, faults, onWarning, onFailure, onError, onAnswered } =
    options;
  const stopping = new AbortController();
  // As many answers may be held back as there are connections.
  setMaxListeners(0, stopping.signal);
  const store = await openJournalStore({ directory, clock, onWarning, onFailure });
  try {
    const seeded = seed !== undefined && (await store.isEmpty());
    if (seeded) await store.seed(await seed());
    const keys = new KeyRegistry(directory, { onWarning });
    const bans = await rememberBans(options);
    // 127.1 is this machine too, and what a name stands for only the system knows.
    const { address } = await lookup(host);
    const app = createApp({
      store,
      keys,
      limiter: createMemoryLimiter(clock, bans),
      strangers: createMemoryLimiter(clock),
      limitFailedKeys: options.limitFailedKeys || !isLoopback(address),
      hosts: namesFor({ host, address }, options.allowHosts),
      cors,
      faults,
      sleep: (milliseconds) => options.sleep(milliseconds, stopping.signal).catch(() => {}),
      clock,
      onError,
      onAnswered,
    });
    const listening = await listen(app, { host, port });
    const url = listening.origin + API_PREFIX;
    store.announce(url);
    return {
      store,
      keys,
      seeded,
      url,
      port: listening.port,
      faults,
      async stop(graceMilliseconds) {
        stopping.abort();
        await listening.stop(graceMilliseconds);
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The bans of the earlier runs, and those to come: one that cannot be written holds until the server ends. */
async function rememberBans({ directory, bans, clock, onWarning }: ServiceOptions): Promise<Bans> {
  const file = openBanFile(directory);
  const save: SaveBans = (all) => file.save(all).catch((error: Error) => onWarning(error.message));
  return createBans(bans, clock, await file.load(), save);
}
