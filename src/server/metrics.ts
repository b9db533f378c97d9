import type { Backend } from '../store/backend.ts';
import type { ServiceResponse } from './response.ts';

export type Metrics = ReturnType<typeof createMetrics>;

/** Upper limits of histogram buckets, in seconds: low ones for a fast SSD, high ones for a busy disk or a held lock. */
const BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

type LabeledValue = [labels: Record<string, string | number>, value: number];

/** Collects what `GET /metrics` reports (docs/service.md 12). */
export function createMetrics(
  { banCounts, databaseConnections }: Pick<Backend, 'banCounts' | 'databaseConnections'>,
  onError: (error: unknown) => void,
) {
  const responses = new Map<string, LabeledValue>();
  let prometheus: ReturnType<typeof load> | undefined;

  /**
   * Loads the Prometheus library, and defines the metrics. Called at the first fsync, the first call of the database or
   * the first request for metrics, so that the service starts fast.
   */
  async function load() {
    const { Counter, Gauge, Histogram, Registry } = await import('prom-client');
    const registry = new Registry();
    const add = (
      Type: typeof Counter | typeof Gauge,
      name: string,
      help: string,
      labelNames: string[],
      read: () => LabeledValue[] | Promise<LabeledValue[]>,
    ) =>
      new Type({
        name,
        help,
        labelNames,
        registers: [registry],
        async collect() {
          const values = await read();
          this.reset();
          for (const [labels, value] of values) this.inc(labels, value);
        },
      });
    const byOperation = 'Requests by operation and HTTP status.';
    add(Counter, 'pets_http_requests_total', byOperation, ['operation', 'status'], () => [
      ...responses.values(),
    ]);
    add(Counter, 'pets_key_bans_total', 'Bans of API keys since the start.', [], async () => [
      [{}, (await banCounts()).begun],
    ]);
    add(Gauge, 'pets_banned_keys', 'API keys that are banned at the moment.', [], async () => [
      [{}, (await banCounts()).active],
    ]);
    if (databaseConnections) {
      const byState = 'Connections to the database, by state: busy, idle or opening.';
      add(Gauge, 'pets_database_connections', byState, ['state'], () =>
        Object.entries(databaseConnections()).map(([state, count]) => [{ state }, count]),
      );
    }
    const syncs = new Histogram({
      name: 'pets_fsync_duration_seconds',
      help: 'Duration of each fsync of the journal, in seconds.',
      buckets: BUCKETS,
      registers: [registry],
    });
    const calls = new Histogram({
      name: 'pets_database_call_duration_seconds',
      help: 'Duration of each call to the database, in seconds.',
      labelNames: ['call'],
      buckets: BUCKETS,
      registers: databaseConnections ? [registry] : [],
    });
    return { registry, syncs, calls };
  }

  const loadOnce = () => {
    prometheus ??= load();
    return prometheus;
  };

  return {
    /** Counts a response. Without a route, the operation is `other`, because a label must have few values. */
    countResponse(operation = 'other', status: number): void {
      const key = `${operation} ${status}`;
      const counted = responses.get(key);
      if (counted) counted[1]++;
      else responses.set(key, [{ operation, status }, 1]);
    },
    recordSync(milliseconds: number): void {
      loadOnce().then(({ syncs }) => syncs.observe(milliseconds / 1_000), onError);
    },
    recordCall(call: string, milliseconds: number): void {
      loadOnce().then(({ calls }) => calls.observe({ call }, milliseconds / 1_000), onError);
    },
    async response(): Promise<ServiceResponse> {
      const { registry } = await loadOnce();
      return { status: 200, body: await registry.metrics(), contentType: registry.contentType };
    },
  };
}
