import { InterruptedError, OutcomeUnknownError, RateLimitError } from '../../client/errors.ts';
import { CallError, CliError } from '../errors/errors.ts';

/** The error of a call, as the error of a run that can be resumed. `resume` is the hint for that. */
export function toRunError(error: CallError, resume: string, now: number): unknown {
  const { cause, connection } = error;
  if (cause instanceof OutcomeUnknownError) {
    // The row's own key is in the ledger; there is no option for it.
    if (!(cause.cause instanceof InterruptedError)) return new CallError(cause, connection, { hint: resume });
    return new CliError('interrupted; one row was being sent; it may or may not have been added', {
      code: 'interrupted',
      hint: cause.supportsIdempotency
        ? 'rerun the command to resume; the row is not added twice'
        : 'rerun the command to resume; the row is not sent again but reported as unknown, because this service does not support idempotency keys',
    });
  }
  if (!(cause instanceof RateLimitError) || !isDayLimit(cause, now)) return error;
  const { until, code = 'rate_limited', fromResponse } = cause;
  const message = fromResponse ? `${cause.message} (daily limit)` : 'the daily limit is used up';
  const dayLimit = new RateLimitError(until, { error: { code, message, status: 429 } });
  return new CallError(dayLimit, connection, { hint: 'rerun the command after this time to resume' });
}

const MINUTE_MS = 60_000;
/** A ban is recognised by its code. If another process received it, only its end is known, which is sooner than this. */
const LONGEST_BAN_MS = 10 * MINUTE_MS;

/** The end of a minute is waited for, so what ends a run is the limit of the day. */
const isDayLimit = ({ until, code, fromResponse }: RateLimitError, now: number): boolean =>
  code !== 'key_banned' && until - now > (fromResponse ? MINUTE_MS : LONGEST_BAN_MS);
