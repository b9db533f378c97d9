import type { ErrorCode } from '../contract/error-codes.ts';
import type { Backend } from '../store/backend.ts';
import type { ServiceResponse } from './response.ts';

/** What the service has counted since it started. */
type Counts = {
  /** The number of responses by operation and HTTP status. */
  responses: Map<string, Map<number, number>>;
  /** The number of requests that got 429, by error code. */
  tooManyRequests: Map<string, number>;
  /** The number of refused connections. */
  refusals: { count: number };
};

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Counts what `GET /metrics` reports (docs/service.md 12). The library that writes the text is loaded by the first fsync,
 * the first call of a database or the first request for metrics, so that the service starts fast.
 */
export function createMetrics(
  backend: Pick<Backend, 'banCounts' | 'databaseMetrics'>,
  onError: (error: unknown) => void,
) {
  const counts: Counts = { responses: new Map(), tooManyRequests: new Map(), refusals: { count: 0 } };
  const { responses, tooManyRequests, refusals } = counts;
  let prometheus: ReturnType<typeof createPrometheus> | undefined;
  const load = () => {
    prometheus ??= createPrometheus(counts, backend);
    return prometheus;
  };

  return {
    /** Counts a response. The operation of unknown paths is `other`, because a label must have few values. */
    countResponse(operation = 'other', status: number, code: ErrorCode | undefined): void {
      let byStatus = responses.get(operation);
      if (byStatus === undefined) {
        byStatus = new Map();
        responses.set(operation, byStatus);
      }
      increment(byStatus, status);
      if (code === 'rate_limited' || code === 'key_banned') increment(tooManyRequests, code);
    },
    countRefusedConnection(): void {
      refusals.count++;
    },
    recordSync(milliseconds: number): void {
      load().then(({ observeSync }) => observeSync(milliseconds / 1_000), onError);
    },
    recordCall(name: string, milliseconds: number): void {
      load().then(({ observeCall }) => observeCall(name, milliseconds / 1_000), onError);
    },
    /** The response to `GET /metrics`. */
    async response(): Promise<ServiceResponse> {
      return (await load()).response();
    },
  };
}

function increment<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** Upper limits of durations, in seconds: from a fast SSD or a database on this machine to a busy disk or a held lock. */
const BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** A value of a metric, and its labels. */
type LabelledValue = [labels: Record<string, string | number>, value: number];

/** Writes counts in the text format of Prometheus (docs/service.md 12). */
async function createPrometheus(
  { responses, tooManyRequests, refusals }: Counts,
  { banCounts, databaseMetrics }: Pick<Backend, 'banCounts' | 'databaseMetrics'>,
) {
  const { Counter, Gauge, Histogram, Registry } = await import('prom-client');
  const registry = new Registry();
  const registers = [registry];
  /** Adds a counter whose current values `read` returns. */
  const addCounter = (
    name: string,
    help: string,
    labelNames: string[],
    read: () => LabelledValue[] | Promise<LabelledValue[]>,
  ) =>
    new Counter({
      name,
      help,
      labelNames,
      registers,
      async collect() {
        const values = await read();
        this.reset();
        for (const [labels, value] of values) this.inc(labels, value);
      },
    });
  addCounter(
    'pets_http_requests_total',
    'Requests by operation and HTTP status.',
    ['operation', 'status'],
    () =>
      [...responses].flatMap(([operation, byStatus]) =>
        [...byStatus].map(([status, count]): LabelledValue => [{ operation, status }, count]),
      ),
  );
  addCounter('pets_too_many_requests_total', 'Requests that got 429, by error code.', ['code'], () =>
    [...tooManyRequests].map(([code, count]) => [{ code }, count]),
  );
  addCounter('pets_key_bans_total', 'Bans of API keys since the start.', [], async () => [
    [{}, (await banCounts()).begun],
  ]);
  new Gauge({
    name: 'pets_banned_keys',
    help: 'API keys that are banned now.',
    registers,
    async collect() {
      this.set((await banCounts()).active);
    },
  });
  addCounter(
    'pets_refused_connections_total',
    'Connections that were refused because too many were open.',
    [],
    () => [[{}, refusals.count]],
  );
  const syncs = new Histogram({
    name: 'pets_fsync_duration_seconds',
    help: 'Duration of each fsync of the journal, in seconds.',
    buckets: BUCKETS,
    registers,
  });
  const calls = new Histogram({
    name: 'pets_database_call_duration_seconds',
    help: 'Duration of each call of the database, in seconds.',
    labelNames: ['call'],
    buckets: BUCKETS,
    registers: databaseMetrics ? registers : [],
  });
  if (databaseMetrics) {
    addCounter(
      'pets_database_reconnects_total',
      'Connections to the database that replaced a lost one.',
      [],
      () => [[{}, databaseMetrics().reconnects]],
    );
    new Gauge({
      name: 'pets_database_connections',
      help: 'Connections to the database, by state: busy, idle or opening.',
      labelNames: ['state'],
      registers,
      collect() {
        for (const [state, count] of Object.entries(databaseMetrics().connections))
          this.set({ state }, count);
      },
    });
  }
  return {
    observeSync: (seconds: number) => syncs.observe(seconds),
    observeCall: (call: string, seconds: number) => calls.observe({ call }, seconds),
    async response(): Promise<ServiceResponse> {
      return { status: 200, body: await registry.metrics(), contentType: registry.contentType };
    },
  };
}
