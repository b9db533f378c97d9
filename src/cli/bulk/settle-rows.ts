import { pageSize } from '../../contract/operations.ts';
import { withClient } from '../connection/connect.ts';
import { createWaitReporter } from '../connection/reporting.ts';
import { formatCount } from '../output/format-count.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import type { HighestId } from './highest-id.ts';
import { listInventory } from './inventory.ts';
import type { LedgerEntry } from './ledger.ts';
import { readAdded } from './ledger-directory.ts';
import type { BulkRun, RunOptions } from './open-run.ts';
import { classify, type PlannedRow } from './plan.ts';
import { idKey, idsAscend, settle, type Verdict } from './settle.ts';

/** The service that a run uses, and the context of the command. */
export type Target = { connection: Connection; context: CommandContext };

/**
 * Compares the unknown rows of a run with all animals of the service, and records the results in the ledger. A row that
 * was certainly not added becomes a row that was never sent.
 *
 * @returns the highest id of all animals; undefined if there is no complete list
 * @throws CallError if the animals cannot be listed, and CliError if the ledger cannot be written
 */
export async function settleRows(
  { plan: { rows }, file }: BulkRun,
  options: RunOptions,
  { connection, context }: Target,
): Promise<HighestId | undefined> {
  const { console, clock } = context;
  const open = rows.filter(({ entry }) => entry?.kind === 'unknown' || entry?.kind === 'intent');
  if (open.length === 0) return undefined;
  return withClient(context, connection, async (client, signal) => {
    // Find out whether the service supports idempotency keys, because rows without a recorded outcome can then be sent
    // again.
    if (open.some(({ entry }) => entry?.kind === 'intent'))
      await client.call('listPets', { query: { limit: 1 } });
    const circumstances = { ...options, supportsIdempotency: client.supportsIdempotency() };
    const unknown = open.filter(({ entry }) => classify(entry, circumstances) === 'unknown');
    if (unknown.length === 0) return undefined;

    const compared = formatCount(unknown.length, 'row');
    console.notice(`comparing ${compared} with the inventory; listing all animals takes ${costText(rows)}`);
    await waitForOpenRequests(unknown, context, signal);
    const { pets, count, highestId, whyIncomplete } = await listInventory(client, rows, unknown);
    if (whyIncomplete !== undefined) {
      console.notice(`no row was settled, because the list of animals may be incomplete: ${whyIncomplete}`);
      return undefined;
    }
    const added = await readAdded(options, connection.baseUrl);
    const knownIds = new Set(added.map(({ pet }) => idKey(pet)));
    const verdicts = settle(unknown, pets, { knownIds, ascending: idsAscend(added) });
    const at = new Date(clock.now()).toISOString();
    const records = [...verdicts].map(async ([row, verdict]) => {
      const entry = entryOf(row, verdict, at);
      await file.append(entry);
      row.entry = entry;
    });
    await Promise.all(records);
    const result = countText([...verdicts.values()]);
    console.notice(`compared ${compared} with ${formatCount(count, 'animal')}: ${result}`);
    return highestId;
  });
}

/** The number of requests for a list of all animals, estimated from the highest added id if ids are ascending. */
export function costText(rows: readonly PlannedRow[]): string {
  const entries = rows.flatMap(({ entry }) => (entry?.kind === 'added' ? [entry] : []));
  const ids = entries.map(({ pet }) => Number(pet.id));
  if (!idsAscend(entries)) return `one request per ${pageSize.max} animals`;
  const highest = ids.reduce((a, b) => Math.max(a, b), 0);
  return `about ${formatCount(Math.ceil(highest / pageSize.max), 'request')}`;
}

/**
 * How long to wait before a list can show that rows were not added, in milliseconds. Until `timeout` has passed after
 * the request, the service may still add the animal. `now` and `timeout` are in milliseconds.
 */
export function waitBeforeListing(
  rows: readonly PlannedRow[],
  { now, timeout }: { now: number; timeout: number },
): number {
  const waits = rows.map(({ entry }) => {
    // A repeated request keeps the record of its first attempt, so the time of its last attempt is not known.
    if (entry?.kind !== 'unknown') return timeout;
    // Limit the wait, because `at` may be in the future if the clock was set back since then.
    return Math.min(timeout, Date.parse(entry.at) + timeout - now);
  });
  return waits.reduce((a, b) => Math.max(a, b), 0);
}

/** Waits until the service can no longer add an animal for an earlier request of a row. */
async function waitForOpenRequests(
  rows: readonly PlannedRow[],
  context: CommandContext,
  signal: AbortSignal,
): Promise<void> {
  const { console, clock, globals } = context;
  const wait = waitBeforeListing(rows, { now: clock.now(), timeout: globals.timeout * 1_000 });
  if (wait === 0) return;
  const reporter = createWaitReporter(context, console.status);
  reporter.onWait({ reason: 'earlier requests', milliseconds: wait, until: clock.now() + wait });
  await reporter.sleep(wait, signal);
}

/** The record for the result of a comparison. An unknown row keeps the time at which it became unknown. */
function entryOf({ hash, n, line, entry }: PlannedRow, verdict: Verdict, at: string): LedgerEntry {
  const { failures, idempotencyKey, highestId } = entry ?? {};
  // The row is sent with the derived key, so a key that an earlier version stored is not kept.
  if (verdict.result === 'notAdded') return { kind: 'notSent', hash, n, line, at, failures };
  const base = { hash, n, line, at, failures, idempotencyKey };
  if (verdict.result === 'added') return { kind: 'added', ...base, highestId, pet: verdict.pet };
  const candidates = verdict.candidates.map(({ id }) => id);
  return {
    kind: 'unknown',
    ...base,
    at: entry?.kind === 'unknown' ? entry.at : at,
    highestId,
    message: `may be ${candidates.length === 1 ? 'animal' : 'one of the animals'} ${candidates.join(', ')}`,
    candidates,
  };
}

const RESULT_TEXTS: Record<Verdict['result'], string> = {
  added: 'added',
  notAdded: 'not added',
  unknown: 'may have been added',
};

/** How many rows got each result, for example `1 added, 2 may have been added`. */
function countText(verdicts: readonly Verdict[]): string {
  const texts = Object.entries(RESULT_TEXTS).map(([result, text]) => {
    const count = verdicts.filter((verdict) => verdict.result === result).length;
    return count > 0 && `${count} ${text}`;
  });
  return texts.filter(Boolean).join(', ');
}
