import type { Client } from '../../client/client.ts';
import { ApiFailure, InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { readRateLimit } from '../../client/rate-limit.ts';
import type { Clock } from '../../contract/clock.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { redactKey } from '../profiles/profile.ts';
import { idempotencyKeyOf, type LedgerEntry } from './ledger.ts';
import type { LedgerFile } from './ledger-file.ts';
import { type PlannedRow, whyNotRepeatable } from './plan.ts';
import type { QuotaLeft } from './progress-bar.ts';

/** Only these statuses concern a single row. Any other failure would also affect the next rows. */
const ROW_STATUSES: readonly number[] = [400, 413, 422];

export type SendOptions = {
  client: Client;
  apiKey: string;
  clock: Clock;
  /** Called after each row, with the rate limit in the response, if there is one. */
  onSettled(quota?: QuotaLeft): void;
};

/** The rows that this run has to send, or has to record as unknown because repeating them is not safe. */
export const pendingRows = (rows: readonly PlannedRow[]): PlannedRow[] =>
  rows.filter(({ entry }) => entry?.kind !== 'added' && entry?.kind !== 'unknown');

/**
 * Sends rows one by one. A failure that does not concern a single row ends the run.
 *
 * @throws ClientError, and CliError if the ledger cannot be written
 */
export async function sendRows(
  rows: readonly PlannedRow[],
  file: LedgerFile,
  options: SendOptions,
): Promise<void> {
  // Before the first row, check the API key and find out whether the service supports idempotency keys.
  await options.client.call('listPets', { query: { limit: 1 } }, { background: true });
  for (const row of rows) options.onSettled(await sendRow(row, file, options));
}

async function sendRow(
  row: PlannedRow,
  file: LedgerFile,
  { client, apiKey, clock }: SendOptions,
): Promise<QuotaLeft | undefined> {
  const { hash, n, line, entry: before } = row;
  const { failures, idempotencyKey: storedKey } = before ?? {};
  const base = () => ({ hash, n, line, at: new Date(clock.now()).toISOString(), failures });
  const record = async (entry: LedgerEntry) => {
    await file.append(entry);
    row.entry = entry;
  };
  const settleAsUnknown = (text: string) =>
    record({ kind: 'unknown', ...base(), idempotencyKey: storedKey, message: redactKey(text, apiKey) });
  // Set if an earlier run sent the row and the service may have added it.
  const open = before?.kind === 'intent' ? before : undefined;
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
    await record({ kind: 'added', ...base(), pet: value });
    return readRateLimit(headers);
  } catch (error) {
    if (error instanceof ApiFailure && ROW_STATUSES.includes(error.status)) {
      const { status, code = `http_${status}`, message } = error;
      if (open)
        await settleAsUnknown(`sent at ${open.at} without a response; sent again and rejected: ${message}`);
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
