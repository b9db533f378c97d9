import type { Client } from '../../client/client.ts';
import { ApiFailure, InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { type RateLimit, readRateLimit } from '../../client/rate-limit.ts';
import type { Clock } from '../../contract/clock.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { redactKey } from '../profiles/profile.ts';
import { BEFORE_FIRST_ID, createHighestId, type HighestId } from './highest-id.ts';
import { idempotencyKeyOf, type LedgerEntry } from './ledger.ts';
import type { LedgerFile } from './ledger-file.ts';
import { type PlannedRow, whyNotRepeatable } from './plan.ts';
import { findStop, type Stop } from './stop.ts';

/** Only these statuses concern a single row. Any other failure would also affect the next rows. */
const ROW_STATUSES: readonly number[] = [400, 409, 413, 415, 422];

export type SendOptions = {
  client: Client;
  apiKey: string;
  clock: Clock;
  /** Called after each row, with the rate limit in the response, if there is one. */
  onSettled(quota?: RateLimit): void;
  /** Does not stop the run if its first rows are all rejected with the same error. */
  keepGoing: boolean;
};

/** The rows that this run has to send, or has to record as unknown because repeating them is not safe. */
export const pendingRows = (rows: readonly PlannedRow[]): PlannedRow[] =>
  rows.filter(({ entry }) => entry?.kind !== 'added' && entry?.kind !== 'unknown');

/**
 * Sends rows one by one. Returns why the run has stopped before its last row; undefined if all rows have a result.
 *
 * @throws ClientError if a failure does not concern a single row, and CliError if the ledger cannot be written
 */
export async function sendRows(
  rows: readonly PlannedRow[],
  file: LedgerFile,
  options: SendOptions,
): Promise<Stop | undefined> {
  const highestId = createHighestId();
  // Before the first row, check the API key and find out whether the service supports idempotency keys.
  const { value } = await options.client.call('listPets', { query: { limit: 1 } }, { background: true });
  if (value.length === 0) highestId.add(BEFORE_FIRST_ID);
  for (const [i, row] of rows.entries()) {
    options.onSettled(await sendRow(row, file, { ...options, highestId }));
    const stop = findStop(rows, i + 1, options);
    if (stop) return stop;
  }
  return undefined;
}

/** The response with which the service rejected the row of a request; undefined if the request failed otherwise. */
function rejectionIn(error: unknown): ApiFailure | undefined {
  const cause = error instanceof OutcomeUnknownError ? error.cause : error;
  return cause instanceof ApiFailure && ROW_STATUSES.includes(cause.status) ? cause : undefined;
}

async function sendRow(
  row: PlannedRow,
  file: LedgerFile,
  { client, apiKey, clock, highestId: highest }: SendOptions & { highestId: HighestId },
): Promise<RateLimit | undefined> {
  const { hash, n, line, entry: before } = row;
  const { failures, idempotencyKey: storedKey } = before ?? {};
  // Set if an earlier run sent the row and the service may have added it.
  const open = before?.kind === 'intent' ? before : undefined;
  const highestId = open ? open.highestId : highest.current();
  const base = () => ({ hash, n, line, at: new Date(clock.now()).toISOString(), failures, highestId });
  const record = async (entry: LedgerEntry) => {
    await file.append(entry);
    row.entry = entry;
  };
  const settleAsUnknown = (text: string) =>
    record({ kind: 'unknown', ...base(), idempotencyKey: storedKey, message: redactKey(text, apiKey) });
  const apiKeyHash = hashKey(apiKey);
  const honoursKeys = client.supportsIdempotency();
  const why = open && whyNotRepeatable(open, { now: clock.now(), apiKeyHash, honoursKeys });
  if (open && why !== undefined) {
    await settleAsUnknown(`sent at ${open.at} without a response; not sent again because ${why}`);
    return undefined;
  }
  const sendLog = {
    // A row whose outcome is open keeps the time and the API key of its first attempt.
    intent: () => record(open ?? { kind: 'intent', ...base(), apiKeyHash }),
    notSent: async () => {
      if (!open) await record({ kind: 'notSent', ...base() });
    },
  };
  try {
    const idempotencyKey = idempotencyKeyOf(file.header, row, before);
    const options = { idempotencyKey, background: true, sendLog };
    const { value, headers } = await client.call('createPet', { body: row.pet }, options);
    highest.add(value.id);
    await record({ kind: 'added', ...base(), pet: value });
    return readRateLimit(headers, clock.now());
  } catch (error) {
    const rejection = rejectionIn(error);
    if (rejection !== undefined) {
      const { status, code = `http_${status}`, message } = rejection;
      if (open)
        await settleAsUnknown(`sent at ${open.at} without a response; sent again and rejected: ${message}`);
      else if (error instanceof OutcomeUnknownError)
        await settleAsUnknown(
          `no response shows whether the animal was added; the last attempt was rejected: ${message}`,
        );
      else {
        const failure = { code: redactKey(code, apiKey), message: redactKey(message, apiKey), status };
        await record({ kind: 'failed', ...base(), failures: (failures ?? 0) + 1, error: failure });
      }
      return undefined;
    }
    // With idempotency keys, the next run sends the row again. Without idempotency keys, no run may send it again.
    if (!(error instanceof OutcomeUnknownError) || error.supportsIdempotency) throw error;
    if (!(error.cause instanceof InterruptedError))
      await settleAsUnknown(
        `outcome unknown: ${error.cause instanceof Error ? error.cause.message : error.cause}`,
      );
    throw error;
  }
}
