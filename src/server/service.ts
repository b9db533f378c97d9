import { lookup } from 'node:dns/promises';
import { setMaxListeners } from 'node:events';
import { API_PREFIX } from '../contract/api.ts';
import type { Backend, StoreLocation } from '../store/backend.ts';
import { type BanRule, createMemoryLimiter } from '../store/limiter.ts';
import { createAddressMatcher } from '../system/address-blocks.ts';
import type { SteadyClock } from '../system/clock.ts';
import { createApp, createStartingApp } from './app.ts';
import { createCredentials } from './authentication.ts';
import { listen } from './connection/listen.ts';
import { createFaults, type FaultOptions } from './faults.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { allowedHosts, isLoopbackAddress } from './request/checks.ts';
import { createRequestDescriber, type RequestRecord, type RequestSummary } from './tools/recorder.ts';
import { createTools, type ResetOptions } from './tools/tools.ts';

/** A store that is open, and the service that will serve it. */
export type OpenedStore = Pick<Backend, 'store' | 'keys'> & {
  /** The base URL, including /v1. */
  url: string;
  /** The developer token. Without the developer tools, it gives access only to the metrics. */
  token: string;
};

/** `publicUrl` and `cors` as in AppOptions; `faults` at the start; `allowHosts` are additional names for a Host header. */
export type ServiceOptions = ResetOptions & {
  clock: SteadyClock;
  /** Resolves after this time. Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  location: Pick<StoreLocation, 'open' | 'place'>;
  host: string;
  port: number;
  bans: BanRule;
  publicUrl?: string | undefined;
  /** The addresses and CIDR blocks of reverse proxies that report the addresses of their clients. */
  trustedProxies?: readonly string[] | undefined;
  allowHosts: readonly string[];
  cors: readonly string[];
  /**
   * Whether the developer tools exist (docs/testing.md), and requests may choose the status of their responses with
   * `Prefer`; by default, if the service is local.
   */
  page?: boolean | undefined;
  /** The developer token; by default, a new one. */
  token?: string | undefined;
  /** Called with the new address of the page each time that the previous one has been used. */
  onPageUrl?: ((url: string) => void) | undefined;
  /** Prepares what requests need, such as API keys, before the first request is served. */
  prepare?: ((opened: OpenedStore) => Promise<void>) | undefined;
  /** Secrets that the log and the developer tools do not show, besides generated API keys and the developer token. */
  secrets?: readonly string[] | undefined;
  faults?: FaultOptions | undefined;
  /** If aborted, the start ends after its current step. */
  signal: AbortSignal;
  onWarning(message: string): void;
  /** Called once if the store has failed for good: the service must be stopped. */
  onFailure(error: Error): void;
  onError(error: unknown): void;
  onAccess?: OnAccess | undefined;
};

/** Called for each response that belongs in the log, with a function that describes the request without secrets. */
export type OnAccess = (record: RequestRecord, describe: () => RequestSummary) => void;

export type Service = Awaited<ReturnType<typeof startService>>;

/**
 * Whether the service is meant only for programs on this machine. An address on loopback is not enough, because a reverse
 * proxy on this machine may forward requests of other machines. `address` is the IP address of the service.
 */
export const isLocal = (
  address: string,
  {
    publicUrl,
    trustedProxies = [],
    allowHosts,
  }: Pick<ServiceOptions, 'publicUrl' | 'trustedProxies' | 'allowHosts'>,
): boolean =>
  isLoopbackAddress(address) &&
  publicUrl === undefined &&
  trustedProxies.length === 0 &&
  allowHosts.length === 0;

/**
 * Listens on an address, opens a store and serves it. Until the store is open and `prepare` has ended, the app of
 * `createStartingApp` responds. Creates nothing until it listens on the address and has read the seed.
 *
 * @throws StoreError, the errors of `seed` and `prepare`, the reason of `signal`, or the system's error if the host is
 * unknown or its address is not available. After an error, nothing stays open
 */
export async function startService(options: ServiceOptions) {
  const { location, host, port, publicUrl, trustedProxies, allowHosts, clock, seed, signal } = options;
  const { cors, bans, onWarning, onFailure, onError, onAccess } = options;
  const stopping = new AbortController();
  // Each injected latency and each wait of the store adds a listener to this signal. Node would warn about more than ten.
  setMaxListeners(0, stopping.signal);
  const sleep = (milliseconds: number) => options.sleep(milliseconds, stopping.signal).catch(() => {});
  const credentials = createCredentials(options.token, () => options.onPageUrl?.(pageUrl()));
  const pageUrl = (): string => `${listening?.origin}/#c=${credentials.code()}`;
  const describer = createRequestDescriber([credentials.token, ...(options.secrets ?? [])]);
  let metrics: Metrics | undefined;
  let listening: Awaited<ReturnType<typeof listen>> | undefined;
  let backend: Backend | undefined;
  try {
    // The host may be a name, or a short form such as 127.1. Resolve it to decide whether it is a loopback address.
    const { address } = await lookup(host);
    const local = isLocal(address, options);
    const shared = {
      clock,
      cors,
      anonymousLimiter: createMemoryLimiter(clock),
      isTrustedProxy: trustedProxies && createAddressMatcher(trustedProxies),
      onWarning,
      onError,
      onAccess: onAccess && ((record: RequestRecord) => onAccess(record, () => describer.summarize(record))),
    };
    listening = await listen(createStartingApp(shared), { host, port });
    const { origin, stop, replaceApp } = listening;
    const url = origin + API_PREFIX;

    const contents = await seed?.(signal);
    signal.throwIfAborted();
    backend = await location.open({
      clock,
      url,
      signal,
      bans,
      sleep,
      onWarning,
      onFailure,
      onSync: (milliseconds) => metrics?.recordSync(milliseconds),
      onCall: (name, milliseconds) => metrics?.recordCall(name, milliseconds),
    });
    signal.throwIfAborted();
    const { store, keys, limiter, close } = backend;
    const seeded = contents !== undefined && (await store.seed(contents));
    signal.throwIfAborted();
    const opened: OpenedStore = { store, keys, url, token: credentials.token };
    await options.prepare?.(opened);
    signal.throwIfAborted();

    metrics = createMetrics(backend, onError);
    const faults = createFaults(options.faults);
    const tools =
      (options.page ?? local)
        ? createTools({
            ...options,
            ...{ origin, describer, backend, faults },
            location: location.place,
            openSession: credentials.openSession,
            onReset: shared.anonymousLimiter.clear,
          })
        : undefined;
    const app = createApp({
      ...shared,
      sleep,
      store,
      keys,
      limiter,
      isLocal: local,
      hosts: allowedHosts({ host, address }, allowHosts, publicUrl),
      publicUrl,
      faults,
      metrics: metrics.response,
      countResponse: metrics.countResponse,
      isDeveloper: credentials.isDeveloper,
      tools,
    });
    replaceApp(app);
    return {
      ...opened,
      /** False without a seed, or if the store was not empty. */
      seeded,
      port: listening.port,
      isLoopback: isLoopbackAddress(address),
      /** Returns the address that opens the page of the developer tools once; undefined if the tools are turned off. */
      pageUrl: tools && pageUrl,
      /** The initial faults, even if the developer tools have changed them. */
      faults: options.faults,
      async stop(graceMilliseconds: number): Promise<void> {
        stopping.abort();
        await stop(graceMilliseconds);
        await close();
      },
    };
  } catch (error) {
    stopping.abort();
    await listening?.stop(0);
    await backend?.close();
    throw error;
  }
}
