import type { RateLimit } from '../../client/rate-limit.ts';
import { CliError } from '../core/errors.ts';

/**
 * What the result of a row means for the rows after it. `lost` means that no response shows the outcome. `text` is the
 * error of a row that was rejected or lost. `quota` is the rate limit in the response with which a row was added.
 */
export type RowResult = {
  kind: 'added' | 'rejected' | 'lost' | 'other';
  text?: string;
  quota?: RateLimit | undefined;
};

/** Why a run stops before its last row although it could send more rows. `text` is the error of the last row sent. */
export type Stop = { reason: 'rejected' | 'lost'; text: string };

/** If this many rows at the start of a run are rejected with the same error, the others probably have the same problem. */
const SAME_REJECTIONS = 20;
/** If the responses to this many successive rows are lost, the service or the network probably has a problem. */
const LOST_IN_A_ROW = 5;
const MAX_IN_FLIGHT = 8;

/** What decides how many rows may be in flight at once. */
export type Conditions = {
  supportsIdempotency: boolean;
  /** The rate limit; undefined if the service does not report it. */
  quota: RateLimit | undefined;
  /** Whether this run has added a row. */
  hasAdded: boolean;
  /** Whether an attempt of this run was refused, for example because of the rate limit, or was not sent. */
  wasRefused: boolean;
};

/**
 * How many rows may be in flight at once. Rows are sent one by one
 *
 * - if the service does not support idempotency keys, because after a crash every row in flight stays unknown
 * - if the service does not report its rate limit, or has refused a request that this limit allowed, because parallel
 *   requests could then get a 429 that single requests would not get
 * - until a row is added, because the first row often fails for a reason that concerns all rows.
 *
 * Otherwise, up to half of the remaining requests may be in flight. The other half is for retries, for other processes,
 * and for requests in flight, which the latest response may not have counted.
 */
export function maxInFlight({ supportsIdempotency, quota, hasAdded, wasRefused }: Conditions): number {
  if (!supportsIdempotency || quota === undefined || !hasAdded || wasRefused) return 1;
  return Math.max(1, Math.min(MAX_IN_FLIGHT, Math.floor(quota.remaining / 2)));
}

/**
 * Reported ends that differ by at most this belong to the same window, because a service may report the end as a number
 * of whole seconds from now.
 */
const SAME_WINDOW_MS = 1_000;

/**
 * The rate limit after a response. Responses can arrive in another order than that in which the service counted the
 * requests, so the lowest number of remaining requests in a window is the latest.
 */
export function latestQuota(
  known: RateLimit | undefined,
  received: RateLimit | undefined,
): RateLimit | undefined {
  if (!known || !received) return received ?? known;
  const isSameWindow = received.reset - known.reset <= SAME_WINDOW_MS;
  return isSameWindow && known.remaining < received.remaining ? known : received;
}

/**
 * Decides whether to stop after the first `done` of the `total` rows of a run. `results` are in the order of the rows.
 * Later results do not count.
 */
export function findStop(
  results: readonly RowResult[],
  { done, total }: { done: number; total: number },
): Stop | undefined {
  const text = results[done - 1]?.text;
  if (text === undefined || done === total) return undefined;
  const isRejected = (each: RowResult) => each.kind === 'rejected' && each.text === text;
  if (done === SAME_REJECTIONS && results.slice(0, done).every(isRejected))
    return { reason: 'rejected', text };
  const isLost =
    done >= LOST_IN_A_ROW && results.slice(done - LOST_IN_A_ROW, done).every(({ kind }) => kind === 'lost');
  return isLost ? { reason: 'lost', text } : undefined;
}

export function toStopError({ reason, text }: Stop): CliError {
  if (reason === 'rejected') {
    return new CliError(
      `stopped, because the first ${SAME_REJECTIONS} rows were rejected with the same error: ${text}`,
      {
        code: 'some_failed',
        hint: 'fix the problem, and run the command again',
      },
    );
  }
  return new CliError(
    `stopped, because the outcome of the last ${LOST_IN_A_ROW} rows is unknown; they may or may not have been added: ${text}`,
    {
      code: 'outcome_unknown',
      mayHaveBeenAdded: true,
      hint: 'when the service works again, run the command again; it compares these rows with the inventory, and sends the others',
    },
  );
}
