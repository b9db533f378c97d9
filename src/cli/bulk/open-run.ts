import { errnoOf } from '../../system/file-system.ts';
import { LockError } from '../../system/lock/directory-lock.ts';
import { CliError, fileError } from '../core/errors.ts';
import type { PetFile } from '../rows/read-file.ts';
import { LEDGER_VERSION, type Ledger, type LedgerEntry, type LedgerHeader, latestTime } from './ledger.ts';
import {
  createLocks,
  idOf,
  type LedgerPlace,
  ledgerDirectory,
  loadLedger,
  pruneLedgers,
  resolvePointer,
  writePointer,
} from './ledger-directory.ts';
import { type LedgerFile, openLedger, replaceLedger } from './ledger-file.ts';
import { migrateOldFormat } from './migrate.ts';
import { countSent, type Plan, plan } from './plan.ts';
import { refusalOf } from './refusal.ts';

export type RunOptions = LedgerPlace & {
  baseUrl: string;
  apiKeyHash: string;
  /** Ignores earlier runs: adds every row, with new idempotency keys. */
  addAgain: boolean;
  /** Adds only those rows of a changed file that were not added before. */
  skipAdded: boolean;
  /** The command line of this run with `--skip-added`, for hints. */
  skipCommand: string;
  /** The time zone of times in messages. */
  timeZone(): string;
  random(bytes: number): Buffer;
};

export type Outlook = {
  plan: Plan;
  /** The ledger of earlier runs; undefined if there was no run, or if `--add-again` ignores it. */
  known: Ledger | undefined;
  /** How many of the rows earlier runs may have added, even if `--add-again` ignores these runs. */
  sent: number;
};

/** An open run. It holds the locks of its directories until `close`. */
export type BulkRun = Outlook & {
  file: LedgerFile;
  /** Entries whose rows were in the file during the previous run, but are not now. */
  newlyGone: LedgerEntry[];
  close(): Promise<void>;
};

/**
 * Plans a run without locking its ledgers. Migrates the files of version 0.1 first, which locks and writes.
 *
 * @throws CliError if the run would be refused, or the migration fails
 */
export async function previewRun(input: PetFile, options: RunOptions): Promise<Outlook> {
  try {
    await migrateOldFormat(options);
    return await planRun(input, options, async () => {});
  } catch (error) {
    throw describePlaceError(options.directory, error);
  }
}

/**
 * Opens the ledger of an input for a run. When the promise resolves, everything that a rerun needs after a crash is on
 * the disk.
 *
 * @throws CliError if the run is refused, another process is adding the input, or a file is damaged or not writable
 */
export async function openRun(input: PetFile, options: RunOptions): Promise<BulkRun> {
  const locks = createLocks(options, input.name);
  try {
    await migrateOldFormat(options);
    await pruneLedgers(options);
    const { id, ids, before, ...outlook } = await planRun(input, options, locks.acquire);
    const { rows, gone } = outlook.plan;
    const newlyGone = gone.filter(({ goneSince }) => goneSince === undefined);
    const present = new Date(options.now).toISOString();
    const latest = before ? latestTime(before) : present;
    const earliest = latest > present ? latest : present;
    for (const entry of newlyGone) entry.goneSince = earliest;
    for (const { entry } of rows) if (entry) entry.goneSince = undefined;
    const directory = ledgerDirectory(options, id);
    const header = headerOf(input, options, before?.header, outlook.known?.header);
    const entries = outlook.known?.entries ?? new Map();
    await replaceLedger(options.files, directory, { header, entries, finishedAt: undefined });
    for (const each of ids) await writePointer(options, each, id);
    const file = await openLedger(options.files, directory, header, earliest);
    return { ...outlook, file, newlyGone, close: () => file.close().finally(locks.release) };
  } catch (error) {
    await locks.release();
    throw describePlaceError(options.directory, error);
  }
}

type RunPlan = Outlook & {
  /** The ids for the content and for the path of the input. `openRun` makes both point to the ledger with the id `id`. */
  ids: Set<string>;
  id: string;
  /** The ledger with the id `id`; undefined if there is none, or if it cannot be read and `--add-again` ignores it. */
  before: Ledger | undefined;
};

/** Finds the ledger by the path or else the content of an input. Plans a run. @throws CliError if the run is refused */
async function planRun(
  input: PetFile,
  options: RunOptions,
  lock: (directory: string) => Promise<void>,
): Promise<RunPlan> {
  const { baseUrl, addAgain } = options;
  // With --add-again, ignore damaged files, because earlier runs do not matter.
  const unlessAddAgain = (error: unknown): undefined => {
    if (!addAgain) throw error;
  };
  const load = async (id: string): Promise<Ledger | undefined> => {
    await lock(ledgerDirectory(options, id));
    return loadLedger(options, id).catch(unlessAddAgain);
  };
  const contentId = idOf(baseUrl, input.sha256);
  const ownId = idOf(baseUrl, input.path ?? input.sha256);
  const ids = new Set([contentId, ownId]);
  for (const each of ids) await lock(ledgerDirectory(options, each));
  let id = (await resolvePointer(options, ownId).catch(unlessAddAgain)) ?? ownId;
  let before = await load(id);
  const otherId = (await resolvePointer(options, contentId).catch(unlessAddAgain)) ?? id;
  let other = otherId === id ? undefined : await load(otherId);
  if (!before && other) [id, before, other] = [otherId, other, undefined];
  // Assume that the service supports idempotency keys. `sendRows` finds out, and checks each ambiguous row again.
  const circumstances = { ...options, supportsIdempotency: true };
  const planned = plan(input.rows, before?.entries.values() ?? [], circumstances);
  const found = { ids, id, before, sent: countSent(planned) };
  if (addAgain) return { ...found, plan: plan(input.rows, [], circumstances), known: undefined };
  const refusal = refusalOf({ ...input, ...options }, planned, before, other);
  if (refusal) throw refusal;
  return { ...found, plan: planned, known: before };
}

/** The header for a run. `before` is the old header. `known` is the same header, or undefined with `--add-again`. */
function headerOf(
  { name, path, sha256, rows }: PetFile,
  { baseUrl, now, random, addAgain }: RunOptions,
  before: LedgerHeader | undefined,
  known: LedgerHeader | undefined,
): LedgerHeader {
  return {
    kind: 'ledger',
    version: LEDGER_VERSION,
    baseUrl,
    source: path ?? name,
    nonce: before?.nonce ?? random(16).toString('hex'),
    epoch: (before?.epoch ?? 0) + (addAgain ? 1 : 0),
    sha256,
    rows: rows.length,
    startedAt: known?.sha256 === sha256 ? known.startedAt : new Date(now).toISOString(),
  };
}

/** Converts an error of the file system or the lock to a CliError with a hint. Returns any other error unchanged. */
function describePlaceError(directory: string, error: unknown): unknown {
  if (error instanceof CliError) return error;
  const fix = errnoOf(error) === 'ENOSPC' ? 'free some disk space' : 'make the directory writable';
  // A new state directory has no ledgers, so the rows of earlier runs would be added again.
  const hint = `${fix}; or, if no row of this input was added yet, set PETS_STATE_DIR to a writable directory on a local disk`;
  if (error instanceof LockError)
    return new CliError(error.message, { code: 'file_error', hint, cause: error });
  return errnoOf(error) === undefined ? error : fileError('write', directory, error, hint);
}
