import { randomUUID } from 'node:crypto';
import { IDEMPOTENT_RETRY_MS } from '../../client/call.ts';
import type { Client } from '../../client/client.ts';
import { ApiFailure, ClientError, hasSuccessStatus, OutcomeUnknownError } from '../../client/errors.ts';
import { type RateLimit, scarcestLimit } from '../../client/rate-limit.ts';
import type { HttpHeaders } from '../../client/response.ts';
import { pageSize } from '../../contract/operations.ts';
import type { NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { hashKey } from '../../store/keys.ts';
import type { SteadyClock } from '../../system/clock.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { type ReadingOptions, readPages } from '../animals/reading.ts';
import { CliError } from '../core/errors.ts';
import { createRedactor } from '../output/redact.ts';
import { formatCount } from '../output/text.ts';
import type { PetRow } from '../rows/read-file.ts';
import {
  animalHash,
  type Import,
  type LedgerEvent,
  type LedgerFile,
  nextTime,
  type SentRow,
} from './ledger.ts';
import { openAt, type Plan, pendingOf } from './plan.ts';

/** What every row of a run needs. */
export type Run = {
  plan: Plan;
  file: LedgerFile;
  client: Client;
  clock: SteadyClock;
  /** Shows how much of the list of animals was read. */
  showStatus: ReadingOptions['showStatus'];
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
 * Carries out a plan: records its beginning, so that everything that the next run needs is on the disk. Settles the rows
 * that may have been added: those that cannot be repeated with their idempotency keys are compared with the inventory.
 * Then sends all rows that were certainly not added. Returns an error if `createStopRule` has ended the run early.
 *
 * @throws ClientError and CliError as `sendRows` and `compareWithInventory`
 */
export async function carryOut(run: Run): Promise<CliError | undefined> {
  const { plan, file, client, clock } = run;
  const { ledger } = plan;
  await file.append({ ...plan.its, at: nextTime(ledger, clock.now()), finishedAt: null });
  // Check the API key, and find out whether the service supports idempotency keys.
  const first = await client.call('listPets', { query: { limit: 1 } });
  const pending = pendingOf(plan);
  const isOpen = (position: number) => openAt(plan, position) !== undefined;
  const open = pending.filter(isOpen);
  const mayRepeat = (position: number) => !whyNotRepeatable(openAt(plan, position) as SentRow, run);
  const repeated = new Set(open.filter(mayRepeat));
  const compared = open.filter((position) => !repeated.has(position));
  // After this, a row that was not added is not in the ledger. The others stay unknown.
  if (compared.length > 0) await compareWithInventory(compared, run);
  const positions = [...repeated, ...pending.filter((position) => !isOpen(position))];
  run.onSending(positions.length);
  const stop = await sendRows(run, positions, scarcestLimit(first.headers, clock.now()));
  if (!stop) await finish(plan, file.append, clock.now());
  return stop;
}

/**
 * Records that every row of the import has a result. Other imports with rows of this file are remembered for another 30
 * days, so that a file that is imported every night is never added again. One that did not finish is over if this file
 * replaced its file, or has all rows that it has sent. @throws CliError if the ledger cannot be written
 */
export async function finish(
  { ledger, its, known, repeated }: Plan,
  append: LedgerFile['append'],
  now: number,
): Promise<void> {
  const at = nextTime(ledger, now);
  const found = new Set([...known.values(), ...repeated.values()].map(({ seq }) => seq));
  const [used, partial] = [new Set([its.seq]), new Set<number>()];
  for (const row of ledger.rows.values()) (found.has(row.seq) ? used : partial).add(row.import);
  const isBegun = ledger.imports.has(its.seq);
  const isReplaced = ({ seq, file }: Import) =>
    isBegun && (!partial.has(seq) || (file !== undefined && file === its.file));
  const events = [...ledger.imports.values()]
    .filter(({ seq }) => used.has(seq))
    .map((each) => {
      const isOver = each.seq === its.seq || each.finishedAt !== null || isReplaced(each);
      return isOver ? { ...each, finishedAt: at } : { ...each, at };
    });
  if (events.length > 0) await append(...events);
}

/** Only these statuses concern a single row. Any other failure would also affect the next rows. */
const ROW_STATUSES: readonly number[] = [400, 409, 413, 415, 422];
/** If this many rows at the start of a run are rejected with the same error, the others probably have the same problem. */
const SAME_REJECTIONS = 20;
/** If no response shows the outcome of this many successive rows, the service or the network probably has a problem. */
const LOST_IN_A_ROW = 5;
const MAX_IN_FLIGHT = 16;

/** `lost` means that no response shows the outcome. `text` is the error of a rejected or lost row. */
type RowResult = { kind: 'added' | 'rejected' | 'lost' | 'other'; text?: string; headers?: HttpHeaders };

/**
 * Sends rows in this order, several at once if that is safe. After a failure that does not concern a single row, sends no
 * more rows, and waits for those in flight. Returns an error if `createStopRule` has ended the run before its last row.
 *
 * @throws ClientError if a failure does not concern a single row, and CliError if the ledger cannot be written
 */
async function sendRows(
  run: Run,
  positions: readonly number[],
  reported: RateLimit | undefined,
): Promise<CliError | undefined> {
  const { client, clock, onResult } = run;
  const inFlight = new Set<Promise<void>>();
  const failures: unknown[] = [];
  const whyStop = createStopRule();
  let rateLimit = reported;
  let [hasAdded, wasRefused, next] = [false, false, 0];
  let stop: CliError | undefined;

  async function send(position: number): Promise<void> {
    const onRefused = () => {
      wasRefused = true;
    };
    try {
      const { headers = {}, ...result } = await sendRow(run, position, onRefused);
      rateLimit = scarcestLimit(headers, clock.now()) ?? rateLimit;
      hasAdded ||= result.kind === 'added';
      stop ??= whyStop(result);
      onResult();
    } catch (error) {
      failures.push(error);
    }
  }
  /**
   * Sends rows one by one without idempotency keys, because after a crash every row in flight stays unknown; if parallel
   * requests could get a 429 that single ones would not get; and until a row is added, because the first one often fails
   * for a reason that concerns all rows. Otherwise leaves half of the remaining requests to retries and other processes.
   */
  const maxInFlight = () => {
    if (!client.supportsIdempotency() || rateLimit === undefined || wasRefused || !hasAdded) return 1;
    return Math.max(1, Math.min(MAX_IN_FLIGHT, Math.floor(rateLimit.remaining / 2)));
  };
  const mayStart = () =>
    next < positions.length && failures.length === 0 && !stop && inFlight.size < maxInFlight();

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

/**
 * Returns a function that gets each result, and returns an error if the run must stop. Until a row is added, only one
 * is in flight, so the first results arrive in the order of the rows.
 */
export function createStopRule(): (result: RowResult) => CliError | undefined {
  let [results, same, lost] = [0, 0, 0];
  let first: string | undefined;
  return ({ kind, text = '' }) => {
    results++;
    first ??= text;
    if (kind === 'rejected' && text === first) same++;
    lost = kind === 'lost' ? lost + 1 : 0;
    if (same === SAME_REJECTIONS && results === same)
      return new CliError(
        `stopped, because the first ${same} rows were rejected with the same error: ${text}`,
        { code: 'some_failed', hint: 'fix the problem and run the command again' },
      );
    if (lost < LOST_IN_A_ROW) return undefined;
    return new CliError(
      `stopped, because the outcome of the last ${lost} rows is unknown (${text}); they may have been added`,
      {
        code: 'outcome_unknown',
        mayHaveBeenAdded: true,
        hint: 'when the service works again, run the command again: it finds out where possible whether these rows were added, and sends the others',
      },
    );
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
async function sendRow(run: Run, position: number, onRefused: () => void): Promise<RowResult> {
  const { plan, client, apiKey, clock } = run;
  const { append } = run.file;
  const { ledger, its } = plan;
  const { pet, line } = plan.rows[position] as PetRow;
  /** The row of an earlier attempt, after which it may have been added. */
  const open = openAt(plan, position);
  const now = () => new Date(clock.now()).toISOString();
  const fresh = { seq: ledger.seq + 1, import: its.seq, line, hash: animalHash(pet) };
  const row = open ? { seq: open.seq, import: open.import, line: open.line, hash: open.hash } : fresh;
  const idempotencyKey = open?.idempotencyKey ?? randomUUID();
  ledger.seq = Math.max(ledger.seq, row.seq);
  plan.seqs[position] = row.seq;
  // Does not wait for the disk. The ledger writes this event before those of later attempts, so the number of rows with
  // an unknown outcome stays limited. `sendRows` waits for the last event and reports an error.
  const write = (outcome: LedgerEvent) => void append(outcome).catch(() => {});
  const leaveOpen = (outcome: Pick<SentRow, 'message' | 'isAnswered'> = {}) => {
    const current = openAt(plan, position);
    if (current) write({ ...current, endedAt: now(), ...outcome });
  };
  if (open) {
    const why = whyNotRepeatable(open, run);
    // The answer may have changed while the run was waiting, for example because 23 hours have passed.
    if (why !== undefined) {
      leaveOpen({ message: `sent at ${open.at} without a response; not sent again because ${why}` });
      return { kind: 'other' };
    }
  }
  const sendLog = {
    async intent() {
      const current = openAt(plan, position);
      // An earlier attempt is on the disk already.
      if (current && current.endedAt === undefined) return;
      // The clock may have been set back since the latest event. With that event's time, which is in the future, the key
      // would seem valid for longer than the 24 hours for which the service keeps it.
      const at = open?.at ?? now();
      await append({ kind: 'sent', ...row, name: pet.name, idempotencyKey, at, apiKeyHash: hashKey(apiKey) });
    },
    async notSent(status?: number) {
      // A rejection of the row is recorded as its outcome, and says nothing about other rows.
      if (status !== undefined && ROW_STATUSES.includes(status)) return;
      onRefused();
      if (!open) await append({ kind: 'notAdded', seq: row.seq });
    },
  };
  try {
    const { value, headers } = await client.call('createPet', { body: pet }, { idempotencyKey, sendLog });
    write({ kind: 'added', ...row, pet: value as ReceivedPet });
    return { kind: 'added', headers };
  } catch (error) {
    const isAmbiguous = error instanceof OutcomeUnknownError;
    const cause = isAmbiguous ? error.cause : error;
    const message = cause instanceof Error ? cause.message : String(cause);
    const redact = createRedactor(apiKey);
    const reason = redact(message);
    if (isAmbiguous && hasSuccessStatus(cause)) {
      const text = `the service responded, but not with the animal: ${reason}`;
      leaveOpen({ message: text, isAnswered: true });
      return { kind: 'lost', text };
    }
    if (cause instanceof ApiFailure && ROW_STATUSES.includes(cause.status)) {
      if (open || isAmbiguous) {
        const text = `rejected after an earlier response was lost (${reason}); the animal may have been added`;
        leaveOpen({ message: text });
        return { kind: 'other' };
      }
      const { status, code } = cause;
      write({ kind: 'notAdded', seq: row.seq });
      plan.rejected.set(position, { code: redact(code), message: reason, status });
      return { kind: 'rejected', text: `${reason} (HTTP status ${status})` };
    }
    if (!isAmbiguous) throw error;
    // With idempotency keys, the next run can send the row again. After Ctrl-C, the next run decides whether that is safe.
    if (error.supportsIdempotency || cause instanceof InterruptedError) {
      leaveOpen();
      throw error;
    }
    leaveOpen({ message: `outcome unknown: ${reason}` });
    return { kind: 'lost', text: reason };
  }
}

/*
 * Rows that may have been added. If it is safe, the request is repeated with the same idempotency key. Otherwise the row is
 * compared with all animals of the service. If one of them may be the row's, or the list may be incomplete, the row stays
 * unknown and is not sent. If not, it is sent.
 *
 * An animal may be the row's although it differs, because the service may change how a name is written, may not send the
 * category, or may have sold the animal since. Animals that the ledger has for other rows do not count.
 */

/** Why a request whose outcome is open must not be repeated; undefined if it may be repeated. */
function whyNotRepeatable({ at, apiKeyHash }: SentRow, run: Run): string | undefined {
  const now = run.clock.now();
  if (!run.client.supportsIdempotency()) return 'the service may not support idempotency keys';
  if (apiKeyHash !== hashKey(run.apiKey)) return 'it was sent with another API key';
  if (now < Date.parse(run.plan.ledger.at)) return 'the clock has been set back since then';
  if (now - Date.parse(at) > IDEMPOTENT_RETRY_MS) return 'it was sent more than 23 hours ago';
  return undefined;
}

const MAX_CANDIDATES = 20;

/**
 * Compares open rows with all animals of the service, and records what that shows. If the list may be incomplete, all
 * rows stay unknown.
 *
 * @throws ClientError if the animals cannot be listed, and CliError if the ledger cannot be written
 */
async function compareWithInventory(positions: readonly number[], run: Run): Promise<void> {
  const { plan, file, client, clock, timeout, notice } = run;
  const rows = positions.map((position) => {
    return { pet: plan.rows[position]?.pet as NewPet, open: openAt(plan, position) as SentRow };
  });
  const count = formatCount(rows.length, 'row');
  notice(`searching the inventory for ${count} that may have been added`);
  // Until `timeout` has passed after a request, the service may still add the animal. If a run was killed, it is not known
  // when its last request ended. If the clock was set back since then, `endedAt` is in the future.
  const waits = rows.map(({ open: { endedAt } }) =>
    endedAt === undefined ? timeout : Math.min(timeout, Date.parse(endedAt) + timeout - clock.now()),
  );
  const wait = waits.reduce((a, b) => Math.max(a, b), 0);
  if (wait > 0) await run.wait(wait);

  /** The animals that the ledger has for other rows, by their ids. */
  const accounted = new Map<string, ReceivedPet>();
  for (const row of plan.ledger.rows.values())
    if (row.kind === 'added') accounted.set(idKey(row.pet), row.pet);
  const unlisted = new Set(accounted.keys());
  /** The other animals that have the name of a row. */
  const similar = new Map(rows.map(({ pet }): [string, ReceivedPet[]] => [nameKey(pet), []]));
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
  const everything = { enough: Number.POSITIVE_INFINITY, onResults, showStatus: run.showStatus };
  const { pages, animals, more } = await readPages(client, {}, everything);
  const [missing] = unlisted;
  let whyIncomplete: string | undefined;
  // Without a link to more animals, some may be missing. A service that sends more than a full page at once probably
  // sends all animals. If the ledger has animals, a complete list has all of them.
  const isAtOnce = pages === 1 && animals > pageSize.max;
  if (more === 'unknown' && !isAtOnce) whyIncomplete = 'the service sends no link to a next page';
  else if (missing !== undefined)
    whyIncomplete = `animal ${missing}, which was added, is missing or has changed`;
  else if (accounted.size === 0 && !(await respectsLimit(client, animals)))
    whyIncomplete = 'the service ignores how many animals per page pets asks for';

  let notAdded = 0;
  const events = rows.map(({ pet, open }): LedgerEvent => {
    if (whyIncomplete !== undefined) {
      const unsettled = `sent at ${open.at} without a response that shows whether the animal was added`;
      return { endedAt: open.at, message: unsettled, ...open };
    }
    const found = (similar.get(nameKey(pet)) ?? []).filter((each) => isSimilar(pet, each));
    if (found.length === 0) {
      notAdded++;
      return { kind: 'notAdded', seq: open.seq };
    }
    const candidates = found.slice(0, MAX_CANDIDATES).map(({ id }) => id);
    const message = `may have been added as ${found.length === 1 ? 'animal' : 'one of the animals'} ${candidates.join(', ')}`;
    return { endedAt: open.at, ...open, message, candidates };
  });
  await file.append(...events);
  const result = `${notAdded} not added, ${rows.length - notAdded} may have been added`;
  notice(
    whyIncomplete === undefined
      ? `compared ${count} with ${formatCount(animals, 'animal')}: ${result}`
      : `the outcome of ${count} stays unknown, because the list of animals may be incomplete: ${whyIncomplete}`,
  );
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
