import type { ErrorCode } from '../../contract/error-codes.ts';
import type { Backend } from '../../store/backend.ts';
import type { ServiceResponse } from '../response.ts';
import type { Counts } from './prometheus.ts';

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Counts what `GET /metrics` reports (docs/service.md 12). The library that writes the text is loaded by the first fsync,
 * the first call of a database or the first request for metrics, so that the service starts fast.
 */
export function createMetrics(
  backend: Pick<Backend, 'banCounts' | 'databaseMetrics'>,
  onError: (error: unknown) => void,
) {
  const responses = new Map<string, Map<number, number>>();
  const tooManyRequests = new Map<string, number>();
  let refusedConnections = 0;
  let prometheus: Promise<ReturnType<typeof import('./prometheus.ts').createPrometheus>> | undefined;

  const counts = (): Counts => ({ responses, tooManyRequests, refusedConnections });
  const load = () => {
    prometheus ??= import('./prometheus.ts').then(({ createPrometheus }) =>
      createPrometheus(counts, backend),
    );
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
      refusedConnections++;
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
