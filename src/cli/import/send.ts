import type { Client } from '../../client/client.ts';
import {
  ApiFailure,
  ClientError,
  InterruptedError,
  isAfterSuccess,
  OutcomeUnknownError,
} from '../../client/errors.ts';
import { type RateLimit, readRateLimit } from '../../client/rate-limit.ts';
import type { Clock } from '../../contract/clock.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { redactKey } from '../output/redact.ts';
import { type Comparison, compareWithInventory, waitBeforeListing, whyNotRepeatable } from './inventory.ts';
import { idempotencyKeyOf, openRecord, type PlacedRow, type RecordOf, timeOf } from './ledger.ts';
import type { LedgerFile } from './ledger-file.ts';
import { type Carried, isToSend, placeOf, stateOf } from './plan.ts';

export type SendOptions = {
  client: Client;
  apiKey: string;
  clock: Clock;
  /** Called after each row, with the latest rate limit that the service has reported, if any. */
  onResult(quota?: RateLimit): void;
};

export type CarryOutOptions = SendOptions & {
  /** The timeout of a request in milliseconds. */
  timeout: number;
  /** Called before open rows are compared with the inventory. Resolves after the wait, in milliseconds. */
  beforeComparing(rows: number, wait: number): Promise<void>;
  /** Called after each page of the inventory with the number of animals so far. */
  onPage(animals: number): void;
  onCompared(comparison: Comparison): void;
  /** Called before the first of the rows is sent. */
  onSending(rows: number): void;
};

/** Records the beginning of an import. Everything that the next run needs is then on the disk. @throws CliError */
export async function begin({ kind, records }: Carried, file: LedgerFile): Promise<void> {
  if (kind !== 'nothing' && records.length > 0) await file.append(...records);
}

/** Records that every row of an import has a result. @throws CliError */
export async function finish(
  { kind, import: seq }: Carried,
  { ledger, append }: LedgerFile,
  now: number,
): Promise<void> {
  if (kind !== 'nothing' && ledger.imports.get(seq)?.finishedAt === undefined)
    await append({ kind: 'finished', import: seq, at: timeOf(ledger, now) });
}

/**
 * Sends open rows again if they can be repeated with their idempotency keys, and otherwise compares them with the
 * inventory. Then sends the rows that were certainly not added: first those that were never sent, because those that
 * failed would probably fail again. Returns why the run has stopped before its last row.
 *
 * @throws ClientError and CliError as `sendRows` and `compareWithInventory`
 */
export async function carryOut(
  { rows, indexes, import: seq }: Carried,
  file: LedgerFile,
  options: CarryOutOptions,
): Promise<Stop | undefined> {
  const { client, clock, apiKey, timeout } = options;
  const { ledger } = file;
  const its = ledger.imports.get(seq);
  if (its === undefined) return undefined;
  // Check the API key, and find out whether the service supports idempotency keys.
  const first = await client.call('listPets', { query: { limit: 1 } });
  const circumstances = {
    ledger,
    now: clock.now(),
    apiKeyHash: hashKey(apiKey),
    supportsIdempotency: client.supportsIdempotency(),
  };
  const repeated: PlacedRow[] = [];
  const compared: PlacedRow[] = [];
  for (const [i, { pet }] of rows.entries()) {
    const place = placeOf(ledger, its, indexes[i] ?? i);
    const record = openRecord(place.its.rows[place.index]);
    if (record === undefined) continue;
    const isRepeatable = whyNotRepeatable(record, circumstances) === undefined;
    (isRepeatable ? repeated : compared).push({ pet, ...place });
  }
  if (compared.length > 0) {
    await options.beforeComparing(compared.length, waitBeforeListing(compared, clock.now(), timeout));
    options.onCompared(await compareWithInventory(compared, file, client, options.onPage));
  }
  const fresh: PlacedRow[] = [];
  const failed: PlacedRow[] = [];
  for (const [i, { pet }] of rows.entries()) {
    const index = indexes[i] ?? i;
    const state = stateOf(ledger, its, index);
    if (isToSend(state)) (state?.kind === 'failed' ? failed : fresh).push({ pet, its, index });
  }
  const all = repeated.concat(fresh, failed);
  options.onSending(all.length);
  return sendRows(all, file, options, readRateLimit(first.headers, clock.now()));
}

/** Only these statuses concern a single row. Any other failure would also affect the next rows. */
const ROW_STATUSES: readonly number[] = [400, 409, 413, 415, 422];
/** If this many rows at the start of a run are rejected with the same error, the others probably have the same problem. */
export const SAME_REJECTIONS = 20;
/** If the responses to this many successive rows are lost, the service or the network probably has a problem. */
export const LOST_IN_A_ROW = 5;
const MAX_IN_FLIGHT = 8;

/** Why a run stops before its last row although it could send more rows. `text` is the error of the last row sent. */
export type Stop = { reason: 'rejected' | 'lost'; text: string };

/**
 * What the result of a row means for the rows after it. `lost` means that no response shows the outcome. `text` is the
 * error of a row that was rejected or lost. `quota` is the rate limit in the response with which a row was added.
 */
export type RowResult = {
  kind: 'added' | 'rejected' | 'lost' | 'other';
  text?: string;
  quota?: RateLimit | undefined;
};

/**
 * Sends rows in their order, with up to `maxInFlight` in flight at once. After a failure that does not concern a
 * single row, sends no more rows, and waits for those in flight. Returns why the run has stopped before its last row;
 * undefined if all rows have a result.
 *
 * @throws ClientError if a failure does not concern a single row, and CliError if the ledger cannot be written
 */
async function sendRows(
  rows: readonly PlacedRow[],
  file: LedgerFile,
  options: SendOptions,
  reported: RateLimit | undefined,
): Promise<Stop | undefined> {
  const { client, onResult } = options;
  let quota = reported;
  let supportsIdempotency = client.supportsIdempotency();
  let hasAdded = false;
  let wasRefused = false;
  const onRefused = () => {
    wasRefused = true;
  };
  const inFlight = new Set<Promise<void>>();
  const failures: { index: number; error: unknown }[] = [];
  /** The results, by the index of the row. The first `done` rows have a result. Some later rows may have one too. */
  const results: RowResult[] = [];
  let done = 0;
  let stop: Stop | undefined;

  async function send(row: PlacedRow, index: number): Promise<void> {
    try {
      const { quota: received, ...result } = await sendRow(row, file, options, onRefused);
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
      const sending = send(rows[next] as PlacedRow, next).finally(() => inFlight.delete(sending));
      inFlight.add(sending);
      next++;
    }
    if (inFlight.size === 0) break;
    await Promise.race(inFlight);
    while (results[done]) {
      done++;
      stop ??= findStop(results, done, rows.length);
    }
  }
  await file.flush();
  if (failures.length > 0) throw gravest(failures);
  return stop;
}

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
export function findStop(results: readonly RowResult[], done: number, total: number): Stop | undefined {
  const text = results[done - 1]?.text;
  if (text === undefined || done === total) return undefined;
  const isRejected = (each: RowResult) => each.kind === 'rejected' && each.text === text;
  if (done === SAME_REJECTIONS && results.slice(0, done).every(isRejected))
    return { reason: 'rejected', text };
  const isLost =
    done >= LOST_IN_A_ROW && results.slice(done - LOST_IN_A_ROW, done).every(({ kind }) => kind === 'lost');
  return isLost ? { reason: 'lost', text } : undefined;
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

/**
 * Sends one row, and records the attempt and its outcome in the ledger.
 *
 * @throws ClientError if a failure does not concern this row alone, and CliError if the ledger cannot be written
 */
async function sendRow(
  { pet, its, index }: PlacedRow,
  { ledger, append }: LedgerFile,
  { client, apiKey, clock }: SendOptions,
  onRefused: () => void,
): Promise<RowResult> {
  /** The record of an earlier attempt, after which the row may have been added. */
  const open = openRecord(its.rows[index]);
  const apiKeyHash = hashKey(apiKey);
  const place = { import: its.seq, row: index, seq: open?.seq ?? ++ledger.seq };
  let firstAt = open?.at;
  if (open) {
    const supportsIdempotency = client.supportsIdempotency();
    const why = whyNotRepeatable(open, { ledger, now: clock.now(), apiKeyHash, supportsIdempotency });
    // The support of idempotency keys may have ended, or 23 hours may have passed, while the run was waiting.
    if (why !== undefined) {
      recordUnknown(`sent at ${open.at} without a response; not sent again because ${why}`);
      return { kind: 'other' };
    }
  }
  const sendLog = {
    async intent() {
      // The earlier attempt is on the disk already.
      if (openRecord(its.rows[index])?.seq === place.seq) return;
      firstAt = timeOf(ledger, clock.now());
      await append({ kind: 'intent', ...place, at: firstAt, apiKeyHash });
    },
    async notSent(status?: number) {
      // A rejection of the row is recorded as its outcome, and says nothing about other rows.
      if (status !== undefined && ROW_STATUSES.includes(status)) return;
      onRefused();
      if (!open) await append({ kind: 'notSent', ...place });
    },
  };
  try {
    const idempotencyKey = idempotencyKeyOf(ledger.header, place.seq);
    const { value, headers } = await client.call('createPet', { body: pet }, { idempotencyKey, sendLog });
    record({ kind: 'added', ...place, pet: value as ReceivedPet });
    return { kind: 'added', quota: readRateLimit(headers, clock.now()) };
  } catch (error) {
    const answer = answerIn(error);
    if (answer !== undefined) {
      const message = redactKey(`the service responded, but not with the animal: ${answer}`, apiKey);
      record({ kind: 'answered', ...place, message });
      return { kind: 'lost', text: message };
    }
    const rejection = rejectionIn(error);
    if (rejection && (open || error instanceof OutcomeUnknownError)) {
      recordUnknown(
        `rejected after an earlier response was lost; the animal may have been added: ${rejection.message}`,
      );
      return { kind: 'other' };
    }
    if (rejection) {
      const { status, code = `http_${status}`, message } = rejection;
      const text = redactKey(message, apiKey);
      record({ kind: 'failed', ...place, error: { code: redactKey(code, apiKey), message: text, status } });
      return { kind: 'rejected', text: `${text} (HTTP status ${status})` };
    }
    const text = whyLost(error);
    if (text === undefined) throw error;
    recordUnknown(`outcome unknown: ${text}`);
    return { kind: 'lost', text: redactKey(text, apiKey) };
  }

  // Does not wait for the disk. The ledger writes this record before the intents of later rows, so the number of rows
  // with an open outcome stays limited. `sendRows` waits for the last record and reports an error.
  function record(outcome: RecordOf<'added' | 'failed' | 'unknown' | 'answered'>): void {
    append(outcome).catch(() => {});
  }

  function recordUnknown(message: string): void {
    const endedAt = new Date(clock.now()).toISOString();
    record({
      kind: 'unknown',
      ...place,
      at: firstAt ?? endedAt,
      apiKeyHash: open?.apiKeyHash ?? apiKeyHash,
      endedAt,
      message: redactKey(message, apiKey),
    });
  }
}

/** Why a response with 2xx does not show the animal; undefined if there was no such response. */
function answerIn(error: unknown): string | undefined {
  if (!(error instanceof OutcomeUnknownError) || !isAfterSuccess(error.cause)) return undefined;
  return (error.cause as Error).message;
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
  // With idempotency keys, the next run can send the row again. After Ctrl-C, the next run decides whether that is safe.
  const isLost = error instanceof OutcomeUnknownError && !error.supportsIdempotency;
  if (!isLost || error.cause instanceof InterruptedError) return undefined;
  return error.cause instanceof Error ? error.cause.message : String(error.cause);
}
