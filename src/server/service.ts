import { lookup } from 'node:dns/promises';
import { setMaxListeners } from 'node:events';
import type { SteadyClock } from '../contract/clock.ts';
import { API_PREFIX } from '../contract/operations.ts';
import type { StoreLocation } from '../store/backend.ts';
import { StoreNotEmptyError } from '../store/errors.ts';
import type { BanRule } from '../store/limits/limiter.ts';
import { createMemoryLimiter } from '../store/limits/memory-limiter.ts';
import type { Seed, Store } from '../store/store.ts';
import { createAddressMatcher } from '../system/address-blocks.ts';
import { type AccessLogEntry, createApp } from './app.ts';
import { listen } from './connection/listen.ts';
import { createFaults, type FaultOptions } from './faults/faults.ts';
import { createMetrics, isOnlyLocal, type Metrics } from './metrics/metrics.ts';
import { allowedHosts, isLoopbackAddress } from './request/hosts.ts';
import { createTools } from './tools/create-tools.ts';

export type ServiceOptions = {
  location: Pick<StoreLocation, 'open'>;
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
  /**
   * Whether the developer tools exist (docs/service.md 13); the default is the result of `isOnlyLocal`. Without `metrics`,
   * this also decides whether `GET /metrics` exists.
   */
  page?: boolean | undefined;
  metrics?: boolean | undefined;
  /** Whether requests may choose the status of their responses with `Prefer`. */
  allowPrefer: boolean;
  cors: readonly string[];
  /** The faults at the start. */
  faults?: FaultOptions | undefined;
  /** Whether `POST /reset` may replace the contents of the store by the seed. */
  resettable?: boolean | undefined;
  /** Called if the store is empty, and for each reset. */
  seed?: (() => Promise<Seed>) | undefined;
  onWarning(message: string): void;
  /** Called once if the store can no longer be read: the service must be stopped. */
  onFailure(error: Error): void;
  onError(error: unknown): void;
  onAccess?: ((entry: AccessLogEntry) => void) | undefined;
};

export type Service = Awaited<ReturnType<typeof startService>>;

/**
 * Opens a store and serves it.
 *
 * @throws StoreError, or the system's error if the address is not available. After an error, nothing stays open
 */
export async function startService(options: ServiceOptions) {
  const { location, host, port, publicUrl, trustedProxies, allowHosts, clock, seed, cors } = options;
  const { bans, onWarning, onFailure, onError, onAccess } = options;
  const stopping = new AbortController();
  // Each request that waits for an injected latency adds a listener, so many listeners are not a leak.
  setMaxListeners(0, stopping.signal);
  let metrics: Metrics | undefined;
  const sleep = (milliseconds: number) => options.sleep(milliseconds, stopping.signal).catch(() => {});
  const backend = await location.open({
    clock,
    bans,
    sleep,
    onWarning,
    onFailure,
    onSync: (milliseconds) => metrics?.recordSync(milliseconds),
  });
  const { store, keys, limiter, banCounts } = backend;
  try {
    const seeded = seed !== undefined && (await seedIfEmpty(store, seed));
    // The host may be a name, or a short form such as 127.1. Resolve it to decide whether it is a loopback address.
    const { address } = await lookup(host);
    const isLoopback = isLoopbackAddress(address);
    const hasTools = options.page ?? isOnlyLocal({ isLoopback, publicUrl, trustedProxies, allowHosts });
    if (options.metrics ?? hasTools) metrics = createMetrics(banCounts, onError);
    const faults = createFaults(options.faults);
    const anonymousLimiter = createMemoryLimiter(clock);
    const tools = hasTools
      ? createTools({
          backend,
          faults,
          resettable: options.resettable ?? false,
          seed,
          onReset: anonymousLimiter.clear,
          sleep: options.sleep,
        })
      : undefined;
    const app = createApp({
      store,
      keys,
      limiter,
      anonymousLimiter,
      limitFailedKeys: options.limitFailedKeys || publicUrl !== undefined || !isLoopback,
      hosts: allowedHosts({ host, address }, allowHosts, publicUrl),
      publicUrl,
      isTrustedProxy: trustedProxies && createAddressMatcher(trustedProxies),
      allowPrefer: options.allowPrefer,
      cors,
      faults,
      sleep,
      clock,
      metrics: metrics?.response,
      hasPage: hasTools,
      onError,
      onAccess,
      countResponse: metrics?.countResponse,
      recorder: tools?.recorder,
      resetGate: tools?.resetGate,
      tools,
    });
    const listening = await listen(app, {
      host,
      port,
      limits: { maxConnections: options.maxConnections },
      onRefused: metrics?.countRefusedConnection,
    });
    const url = listening.origin + API_PREFIX;
    backend.announce(url);
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
      /** The developer tools; undefined if they are turned off. `url` is the address of their page, with the token. */
      tools: tools && {
        token: tools.credentials.token,
        url: `${listening.origin}/#t=${tools.credentials.token}`,
        allowKey: tools.credentials.allowKey,
      },
      /** The faults at the start. */
      faults: options.faults,
      async stop(graceMilliseconds: number): Promise<void> {
        stopping.abort();
        tools?.stop();
        await listening.stop(graceMilliseconds);
        await backend.close();
      },
    };
  } catch (error) {
    await backend.close();
    throw error;
  }
}

/** Returns whether the seed was added. Another server may seed a shared store at the same time. */
async function seedIfEmpty(store: Store, seed: () => Promise<Seed>): Promise<boolean> {
  if (!(await store.isEmpty())) return false;
  try {
    await store.seed(await seed());
    return true;
  } catch (error) {
    if (error instanceof StoreNotEmptyError) return false;
    throw error;
  }
}
