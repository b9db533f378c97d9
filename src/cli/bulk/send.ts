import { ClientError, OutcomeUnknownError } from '../../client/errors.ts';
import { type RateLimit, readRateLimit } from '../../client/rate-limit.ts';
import { BEFORE_FIRST_ID, createHighestId, type HighestId } from './highest-id.ts';
import type { LedgerFile } from './ledger-file.ts';
import type { PlannedRow } from './plan.ts';
import { findStop, latestQuota, maxInFlight, type RowResult, type Stop } from './schedule.ts';
import { type RowContext, sendRow } from './send-row.ts';

export type SendOptions = Pick<RowContext, 'client' | 'apiKey' | 'clock'> & {
  /** Called after each row, with the latest rate limit that the service has reported, if any. */
  onResult(quota?: RateLimit): void;
  /** The highest id of all animals, if this run has listed them. */
  highestId?: HighestId | undefined;
};

/** The rows that this run has to send, or has to record as unknown because repeating them is not safe. */
export const pendingRows = (rows: readonly PlannedRow[]): PlannedRow[] =>
  rows.filter(({ entry }) => entry?.kind !== 'added' && entry?.kind !== 'unknown');

/**
 * Starts the rows in their order, with up to `maxInFlight` in flight at once. After a failure that does not concern a
 * single row, starts no more rows, and waits for those in flight. Returns why the run has stopped before its last row;
 * undefined if all rows have a result.
 *
 * @throws ClientError if a failure does not concern a single row, and CliError if the ledger cannot be written
 */
export async function sendRows(
  rows: readonly PlannedRow[],
  file: LedgerFile,
  options: SendOptions,
): Promise<Stop | undefined> {
  const { client, clock, onResult, highestId = createHighestId() } = options;
  // Before the first row, check the API key and find out whether the service supports idempotency keys.
  const first = await client.call('listPets', { query: { limit: 1 } });
  if (first.value.length === 0) highestId.add(BEFORE_FIRST_ID);
  let quota = readRateLimit(first.headers, clock.now());
  let supportsIdempotency = client.supportsIdempotency();
  let hasAdded = false;
  let wasRefused = false;
  const context: RowContext = { ...options, file, highestId, onRefused: () => (wasRefused = true) };
  const inFlight = new Set<Promise<void>>();
  const failures: { index: number; error: unknown }[] = [];
  /** The results, by the index of the row. The first `done` rows have a result. Some later rows may have one too. */
  const results: RowResult[] = [];
  let done = 0;
  let stop: Stop | undefined;

  async function send(row: PlannedRow, index: number): Promise<void> {
    try {
      const { quota: received, ...result } = await sendRow(row, context);
      quota = latestQuota(quota, received);
      supportsIdempotency = client.supportsIdempotency();
      hasAdded ||= result.kind === 'added';
      results[index] = result;
      onResult(quota);
    } catch (error) {
      failures.push({ index, error });
    }
  }
  const mayStart = () => {
    const conditions = { supportsIdempotency, quota, hasAdded, wasRefused };
    return failures.length === 0 && !stop && inFlight.size < maxInFlight(conditions);
  };

  for (let next = 0; ; ) {
    while (next < rows.length && mayStart()) {
      const sending = send(rows[next] as PlannedRow, next).finally(() => inFlight.delete(sending));
      inFlight.add(sending);
      next++;
    }
    if (inFlight.size === 0) break;
    await Promise.race(inFlight);
    while (results[done]) {
      done++;
      stop ??= findStop(results, { done, total: rows.length });
    }
  }
  await file.flush();
  if (failures.length > 0) throw gravest(failures);
  return stop;
}

/**
 * The error to report. An error of the ledger comes first, then an error after which a row may have been added, then the
 * error of the first row that failed.
 */
function gravest(failures: readonly { index: number; error: unknown }[]): unknown {
  const errors = failures.toSorted((a, b) => a.index - b.index).map(({ error }) => error);
  return (
    errors.find((error) => !(error instanceof ClientError)) ??
    errors.find((error) => error instanceof OutcomeUnknownError) ??
    errors[0]
  );
}
