import { hash, randomUUID } from 'node:crypto';
import { IDEMPOTENT_RETRY_MS } from '../../client/call.ts';
import { type Client, nameKey } from '../../client/client.ts';
import { ApiFailure, hasSuccessStatus, OutcomeUnknownError, RateLimitError } from '../../client/errors.ts';
import { type RateLimit, scarcestLimit } from '../../client/rate-limit.ts';
import type { HttpHeaders } from '../../client/response.ts';
import { pageSize } from '../../contract/api.ts';
import type { NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { InterruptedError, type SteadyClock } from '../../system/clock.ts';
import { type ReadingOptions, readPages } from '../animals/selection.ts';
import { listOne } from '../connection/connect.ts';
import { createRedactor, formatCount } from '../output/text.ts';
import type { PetRow } from '../rows/read-file.ts';
import {
  animalHash,
  type Import,
  type LedgerEvent,
  type LedgerFile,
  nextTime,
  type SentRow,
} from './ledger.ts';
import { openRowAt, type Plan, pendingOf } from './plan.ts';

/** A plan, and what is needed to carry it out. */
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
  /** Waits this long, because the service may still receive requests of an earlier run. */
  wait(milliseconds: number): Promise<void>;
  /** Called for each row when it was added or rejected, or when the run stops trying because the outcome stays unknown. */
  onResult(): void;
};

/**
 * Carries out a plan. Records its beginning first, so that the next run can continue. Compares with the inventory the rows
 * that may have been added and cannot be repeated. Then sends the rows that can be repeated with their idempotency keys,
 * and all rows that were certainly not added.
 *
 * @throws the errors of `sendRows` and `compareWithInventory`
 */
export async function carryOut(run: Run): Promise<void> {
  const { plan, file, client, clock } = run;
  const { ledger } = plan;
  await file.append({ ...plan.current, at: nextTime(ledger, clock.now()), finishedAt: null });
  // Check the API key, and find out whether the service supports idempotency keys.
  const first = await listOne(client);
  const pending = pendingOf(plan);
  const isOpen = (position: number) => openRowAt(plan, position) !== undefined;
  const open = pending.filter(isOpen);
  const mayRepeat = (position: number) => !whyNotRepeatable(openRowAt(plan, position) as SentRow, run);
  const repeated = new Set(open.filter(mayRepeat));
  const compared = open.filter((position) => !repeated.has(position));
  // `compareWithInventory` drops the rows that were not added from the ledger, so they are sent below.
  if (compared.length > 0) await compareWithInventory(compared, run);
  for (const _ of compared.filter(isOpen)) run.onResult();
  const positions = [...repeated, ...pending.filter((position) => !isOpen(position))];
  await sendRows(run, positions, scarcestLimit(first.headers, clock.now()));
  await finishImport(plan, file.append, clock.now());
}

/**
 * Records that the import has ended. Other imports with rows of this file are remembered for another 30 days, so that a row
 * stays known if it is imported every night. If this import has begun, the unfinished ones among those imports end too if
 * their file had the same path, or if the ledger has no other rows of them. @throws CliError if the ledger cannot be written
 */
export async function finishImport(
  { ledger, current, known, repeated }: Plan,
  append: LedgerFile['append'],
  now: number,
): Promise<void> {
  const at = nextTime(ledger, now);
  const seqs = new Set([...known.values(), ...repeated.values()].map(({ seq }) => seq));
  const [used, partial] = [new Set([current.seq]), new Set<number>()];
  for (const row of ledger.rows.values()) (seqs.has(row.seq) ? used : partial).add(row.import);
  const isBegun = ledger.imports.has(current.seq);
  const isReplaced = ({ seq, file }: Import) =>
    isBegun && (!partial.has(seq) || (file !== undefined && file === current.file));
  const events = [...ledger.imports.values()]
    .filter(({ seq }) => used.has(seq))
    .map((event) => {
      const isOver = event.seq === current.seq || event.finishedAt !== null || isReplaced(event);
      return isOver ? { ...event, finishedAt: at } : { ...event, at };
    });
  if (events.length > 0) await append(...events);
}

/** Only these statuses concern a single row. Any other failure would also affect the next rows. */
const isRowStatus = (status: number | undefined): boolean =>
  status !== undefined && [400, 409, 413, 415, 422].includes(status);

/** If no response shows the outcome of this many successive rows, the service or the network probably has a problem. */
const LOST_IN_A_ROW = 5;
const MAX_IN_FLIGHT = 16;

/**
 * Sends rows in this order, several at once if that is safe. After a failure that does not concern a single row, sends no
 * more rows, and waits for those in flight. `reported` is the rate limit in the latest response.
 *
 * @throws ClientError for such a failure, InterruptedError, or CliError if the ledger cannot be written
 */
async function sendRows(
  run: Run,
  positions: readonly number[],
  reported: RateLimit | undefined,
): Promise<void> {
  const { client, clock, onResult } = run;
  const inFlight = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let rateLimit = reported;
  let wasRefused = false;
  let [next, lost] = [0, 0];

  async function send(position: number): Promise<void> {
    const onRefused = () => {
      wasRefused = true;
    };
    try {
      const result = await sendRow(run, position, onRefused);
      rateLimit = scarcestLimit(result.headers ?? {}, clock.now()) ?? rateLimit;
      lost = result.lost ? lost + 1 : 0;
      if (lost === LOST_IN_A_ROW) failures.push(result.lost);
      onResult();
    } catch (error) {
      failures.push(error);
    }
  }
  /**
   * One if the service does not support idempotency keys, because a crash leaves the outcome of each row in flight unknown.
   * One also if the rate limit is not known, or if a refusal concerned more than one row, such as a 429: parallel requests
   * could get a 429 that single ones would not. Otherwise half of the remaining requests, because retries need some too.
   */
  const maxInFlight = () => {
    if (!client.supportsIdempotency() || rateLimit === undefined || wasRefused) return 1;
    return Math.max(1, Math.min(MAX_IN_FLIGHT, Math.floor(rateLimit.remaining / 2)));
  };
  const mayStart = () => next < positions.length && failures.length === 0 && inFlight.size < maxInFlight();

  while (next < positions.length && failures.length === 0) {
    while (mayStart()) {
      const sending = send(positions[next++] ?? 0).finally(() => inFlight.delete(sending));
      inFlight.add(sending);
    }
    await Promise.race(inFlight);
  }
  await Promise.all(inFlight);
  await run.file.flush();
  // The most important failure is one after which a row may have been added.
  if (failures.length > 0)
    throw failures.find((error) => error instanceof OutcomeUnknownError) ?? failures[0];
}

/** `headers` are set if the animal was added, `lost` if no response shows that. Neither if the row was rejected or not sent. */
type RowResult = { headers?: HttpHeaders; lost?: OutcomeUnknownError };

/**
 * Sends one row, and records the attempt and its outcome in the ledger.
 *
 * @throws ClientError if a failure would also affect other rows, InterruptedError, or CliError if the ledger cannot be written
 */
async function sendRow(run: Run, position: number, onRefused: () => void): Promise<RowResult> {
  const { plan, client, apiKey, clock } = run;
  const { append } = run.file;
  const { ledger, current } = plan;
  const { pet, line } = plan.rows[position] as PetRow;
  const open = openRowAt(plan, position);
  const fresh = { seq: ledger.seq + 1, import: current.seq, line, hash: animalHash(pet) };
  const row = open ? { seq: open.seq, import: open.import, line: open.line, hash: open.hash } : fresh;
  const idempotencyKey = open?.idempotencyKey ?? randomUUID();
  ledger.seq = Math.max(ledger.seq, row.seq);
  plan.seqs[position] = row.seq;
  // Does not wait for the disk. The ledger writes this event before those of later attempts, so after a crash only a few
  // rows have an unknown outcome. `sendRows` waits for the last event, and throws an error of the disk.
  const write = (outcome: LedgerEvent) => void append(outcome).catch(() => {});
  const leaveOpen = (outcome: Pick<SentRow, 'message' | 'isAnswered'>) =>
    write({ ...(openRowAt(plan, position) as SentRow), ...outcome });
  // `carryOut` checked this too, but the 23 hours may have passed while the run was waiting.
  const why = open && whyNotRepeatable(open, run);
  if (why !== undefined) {
    leaveOpen({ message: `sent at ${open?.at}; not sent again because ${why}` });
    return {};
  }
  const sendLog = {
    async intent() {
      // The event of an earlier attempt is on the disk already.
      if (openRowAt(plan, position)) return;
      const at = new Date(clock.now()).toISOString();
      const sent = { ...row, name: pet.name, idempotencyKey, at, apiKeyHash: hashOf(apiKey) };
      await append({ kind: 'sent', ...sent });
    },
    async notApplied(status?: number) {
      // A rejection of the row is recorded as its outcome, and says nothing about other rows.
      if (isRowStatus(status)) return;
      onRefused();
      if (!open) await append({ kind: 'notAdded', seq: row.seq });
    },
  };
  try {
    const { value, headers } = await client.call('createPet', { body: pet }, { idempotencyKey, sendLog });
    write({ kind: 'added', ...row, pet: value as ReceivedPet });
    return { headers };
  } catch (error) {
    const isAmbiguous = error instanceof OutcomeUnknownError;
    const cause = isAmbiguous ? error.cause : error;
    const redact = createRedactor(apiKey);
    const reason = redact(cause instanceof Error ? cause.message : String(cause));
    if (cause instanceof ApiFailure && isRowStatus(cause.status)) {
      if (open || isAmbiguous) {
        leaveOpen({ message: `rejected (${reason}), but an earlier attempt may have added the animal` });
      } else {
        const { status, code } = cause;
        write({ kind: 'notAdded', seq: row.seq });
        plan.rejected.set(position, { code: redact(code), message: reason, status });
      }
      return {};
    }
    if (!isAmbiguous) throw error;
    if (hasSuccessStatus(cause)) {
      const message = `the service responded, but not with the animal: ${reason}`;
      leaveOpen({ message, isAnswered: true });
    }
    // After a lost response, a 401 or a rate limit ends the run, and so does Ctrl-C.
    else if (cause instanceof InterruptedError) throw error;
    else if (cause instanceof RateLimitError || (cause instanceof ApiFailure && cause.status < 500))
      throw cause;
    else leaveOpen({ message: `outcome unknown: ${reason}` });
    return { lost: error };
  }
}

const hashOf = (apiKey: string): string => hash('sha256', apiKey);

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
  if (apiKeyHash !== hashOf(run.apiKey)) return 'it was sent with another API key';
  if (now < Date.parse(run.plan.ledger.at)) return 'the clock has been set back since then';
  if (now - Date.parse(at) > IDEMPOTENT_RETRY_MS) return 'it was sent more than 23 hours ago';
  return undefined;
}

const MAX_CANDIDATES = 20;

/**
 * Compares open rows with all animals of the service, and records what that shows. If the list may be incomplete, all
 * rows stay unknown.
 *
 * @throws ClientError if the animals cannot be listed, InterruptedError, or CliError if the ledger cannot be written
 */
async function compareWithInventory(positions: readonly number[], run: Run): Promise<void> {
  const { plan, file, client, notice } = run;
  const rows = positions.map((position) => {
    return { pet: plan.rows[position]?.pet as NewPet, open: openRowAt(plan, position) as SentRow };
  });
  const count = formatCount(rows.length, 'row');
  notice(`searching the inventory for ${count} that may have been added`);
  // The service may still receive the last request of a killed run. When it was sent is unknown, so wait for a whole timeout.
  await run.wait(run.timeout);

  /** The animals that the ledger has, by their ids. They were added for other rows. */
  const accounted = new Map<string, ReceivedPet>();
  for (const row of plan.ledger.rows.values())
    if (row.kind === 'added') accounted.set(idKey(row.pet), row.pet);
  const unlisted = new Set(accounted.keys());
  /** By the name of a row: the other listed animals with this name, by their ids, because an animal may be listed twice. */
  const similar = new Map(rows.map(({ pet }) => [nameKey(pet), new Map<string, ReceivedPet>()]));
  const onResults = (pets: readonly ReceivedPet[]) => {
    for (const pet of pets) {
      const id = idKey(pet);
      const recorded = accounted.get(id);
      if (recorded && isSimilar(recorded, pet)) unlisted.delete(id);
      if (!recorded) similar.get(nameKey(pet))?.set(id, pet);
    }
  };
  const everything = { enough: Number.POSITIVE_INFINITY, onResults, showStatus: run.showStatus };
  const reading = await readPages(client, {}, everything);
  const [missing] = unlisted;
  let whyIncomplete: string | undefined;
  // Without a link to more animals, some may be missing. A service that sends more than a full page at once probably
  // sends all animals. If the ledger has animals, a complete list has all of them.
  const isAtOnce = reading.pages === 1 && reading.animals > pageSize.max;
  if (reading.more === 'unknown' && !isAtOnce) whyIncomplete = 'the service sends no link to a next page';
  else if (missing !== undefined)
    whyIncomplete = `animal ${missing}, which was added, is missing or has changed`;
  else if (accounted.size === 0) {
    // A service that ignores `limit` may have left animals out, so it must send one animal for `limit=1`. If the list is
    // empty, a list without parameters must be empty too, because some services take an unknown parameter as a filter.
    const query = reading.animals === 0 ? {} : { limit: 1 };
    const { value } = await client.call('listPets', { query });
    if (value.length !== Math.min(reading.animals, 1))
      whyIncomplete = 'the service ignores how many animals per page pets asks for';
  }

  let notAdded = 0;
  const events = rows.map(({ pet, open }): LedgerEvent => {
    if (whyIncomplete !== undefined) {
      const unsettled = `sent at ${open.at} without a response that shows whether the animal was added`;
      return { message: unsettled, ...open, isCompared: true };
    }
    const found = [...(similar.get(nameKey(pet))?.values() ?? [])].filter((each) => isSimilar(pet, each));
    if (found.length === 0) {
      notAdded++;
      return { kind: 'notAdded', seq: open.seq };
    }
    const candidates = found.slice(0, MAX_CANDIDATES).map(({ id }) => id);
    const message = `may have been added as ${found.length === 1 ? 'animal' : 'one of the animals'} ${candidates.join(', ')}`;
    return { ...open, message, candidates, isCompared: true };
  });
  await file.append(...events);
  const result = `${notAdded} not added, ${rows.length - notAdded} may have been added`;
  notice(
    whyIncomplete === undefined
      ? `compared ${count} with ${formatCount(reading.animals, 'animal')}: ${result}`
      : `the outcome of ${count} stays unknown, because the list of animals may be incomplete: ${whyIncomplete}`,
  );
}

/** An id as a map key. A service may send the same id as a number in one response and as text in another one. */
const idKey = ({ id }: Pick<ReceivedPet, 'id'>): string => String(id);

/** Whether an animal may be the one that was added for a row. */
const isSimilar = (row: Pick<ReceivedPet, 'name' | 'categoryId'>, pet: ReceivedPet): boolean =>
  nameKey(pet) === nameKey(row) &&
  (typeof row.categoryId !== 'bigint' ||
    typeof pet.categoryId !== 'bigint' ||
    pet.categoryId === row.categoryId);
