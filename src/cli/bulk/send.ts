import type { Client } from '../../client/client.ts';
import { ApiFailure, InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { readRateLimit } from '../../client/rate-limit.ts';
import type { Clock } from '../../contract/clock.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { redactKey } from '../profiles/profile.ts';
import { entryOf, idempotencyKeyOf, type Ledger } from './ledger.ts';
import type { LedgerFile } from './ledger-file.ts';
import { type PlannedRow, whyNotRepeatable } from './plan.ts';
import type { QuotaLeft } from './progress-bar.ts';

/** A response with one of these is about a single row; any other failure would meet the next rows too. */
const ROW_STATUSES: readonly number[] = [400, 413, 422];

export type SendOptions = {
  client: Client;
  apiKey: string;
  clock: Clock;
  /** Called after each row, with the rate limit as far as it is known. */
  onSettled(quota?: QuotaLeft): void;
};

/** The rows that were neither added nor given up. */
export const pendingRows = (rows: readonly PlannedRow[], ledger: Ledger): PlannedRow[] =>
  rows.filter((row) => {
    const kind = entryOf(ledger, row)?.kind;
    return kind !== 'added' && kind !== 'unknown';
  });

/**
 * Sends rows, one by one. A failure that is not about a single row ends the run; a rerun resumes it.
 *
 * @throws ClientError, and CliError if the ledger cannot be written
 */
export async function sendRows(
  rows: readonly PlannedRow[],
  file: LedgerFile,
  options: SendOptions,
): Promise<void> {
  // Before the first row is sent it is known that the key is valid, and whether the service supports idempotency keys.
  await options.client.call('listPets', { query: { limit: 1 } }, { background: true });
  for (const row of rows) options.onSettled(await sendRow(row, file, options));
}

async function sendRow(
  row: PlannedRow,
  file: LedgerFile,
  { client, apiKey, clock }: SendOptions,
): Promise<QuotaLeft | undefined> {
  const { hash, n, line } = row;
  const apiKeyHash = hashKey(apiKey);
  const before = entryOf(file.ledger, row);
  const idempotencyKey = idempotencyKeyOf(file.ledger.header, row, before);
  const { failures, idempotencyKey: storedKey } = before ?? {};
  const record = () => ({ hash, n, line, at: new Date(clock.now()).toISOString(), failures });
  const settleAsUnknown = (text: string) => {
    const message = redactKey(text, apiKey);
    return file.append({ kind: 'unknown', ...record(), idempotencyKey: storedKey, message });
  };
  // An attempt of an earlier run may have been applied.
  const open = before?.kind === 'intent' ? before : undefined;
  const honoursKeys = client.supportsIdempotency();
  const why = open && whyNotRepeatable(open, { now: clock.now(), apiKeyHash, honoursKeys });
  if (why !== undefined) {
    await settleAsUnknown(`sent at ${open?.at} without a response; not sent again because ${why}`);
    return undefined;
  }
  const sendLog = {
    // An open outcome keeps the time and the API key of its first attempt.
    intent: () => (open ? file.check() : file.append({ kind: 'intent', ...record(), apiKeyHash })),
    notSent: async () => {
      if (!open) await file.append({ kind: 'notSent', ...record() });
    },
  };
  try {
    const options = { idempotencyKey, background: true, sendLog };
    const { value, headers } = await client.call('createPet', { body: row.pet }, options);
    await file.append({ kind: 'added', ...record(), pet: value });
    return readRateLimit(headers);
  } catch (error) {
    if (error instanceof ApiFailure && ROW_STATUSES.includes(error.status)) {
      const { status, code = `http_${status}`, message } = error;
      if (open)
        await settleAsUnknown(`sent at ${open.at} without a response; sent again and rejected: ${message}`);
      else {
        const failure = { code: redactKey(code, apiKey), message: redactKey(message, apiKey), status };
        await file.append({ kind: 'failed', ...record(), failures: (failures ?? 0) + 1, error: failure });
      }
      return undefined;
    }
    // With idempotency keys, the next run repeats the row. Without them, it must not be repeated.
    const isLost = error instanceof OutcomeUnknownError && !(error.cause instanceof InterruptedError);
    if (isLost && !error.supportsIdempotency) {
      await settleAsUnknown(
        `no response: ${error.cause instanceof Error ? error.cause.message : error.cause}`,
      );
    }
    throw error;
  }
}
