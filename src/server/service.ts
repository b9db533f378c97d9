import { lookup } from 'node:dns/promises';
import { setMaxListeners } from 'node:events';
import type { SteadyClock } from '../contract/clock.ts';
import { API_PREFIX } from '../contract/operations.ts';
import { loadBans, saveBans } from '../store/ban-file.ts';
import { openJournalStore } from '../store/journal/journal-store.ts';
import { KeyRegistry } from '../store/keys/key-registry.ts';
import type { Seed } from '../store/store.ts';
import { createAddressMatcher } from '../system/address-blocks.ts';
import { realFileSystem } from '../system/file-system.ts';
import { timedSyncs } from '../system/timed-syncs.ts';
import { type AccessLogEntry, createApp } from './app.ts';
import { listen } from './connection/listen.ts';
import type { FaultOptions } from './faults/random-fault.ts';
import { createMetrics, isOnlyLocal, type Metrics } from './metrics/metrics.ts';
import { type BanRule, createBanTracker } from './rate-limit/bans.ts';
import { createMemoryRateLimiter } from './rate-limit/limiter.ts';
import { allowedHosts, isLoopbackAddress } from './request/hosts.ts';

export type ServiceOptions = {
  directory: string;
  host: string;
  port: number;
  /** How many connections are served at a time. Further ones get 503. */
  maxConnections: number;
  clock: SteadyClock;
  /** Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  bans: BanRule;
  /** Limits requests without a valid key, per client address. Except on loopback, this limit is always on (D13). */
  limitFailedKeys: boolean;
  /** The base URL as clients of a reverse proxy see it. If set, requests without a valid key are always limited. */
  publicUrl?: string | undefined;
  /** The addresses and CIDR blocks of reverse proxies that report the addresses of their clients. */
  trustedProxies?: readonly string[] | undefined;
  /** Additional names that a Host header may have. */
  allowHosts: readonly string[];
  /** Whether `GET /metrics` exists; the default is the result of `isOnlyLocal`. */
  metrics?: boolean | undefined;
  /** Whether requests may choose the status of their responses with `Prefer`. */
  allowPrefer: boolean;
  cors: readonly string[];
  faults?: FaultOptions | undefined;
  /** Called only if the store is empty. */
  seed?: (() => Promise<Seed>) | undefined;
  onWarning(message: string): void;
  /** Called once if the store can no longer be read: the service must be stopped. */
  onFailure(error: Error): void;
  onError(error: unknown): void;
  onAccess?: ((entry: AccessLogEntry) => void) | undefined;
};

export type Service = Awaited<ReturnType<typeof startService>>;

/**
 * Opens the store of a directory and serves it.
 *
 * @throws StoreError, or the system's error if the address is not available. After an error, nothing stays open
 */
export async function startService(options: ServiceOptions) {
  const { directory, host, port, publicUrl, trustedProxies, allowHosts, clock, seed, cors, faults } = options;
  const { onWarning, onFailure, onError, onAccess } = options;
  const stopping = new AbortController();
  // Each request that waits for an injected latency adds a listener, so many listeners are not a leak.
  setMaxListeners(0, stopping.signal);
  let metrics: Metrics | undefined;
  const files = timedSyncs(realFileSystem, clock.elapsed, (milliseconds) =>
    metrics?.recordSync(milliseconds),
  );
  const store = await openJournalStore({ directory, clock, files, onWarning, onFailure });
  try {
    const seeded = seed !== undefined && (await store.isEmpty());
    if (seeded) await store.seed(await seed());
    const keys = new KeyRegistry(directory, { onWarning });
    await keys.load(clock.now());
    // The host may be a name, or a short form such as 127.1. Resolve it to decide whether it is a loopback address.
    const { address } = await lookup(host);
    const isLoopback = isLoopbackAddress(address);
    let isWarned = false;
    const bans = createBanTracker(options.bans, clock, await loadBans(directory), async (all) => {
      // The store locks the directory as soon as the disk accepts writes.
      if (!store.isLocked) await store.checkWritable().catch(() => {});
      if (!store.isLocked) return false;
      try {
        await saveBans(directory, all);
        isWarned = false;
        return true;
      } catch (error) {
        if (!isWarned) onWarning((error as Error).message);
        isWarned = true;
        return false;
      }
    });
    await bans.saved();
    const isLocal = isOnlyLocal({ isLoopback, publicUrl, trustedProxies, allowHosts });
    if (options.metrics ?? isLocal) metrics = createMetrics(bans.count, onError);
    const app = createApp({
      store,
      keys,
      limiter: createMemoryRateLimiter(clock, bans),
      anonymousLimiter: createMemoryRateLimiter(clock),
      limitFailedKeys: options.limitFailedKeys || publicUrl !== undefined || !isLoopback,
      hosts: allowedHosts({ host, address }, allowHosts, publicUrl),
      publicUrl,
      isTrustedProxy: trustedProxies && createAddressMatcher(trustedProxies),
      allowPrefer: options.allowPrefer,
      cors,
      faults,
      sleep: (milliseconds) => options.sleep(milliseconds, stopping.signal).catch(() => {}),
      clock,
      metrics: metrics?.response,
      onError,
      onAccess,
      countResponse: metrics?.countResponse,
    });
    const listening = await listen(app, {
      host,
      port,
      limits: { maxConnections: options.maxConnections },
      onRefused: metrics?.countRefusedConnection,
    });
    const url = listening.origin + API_PREFIX;
    store.announce(url);
    return {
      store,
      keys,
      /** Whether the seed was added; false without a seed, or if the store was not empty. */
      seeded,
      /** The base URL, including /v1. */
      url,
      port: listening.port,
      /** Whether only programs on this machine can connect to the service. */
      isLoopback,
      faults,
      async stop(graceMilliseconds: number): Promise<void> {
        stopping.abort();
        await listening.stop(graceMilliseconds);
        await bans.saved();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
