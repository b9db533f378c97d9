import type { Client } from '../../client/client.ts';
import { ApiFailure, InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { type RateLimit, readRateLimit } from '../../client/rate-limit.ts';
import type { Clock } from '../../contract/clock.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { redactKey } from '../profiles/profile.ts';
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
  /** Called after an attempt that certainly had no effect, because it was refused, rejected or not sent. */
  onRefused(): void;
};

/** `received` is the rate limit in the response. */
export type SentRow = { result: RowResult; received?: RateLimit | undefined };

/**
 * Sends one row, and records the attempt and its outcome in the ledger.
 *
 * @throws ClientError if a failure does not concern this row alone, and CliError if the ledger cannot be written
 */
export async function sendRow(row: PlannedRow, context: RowContext): Promise<SentRow> {
  const { client, apiKey, clock, file, highestId } = context;
  const { hash, n, line, entry: before } = row;
  const { failures, idempotencyKey: storedKey } = before ?? {};
  // Set if an earlier run sent the row and the service may have added it.
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
  const recordResult = (entry: LedgerEntry) => {
    row.entry = entry;
    file.append(entry).catch(() => {});
  };
  const settleAsUnknown = (text: string) =>
    recordResult({ kind: 'unknown', ...base(), idempotencyKey: storedKey, message: redactKey(text, apiKey) });
  const apiKeyHash = hashKey(apiKey);
  const why =
    open &&
    whyNotRepeatable(open, { now: clock.now(), apiKeyHash, honoursKeys: client.supportsIdempotency() });
  if (open && why !== undefined) {
    settleAsUnknown(`sent at ${open.at} without a response; not sent again because ${why}`);
    return { result: { kind: 'other' } };
  }
  const sendLog = {
    intent: async () => {
      // While the outcome of an attempt is open, the row keeps the record of that attempt.
      if (row.entry?.kind === 'intent') return record(row.entry);
      knownId = highestId.current();
      await record({ kind: 'intent', ...base(), apiKeyHash });
    },
    notSent: async () => {
      context.onRefused();
      if (!open) await record({ kind: 'notSent', ...base() });
    },
  };
  try {
    const idempotencyKey = idempotencyKeyOf(file.header, row, before);
    const options = { idempotencyKey, background: true, sendLog };
    const { value, headers } = await client.call('createPet', { body: row.pet }, options);
    highestId.add(value.id);
    recordResult({ kind: 'added', ...base(), pet: value });
    return { result: { kind: 'added' }, received: readRateLimit(headers, clock.now()) };
  } catch (error) {
    const rejection = rejectionIn(error);
    if (rejection) {
      const { status, code = `http_${status}`, message } = rejection;
      if (error instanceof OutcomeUnknownError || open) {
        settleAsUnknown(
          open
            ? `sent at ${open.at} without a response; sent again and rejected: ${message}`
            : `no response shows whether the animal was added; the last attempt was rejected: ${message}`,
        );
        return { result: { kind: 'other' } };
      }
      const failure = { code: redactKey(code, apiKey), message: redactKey(message, apiKey), status };
      recordResult({ kind: 'failed', ...base(), failures: (failures ?? 0) + 1, error: failure });
      return { result: { kind: 'rejected', text: `${failure.message} (HTTP status ${status})` } };
    }
    // With idempotency keys, the next run can send the row again. After Ctrl-C, the next run decides whether that is safe.
    const isLost = error instanceof OutcomeUnknownError && !error.supportsIdempotency;
    if (!isLost || error.cause instanceof InterruptedError) throw error;
    const text = error.cause instanceof Error ? error.cause.message : String(error.cause);
    settleAsUnknown(`outcome unknown: ${text}`);
    return { result: { kind: 'lost', text: redactKey(text, apiKey) } };
  }
}

/** The response with which the service rejected the row of a request; undefined if the request failed otherwise. */
function rejectionIn(error: unknown): ApiFailure | undefined {
  const cause = error instanceof OutcomeUnknownError ? error.cause : error;
  return cause instanceof ApiFailure && ROW_STATUSES.includes(cause.status) ? cause : undefined;
}
