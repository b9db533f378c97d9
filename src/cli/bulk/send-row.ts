import type { Client } from '../../client/client.ts';
import { ApiFailure, InterruptedError, isAfterSuccess, OutcomeUnknownError } from '../../client/errors.ts';
import { readRateLimit } from '../../client/rate-limit.ts';
import type { Clock } from '../../contract/clock.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { redactKey } from '../output/redact.ts';
import type { HighestId } from './highest-id.ts';
import { idempotencyKeyOf, type LedgerEntry } from './ledger.ts';
import type { LedgerFile } from './ledger-file.ts';
import { type PlannedRow, whyNotRepeatable } from './plan.ts';
import type { RowResult } from './schedule.ts';

/** Only these statuses concern a single row. Any other failure would also affect the next rows. */
const ROW_STATUSES: readonly number[] = [400, 409, 413, 415, 422];

export type RowContext = {
  client: Client;
  apiKey: string;
  clock: Clock;
  file: LedgerFile;
  highestId: HighestId;
  /** Called after an attempt that was refused, for example because of the rate limit, or that was not sent. */
  onRefused(): void;
};

/**
 * Sends one row, and records the attempt and its outcome in the ledger.
 *
 * @throws ClientError if a failure does not concern this row alone, and CliError if the ledger cannot be written
 */
export async function sendRow(row: PlannedRow, context: RowContext): Promise<RowResult> {
  const { client, apiKey, clock, file, highestId } = context;
  const log = createRowLog(row, context);
  const { open } = log;
  const why =
    open &&
    whyNotRepeatable(open, {
      now: clock.now(),
      apiKeyHash: hashKey(apiKey),
      supportsIdempotency: client.supportsIdempotency(),
    });
  if (why !== undefined) {
    log.unknown(`sent at ${open?.at} without a response; not sent again because ${why}`);
    return { kind: 'other' };
  }
  try {
    const idempotencyKey = idempotencyKeyOf(file.header, row, row.entry);
    const options = { idempotencyKey, sendLog: log };
    const { value, headers } = await client.call('createPet', { body: row.pet }, options);
    highestId.add(value.id);
    log.added(value);
    return { kind: 'added', quota: readRateLimit(headers, clock.now()) };
  } catch (error) {
    const rejection = rejectionIn(error);
    if (rejection && (open || error instanceof OutcomeUnknownError)) {
      const attempts = open
        ? `sent at ${open.at} without a response; sent again and`
        : 'no response shows whether the animal was added; the last attempt was';
      log.unknown(`${attempts} rejected: ${rejection.message}`);
      return { kind: 'other' };
    }
    if (rejection) {
      log.failed(rejection);
      return {
        kind: 'rejected',
        text: `${redactKey(rejection.message, apiKey)} (HTTP status ${rejection.status})`,
      };
    }
    const text = whyLost(error);
    if (text === undefined) throw error;
    log.unknown(`outcome unknown: ${text}`);
    return { kind: 'lost', text: redactKey(text, apiKey) };
  }
}

/** Records the attempts of a row, and then its outcome: `added`, `failed` or `unknown`. */
function createRowLog(row: PlannedRow, { clock, file, highestId, apiKey, onRefused }: RowContext) {
  const { hash, n, line, entry: before } = row;
  const { failures, idempotencyKey } = before ?? {};
  const open = before?.kind === 'intent' ? before : undefined;
  let knownId = open?.highestId;
  const base = () => ({
    hash,
    n,
    line,
    at: new Date(clock.now()).toISOString(),
    failures,
    highestId: knownId,
  });
  const record = async (entry: LedgerEntry) => {
    await file.append(entry);
    row.entry = entry;
  };
  // Does not wait for the disk. The ledger writes this record before the intents of later rows, so the number of rows
  // with an open outcome stays limited. `sendRows` waits for the last record and reports an error.
  const recordOutcome = (entry: LedgerEntry) => {
    row.entry = entry;
    file.append(entry).catch(() => {});
  };
  return {
    /** The record of an attempt of an earlier run, after which the row may have been added. */
    open,
    async intent() {
      // While the outcome of an attempt is open, the row keeps the record of that attempt.
      if (row.entry?.kind === 'intent') return record(row.entry);
      knownId = highestId.current();
      await record({ kind: 'intent', ...base(), apiKeyHash: hashKey(apiKey) });
    },
    async notSent(status?: number) {
      // A rejection of the row is recorded as its outcome, and says nothing about other rows.
      if (status !== undefined && ROW_STATUSES.includes(status)) return;
      onRefused();
      if (!open) await record({ kind: 'notSent', ...base() });
    },
    added: (pet: ReceivedPet) => recordOutcome({ kind: 'added', ...base(), pet }),
    failed({ status, code = `http_${status}`, message }: ApiFailure) {
      const error = { code: redactKey(code, apiKey), message: redactKey(message, apiKey), status };
      recordOutcome({ kind: 'failed', ...base(), failures: (failures ?? 0) + 1, error });
    },
    unknown: (message: string) =>
      recordOutcome({ kind: 'unknown', ...base(), idempotencyKey, message: redactKey(message, apiKey) }),
  };
}

/** The response with which the service rejected the row of a request; undefined if the request failed otherwise. */
function rejectionIn(error: unknown): ApiFailure | undefined {
  const cause = error instanceof OutcomeUnknownError ? error.cause : error;
  return cause instanceof ApiFailure && ROW_STATUSES.includes(cause.status) ? cause : undefined;
}

/**
 * Why the outcome of a row is unknown, if the service does not support idempotency keys and the run was not interrupted.
 * Undefined after any other failure.
 */
function whyLost(error: unknown): string | undefined {
  // With idempotency keys, the next run can send the row again, but not after a success. After Ctrl-C, the next run decides
  // whether that is safe.
  const isLost =
    error instanceof OutcomeUnknownError && (!error.supportsIdempotency || isAfterSuccess(error.cause));
  if (!isLost || error.cause instanceof InterruptedError) return undefined;
  return error.cause instanceof Error ? error.cause.message : String(error.cause);
}
