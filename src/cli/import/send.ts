import { IDEMPOTENT_RETRY_MS } from '../../client/call.ts';
import type { Client } from '../../client/client.ts';
import { ApiFailure, ClientError, hasSuccessStatus, OutcomeUnknownError } from '../../client/errors.ts';
import { type RateLimit, readScarcestRateLimit } from '../../client/rate-limit.ts';
import type { HttpHeaders } from '../../client/response.ts';
import { pageSize } from '../../contract/operations.ts';
import type { NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { hashKey } from '../../store/keys/keys.ts';
import type { SteadyClock } from '../../system/clock.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { type Progress, readPages } from '../animals/reading.ts';
import { CliError } from '../core/errors.ts';
import { redactKey } from '../output/redact.ts';
import { formatCount } from '../output/text.ts';
import {
  idempotencyKeyOf,
  type LedgerFile,
  nextRecordTime,
  type RecordOf,
  type RowRecord,
  recordsOf,
} from './ledger.ts';
import { importsOf, locateRow, type Plan, recordOf } from './plan.ts';

/** What every row of a run needs. */
export type Run = {
  plan: Plan;
  file: LedgerFile;
  client: Client;
  clock: SteadyClock;
  /** Shows how much of the list of animals was read. */
  progress: Pick<Progress, 'show' | 'end'>;
  apiKey: string;
  /** The timeout of a request in milliseconds. */
  timeout: number;
  notice(text: string): void;
  /** Waits until the service can no longer add animals for earlier requests. */
  wait(milliseconds: number): Promise<void>;
  /** Called before the first of the rows is sent. */
  onSending(rows: number): void;
  /** Called after each row that has a result. */
  onResult(): void;
};

/**
 * Carries out a plan: records its beginning, so that everything that the next run needs is on the disk. Compares open
 * rows with the inventory, unless they can be repeated with their idempotency keys. Then sends those that can be
 * repeated, and the rows that were certainly not added; failed ones last, because they would probably fail again.
 * Returns an error if `createStopRule` has ended the run before its last row.
 *
 * @throws ClientError and CliError as `sendRows` and `compareWithInventory`
 */
export async function carryOut(run: Run): Promise<CliError | undefined> {
  const { plan, file, client, clock } = run;
  const { ledger, append } = file;
  const { its, groups } = plan;
  if (!ledger.imports.has(its.seq)) {
    ledger.imports.set(its.seq, its);
    await append(...recordsOf(its));
  } else if (its.finishedAt !== undefined)
    await append({ kind: 'resumed', import: its.seq, at: nextRecordTime(ledger, clock.now()) });
  // Check the API key, and find out whether the service supports idempotency keys.
  const first = await client.call('listPets', { query: { limit: 1 } });
  const compared = groups.open.filter((position) => {
    const record = recordOf(plan, position);
    return record?.kind === 'open' && whyNotRepeatable(record, run) !== undefined;
  });
  if (compared.length > 0) await compareWithInventory(compared, run);
  // A row that was not added has no record now.
  const unknown = new Set(compared.filter((position) => recordOf(plan, position)));
  const left = groups.open.filter((position) => !unknown.has(position));
  const positions = left.concat(groups.new, groups.failed);
  run.onSending(positions.length);
  const stop = await sendRows(run, positions, readScarcestRateLimit(first.headers, clock.now()));
  if (!stop) await finish(plan, file, clock.now());
  return stop;
}

/**
 * Records that an import is finished. Also renews the finished imports that have rows of this file: those are remembered
 * for another 30 days, so that a file that is imported every night is never added again.
 *
 * @throws CliError if the ledger cannot be written
 */
export async function finish(
  { its, known }: Plan,
  { ledger, append }: Pick<LedgerFile, 'ledger' | 'append'>,
  now: number,
): Promise<void> {
  const at = nextRecordTime(ledger, now);
  const others = [...importsOf(known.values())].filter(({ finishedAt }) => finishedAt);
  const recorded = [its, ...others].filter(({ seq }) => ledger.imports.has(seq));
  await Promise.all(recorded.map(({ seq }) => append({ kind: 'finished', import: seq, at })));
}

/** Only these statuses concern a single row. Any other failure would also affect the next rows. */
const ROW_STATUSES: readonly number[] = [400, 409, 413, 415, 422];
/** If this many rows at the start of a run are rejected with the same error, the others probably have the same problem. */
const SAME_REJECTIONS = 20;
/** If no response shows the outcome of this many successive rows, the service or the network probably has a problem. */
const LOST_IN_A_ROW = 5;
const MAX_IN_FLIGHT = 16;

/**
 * What the result of a row means for the next rows. `lost` means that no response shows the outcome, and `other` has no
 * effect on them. `text` is the error of a rejected or lost row. `headers` are those of the response that added a row.
 */
export type RowResult = {
  kind: 'added' | 'rejected' | 'lost' | 'other';
  text?: string;
  headers?: HttpHeaders;
};

/**
 * Sends rows in this order, with up to `maxInFlight` in flight at once. After a failure that does not concern a
 * single row, sends no more rows, and waits for those in flight. Returns an error if `createStopRule` has ended the run
 * before its last row.
 *
 * @throws ClientError if a failure does not concern a single row, and CliError if the ledger cannot be written
 */
async function sendRows(
  run: Run,
  positions: readonly number[],
  reported: RateLimit | undefined,
): Promise<CliError | undefined> {
  const { client, clock, onResult } = run;
  const conditions: InFlightConditions = {
    supportsIdempotency: client.supportsIdempotency(),
    rateLimit: reported,
    hasAdded: false,
    wasRefused: false,
  };
  const inFlight = new Set<Promise<void>>();
  const failures: unknown[] = [];
  const whyStop = createStopRule();
  let stop: CliError | undefined;
  let next = 0;

  async function send(position: number): Promise<void> {
    try {
      const { headers = {}, ...result } = await sendRow(run, position, conditions);
      const received = readScarcestRateLimit(headers, clock.now());
      conditions.rateLimit = latestRateLimit(conditions.rateLimit, received);
      conditions.supportsIdempotency = client.supportsIdempotency();
      conditions.hasAdded ||= result.kind === 'added';
      stop ??= whyStop(result);
      onResult();
    } catch (error) {
      failures.push(error);
    }
  }
  const mayStart = () =>
    next < positions.length && failures.length === 0 && !stop && inFlight.size < maxInFlight(conditions);

  for (;;) {
    while (mayStart()) {
      const sending = send(positions[next++] ?? 0).finally(() => inFlight.delete(sending));
      inFlight.add(sending);
    }
    if (inFlight.size === 0) break;
    await Promise.race(inFlight);
  }
  await run.file.flush();
  if (failures.length > 0) throw gravest(failures);
  return next < positions.length ? stop : undefined;
}

/** What decides how many rows may be in flight at once. */
export type InFlightConditions = {
  supportsIdempotency: boolean;
  /** Undefined if the service does not report it. */
  rateLimit: RateLimit | undefined;
  /** Whether this run has added a row. */
  hasAdded: boolean;
  /** Whether an attempt of this run was refused, for example because of the rate limit, or was not sent. */
  wasRefused: boolean;
};

/**
 * How many rows may be in flight at once. Rows are sent one by one
 *
 * - if the service does not support idempotency keys, because after a crash every row in flight stays unknown
 * - if the service does not report its rate limit, or a request was refused or could not be sent, because parallel
 *   requests could then get a 429 that single requests would not get
 * - until a row is added, because the first row often fails for a reason that concerns all rows.
 *
 * Otherwise, up to half of the remaining requests, at most 16, may be in flight. The other half is for retries, for
 * other processes, and for requests in flight, which the latest response may not have counted.
 */
export function maxInFlight({
  supportsIdempotency,
  rateLimit,
  hasAdded,
  wasRefused,
}: InFlightConditions): number {
  if (!supportsIdempotency || rateLimit === undefined || !hasAdded || wasRefused) return 1;
  return Math.max(1, Math.min(MAX_IN_FLIGHT, Math.floor(rateLimit.remaining / 2)));
}

/**
 * The later of two rate limits. Responses can arrive in a different order than the service counted the requests, so of
 * two reports about one window, the one with fewer remaining requests is later. Two windows whose ends differ by at most
 * a second are the same one, because a service may round the time until the end to whole seconds.
 */
export const latestRateLimit = (known: RateLimit | undefined, received: RateLimit | undefined) =>
  known && received && received.reset - known.reset <= 1_000 && known.remaining < received.remaining
    ? known
    : (received ?? known);

/**
 * Returns a function that gets each result, and returns an error if the run must stop. Until a row is added, only one
 * is in flight, so the first results arrive in the order of the rows.
 */
export function createStopRule(): (result: RowResult) => CliError | undefined {
  let first: RowResult | undefined;
  /** The number of rows so far, or NaN after a row that was not rejected with the error of the first one. */
  let same = 0;
  let lost = 0;
  return (result) => {
    const { kind, text } = result;
    first ??= result;
    same = kind === 'rejected' && text === first.text ? same + 1 : Number.NaN;
    lost = kind === 'lost' ? lost + 1 : 0;
    if (same === SAME_REJECTIONS)
      return new CliError(
        `stopped, because the first ${same} rows were rejected with the same error: ${text}`,
        { code: 'some_failed', hint: 'fix the problem and run the command again' },
      );
    if (lost < LOST_IN_A_ROW) return undefined;
    const message = `stopped, because the outcome of the last ${lost} rows is unknown (${text}); they may have been added`;
    const hint =
      'when the service works again, run the command again: it finds out where possible whether these rows were added, and sends the others';
    return new CliError(message, { code: 'outcome_unknown', mayHaveBeenAdded: true, hint });
  };
}

/** The error to report: one of the ledger, or else one after which a row may have been added, or else the first one. */
const gravest = (errors: readonly unknown[]): unknown =>
  errors.find((error) => !(error instanceof ClientError || error instanceof InterruptedError)) ??
  errors.find((error) => error instanceof OutcomeUnknownError) ??
  errors[0];

/**
 * Sends one row, and records the attempt and its outcome in the ledger.
 *
 * @throws ClientError if a failure does not concern this row alone, and CliError if the ledger cannot be written
 */
async function sendRow(run: Run, position: number, conditions: InFlightConditions): Promise<RowResult> {
  const { plan, file, client, apiKey, clock } = run;
  const { ledger, append } = file;
  const { its, index } = locateRow(plan, position);
  const record = its.rows[index];
  /** The record of an earlier attempt, after which the row may have been added. */
  const open = record?.kind === 'open' ? record : undefined;
  const pet = plan.rows[position]?.pet as NewPet;
  const place = { import: its.seq, row: index, seq: open?.seq ?? ++ledger.seq };
  // Does not wait for the disk. The ledger writes this record before those of later attempts, so the number of rows
  // with an open outcome stays limited. `sendRows` waits for the last record and reports an error.
  const write = (outcome: RowRecord) => void append(outcome).catch(() => {});
  const leaveOpen = (message?: string) => {
    const current = its.rows[index];
    const endedAt = new Date(clock.now()).toISOString();
    if (current?.kind === 'open') write({ ...current, endedAt, ...(message !== undefined && { message }) });
  };
  if (open) {
    const why = whyNotRepeatable(open, run);
    // The answer may have changed while the run was waiting, for example because 23 hours have passed.
    if (why !== undefined) {
      leaveOpen(`sent at ${open.at} without a response; not sent again because ${why}`);
      return { kind: 'other' };
    }
  }
  const sendLog = {
    async intent() {
      const current = its.rows[index];
      // An earlier attempt is on the disk already.
      if (current?.kind === 'open' && current.endedAt === undefined) return;
      // The clock may have been set back since the latest record. With that record's time, which is in the future, the key
      // would seem valid for longer than the 24 hours for which the service keeps it.
      const at = open?.at ?? new Date(clock.now()).toISOString();
      await append({ kind: 'open', ...place, name: pet.name, at, apiKeyHash: hashKey(apiKey) });
    },
    async notSent(status?: number) {
      // A rejection of the row is recorded as its outcome, and says nothing about other rows.
      if (status !== undefined && ROW_STATUSES.includes(status)) return;
      conditions.wasRefused = true;
      if (!open) await append({ kind: 'notSent', ...place });
    },
  };
  try {
    const idempotencyKey = idempotencyKeyOf(ledger, place.seq);
    const { value, headers } = await client.call('createPet', { body: pet }, { idempotencyKey, sendLog });
    write({ kind: 'added', ...place, pet: value as ReceivedPet });
    return { kind: 'added', headers };
  } catch (error) {
    const isAmbiguous = error instanceof OutcomeUnknownError;
    const cause = isAmbiguous ? error.cause : error;
    const message = cause instanceof Error ? cause.message : String(cause);
    const reason = redactKey(message, apiKey);
    if (isAmbiguous && hasSuccessStatus(cause)) {
      const text = `the service responded, but not with the animal: ${reason}`;
      write({ kind: 'answered', ...place, name: pet.name, message: text });
      return { kind: 'lost', text };
    }
    if (cause instanceof ApiFailure && ROW_STATUSES.includes(cause.status)) {
      if (open || isAmbiguous) {
        leaveOpen(`rejected after an earlier response was lost (${reason}); the animal may have been added`);
        return { kind: 'other' };
      }
      const { status, code } = cause;
      write({ kind: 'failed', ...place, error: { code: redactKey(code, apiKey), message: reason, status } });
      return { kind: 'rejected', text: `${reason} (HTTP status ${status})` };
    }
    if (!isAmbiguous) throw error;
    // With idempotency keys, the next run can send the row again. After Ctrl-C, the next run decides whether that is safe.
    const isLeft = error.supportsIdempotency || cause instanceof InterruptedError;
    leaveOpen(isLeft ? undefined : `outcome unknown: ${reason}`);
    if (isLeft) throw error;
    return { kind: 'lost', text: reason };
  }
}

/*
 * What becomes of open rows, which may have been added although no response shows it. If it is safe, the request is
 * repeated with the same idempotency key. Otherwise the row is compared with all animals of the service. If one of them
 * may be the row's, or the list may be incomplete, the row stays unknown and is not sent. If not, the row is sent.
 *
 * An animal may be the row's although it differs, because the service may change how a name is written, may not send the
 * category, or may have sold the animal since. Animals that the ledger has for other rows do not count.
 */

/** A row that may have been added. */
type OpenRow = { pet: NewPet; open: RecordOf<'open'> };

/** Why a request whose outcome is open must not be repeated; undefined if it may be repeated. */
function whyNotRepeatable({ at, apiKeyHash }: RecordOf<'open'>, run: Run): string | undefined {
  const now = run.clock.now();
  if (!run.client.supportsIdempotency()) return 'the service may not support idempotency keys';
  if (apiKeyHash !== hashKey(run.apiKey)) return 'it was sent with another API key';
  if (now < Date.parse(run.file.ledger.at)) return 'the clock has been set back since then';
  if (now - Date.parse(at) > IDEMPOTENT_RETRY_MS) return 'it was sent more than 23 hours ago';
  return undefined;
}

/**
 * How long to wait before a list can show that rows were not added, in milliseconds. Until `timeout` has passed after
 * the request, the service may still add the animal.
 */
function waitBeforeListing(rows: readonly OpenRow[], now: number, timeout: number): number {
  // If a run was killed, it is not known when its last request ended. Limit the wait, because `endedAt` may be in the
  // future if the clock was set back since then.
  const waits = rows.map(({ open: { endedAt } }) =>
    endedAt === undefined ? timeout : Math.min(timeout, Date.parse(endedAt) + timeout - now),
  );
  return waits.reduce((a, b) => Math.max(a, b), 0);
}

const MAX_CANDIDATES = 20;

/**
 * Compares open rows with all animals of the service, and records what that shows. If the list may be incomplete, all
 * rows stay unknown.
 *
 * @throws ClientError if the animals cannot be listed, and CliError if the ledger cannot be written
 */
async function compareWithInventory(positions: readonly number[], run: Run): Promise<void> {
  const { plan, clock, timeout, notice } = run;
  const rows = positions.map((position): OpenRow => {
    const open = recordOf(plan, position) as RecordOf<'open'>;
    return { pet: plan.rows[position]?.pet as NewPet, open };
  });
  notice(`searching the inventory for ${formatCount(rows.length, 'row')} that may have been added`);
  const wait = waitBeforeListing(rows, clock.now(), timeout);
  if (wait > 0) await run.wait(wait);
  const { similar, animals, whyIncomplete } = await listSimilar(rows, run);
  let notAdded = 0;
  const records = rows.map(({ pet, open }) => {
    const found = (similar.get(nameKey(pet)) ?? []).filter((each) => isSimilar(pet, each));
    if (whyIncomplete === undefined && found.length === 0) {
      notAdded++;
      return run.file.append({ kind: 'notSent', import: open.import, row: open.row, seq: open.seq });
    }
    const candidates = found.slice(0, MAX_CANDIDATES).map(({ id }) => id);
    const message = `may have been added as ${found.length === 1 ? 'animal' : 'one of the animals'} ${candidates.join(', ')}`;
    const unsettled = `sent at ${open.at} without a response that shows whether the animal was added`;
    const shown =
      whyIncomplete === undefined ? { message, candidates } : { message: open.message ?? unsettled };
    return run.file.append({ endedAt: open.at, ...open, ...shown });
  });
  await Promise.all(records);
  const result = `${notAdded} not added, ${rows.length - notAdded} may have been added`;
  notice(
    whyIncomplete === undefined
      ? `compared ${formatCount(rows.length, 'row')} with ${formatCount(animals, 'animal')}: ${result}`
      : `the outcome of ${formatCount(rows.length, 'row')} stays unknown, because the list of animals may be incomplete: ${whyIncomplete}`,
  );
}

/**
 * Lists all animals, and keeps those that have the name of a row, and are not in the ledger, by their `nameKey`. The
 * list is complete only if it has every animal of the ledger. If the ledger has none, the service must also respect
 * `limit`: otherwise the service may send only its first page, without a link to the next one.
 */
async function listSimilar(
  rows: readonly OpenRow[],
  { client, progress, file }: Run,
): Promise<{ similar: Map<string, ReceivedPet[]>; animals: number; whyIncomplete: string | undefined }> {
  /** The animals that the ledger has for rows, by their ids. */
  const accounted = new Map<string, ReceivedPet>();
  for (const its of file.ledger.imports.values())
    for (const record of its.rows) if (record?.kind === 'added') accounted.set(idKey(record.pet), record.pet);
  const similar = new Map(rows.map(({ pet }): [string, ReceivedPet[]] => [nameKey(pet), []]));
  const unlisted = new Map(accounted);
  const seen = new Set<string>();
  const onResults = (pets: readonly ReceivedPet[]) => {
    for (const pet of pets) {
      const id = idKey(pet);
      const known = accounted.get(id);
      if (known && isSimilar(known, pet)) unlisted.delete(id);
      const found = similar.get(nameKey(pet));
      // An animal may be listed twice.
      if (known || !found || seen.has(id)) continue;
      seen.add(id);
      found.push(pet);
    }
  };
  const everything = { enough: Number.POSITIVE_INFINITY, onResults, progress };
  const { pages, animals, more } = await readPages(client, {}, everything);
  const [missing] = unlisted.keys();
  let whyIncomplete: string | undefined;
  // Without a link to more animals, some may be missing. A service that sends more than a full page at once probably
  // sends all animals.
  const isAtOnce = pages === 1 && animals > pageSize.max;
  if (more === 'unknown' && !isAtOnce) whyIncomplete = 'the service sends no link to a next page';
  else if (missing !== undefined)
    whyIncomplete = `animal ${missing}, which was added, is missing or has changed`;
  else if (accounted.size === 0 && !(await respectsLimit(client, animals)))
    whyIncomplete = 'the service ignores how many animals per page pets asks for';
  return { similar, animals, whyIncomplete };
}

/**
 * Whether the service sends at most `limit` animals. `count` is the number of animals in the list. If it is 0, checks
 * that a list without parameters is empty too, because some services take an unknown parameter as a filter.
 */
async function respectsLimit(client: Client, count: number): Promise<boolean> {
  const query = count === 0 ? {} : { limit: 1 };
  const { value } = await client.call('listPets', { query });
  return value.length === Math.min(count, 1);
}

/** An id as a map key. A service may send the same id as a number in one response and as text in another one. */
const idKey = ({ id }: Pick<ReceivedPet, 'id'>): string => String(id);

/** Whether an animal may be the one that was added for a row. */
const isSimilar = (row: Pick<ReceivedPet, 'name' | 'categoryId'>, pet: ReceivedPet): boolean =>
  nameKey(pet) === nameKey(row) &&
  (typeof row.categoryId !== 'bigint' ||
    typeof pet.categoryId !== 'bigint' ||
    pet.categoryId === row.categoryId);

/** Two names with the same `nameKey` differ only in ways in which a service may change how a name is written. */
const nameKey = ({ name }: { name: string }): string => name.normalize().trim().toLowerCase();
