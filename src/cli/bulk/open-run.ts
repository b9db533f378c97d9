import { errnoOf } from '../../system/file-system.ts';
import { LockError } from '../../system/lock/directory-lock.ts';
import { CliError, fileError } from '../errors/errors.ts';
import type { PetFile } from '../rows/read-pet-file.ts';
import { allEntries, LEDGER_VERSION, type Ledger, type LedgerEntry } from './ledger.ts';
import {
  contentDirectory,
  createLocks,
  idOf,
  type LedgerPlace,
  ledgerDirectory,
  loadLedger,
  pruneLedgers,
  readPointer,
  writePointer,
} from './ledger-directory.ts';
import { type LedgerFile, replaceLedger } from './ledger-file.ts';
import { migrateOldFormat } from './migrate.ts';
import { countSent, type InputRow, type Plan, plan } from './plan.ts';
import { refusalOf } from './refusal.ts';

export type BulkInput = Omit<PetFile, 'rows'> & { rows: InputRow[] };

export type RunOptions = LedgerPlace & {
  baseUrl: string;
  apiKeyHash: string;
  /** Ignores earlier runs: adds every row, with new idempotency keys. */
  restart: boolean;
  /** Adds the rows of a changed file that were not added before. */
  skipAdded: boolean;
  /** The command of this run, with `--skip-added`. */
  skipCommand: string;
  random(bytes: number): Buffer;
};

export type Outlook = {
  plan: Plan;
  /** What earlier runs did; undefined if there was none, or it is ignored. */
  known: Ledger | undefined;
  /** How many of the rows earlier runs sent, also if that is ignored. */
  sent: number;
};

/** A run that has the ledger to itself, until `close`. */
export type BulkRun = Outlook & {
  file: LedgerFile;
  /** Entries whose rows are no longer in the file, for the first time. */
  newlyGone: LedgerEntry[];
  close(): Promise<void>;
};

/** Plans a run; nothing is locked. @throws CliError if the run would be refused */
export async function previewRun(input: BulkInput, options: RunOptions): Promise<Outlook> {
  try {
    await migrateOldFormat(options);
    return decide(input, options, await find(input, options, async () => {}));
  } catch (error) {
    throw describePlaceError(options.directory, error);
  }
}

/**
 * Opens the ledger of an input for a run. Once done, everything is on the disk that a rerun must find after a crash.
 *
 * @throws CliError if another process adds the input, it has changed, or a file is damaged or cannot be written
 */
export async function openRun(input: BulkInput, options: RunOptions): Promise<BulkRun> {
  const { files, directory } = options;
  const locks = createLocks(options, input.name);
  try {
    await migrateOldFormat(options);
    await pruneLedgers(options);
    const found = await find(input, options, locks.acquire);
    const outlook = decide(input, options, found);
    const newlyGone = markGone(outlook, options.now);
    const ledger = beginRun(input, options, outlook.known, found.ledger);
    const file = await replaceLedger(files, ledgerDirectory(options, found.id), ledger);
    for (const pointer of found.pointers) await writePointer(files, pointer, found.id);
    return { ...outlook, file, newlyGone, close: () => file.close().finally(locks.release) };
  } catch (error) {
    await locks.release();
    throw describePlaceError(directory, error);
  }
}

type Found = {
  /** The id of the ledger to use. */
  id: string;
  ledger: Ledger | undefined;
  /** Another ledger that knows the same content. */
  other: Ledger | undefined;
  /** Directories that get a pointer to the ledger: that of the content, and that of a path without its own ledger. */
  pointers: string[];
};

/** Finds the ledger of an input by its path; if there is none, by its content. */
async function find(
  { path, sha256 }: BulkInput,
  options: RunOptions,
  lock: (directory: string) => Promise<void>,
): Promise<Found> {
  const { baseUrl, files, restart } = options;
  const content = contentDirectory(options, idOf(baseUrl, sha256));
  const ownId = idOf(baseUrl, path ?? sha256);
  const own = ledgerDirectory(options, ownId);
  await lock(content);
  await lock(own);
  // --restart replaces what is damaged.
  const unlessRestart = (error: unknown): undefined => {
    if (!restart) throw error;
  };
  const load = async (id: string): Promise<Ledger | undefined> => {
    await lock(ledgerDirectory(options, id));
    return loadLedger(options, id).catch(unlessRestart);
  };
  let id = (await readPointer(files, own).catch(unlessRestart)) ?? ownId;
  let ledger = await load(id);
  const otherId = (await readPointer(files, content).catch(unlessRestart)) ?? id;
  let other = otherId === id ? undefined : await load(otherId);
  if (!ledger && other) [id, ledger, other] = [otherId, other, undefined];
  return { id, ledger, other, pointers: id === ownId ? [content] : [content, own] };
}

/** @throws CliError if the run is refused */
function decide(input: BulkInput, options: RunOptions, { ledger: known, other }: Found): Outlook {
  // Whether the service supports idempotency keys is found out before the first row is sent.
  const circumstances = { now: options.now, apiKeyHash: options.apiKeyHash, honoursKeys: true };
  const planned = plan(input.rows, known, circumstances);
  const sent = countSent(planned);
  if (options.restart) return { plan: plan(input.rows, undefined, circumstances), known: undefined, sent };
  const refusal = refusalOf({ ...input, ...options, plan: planned, known, other });
  if (refusal) throw refusal;
  return { plan: planned, known, sent };
}

/** Marks the entries that have no row in the input, and returns those that had one until now. */
function markGone({ plan: { gone }, known }: Outlook, now: number): LedgerEntry[] {
  const newlyGone = gone.filter(({ goneSince }) => goneSince === undefined);
  const since = new Map(gone.map((entry) => [entry, entry.goneSince ?? new Date(now).toISOString()]));
  for (const entry of known ? allEntries(known) : []) entry.goneSince = since.get(entry);
  return newlyGone;
}

/** The ledger as a run begins with it. `before` is the one that it replaces, also if what that knows is ignored. */
function beginRun(
  { name, path, sha256, rows }: BulkInput,
  { baseUrl, now, random, restart }: RunOptions,
  known: Ledger | undefined,
  before: Ledger | undefined,
): Ledger {
  const header: Ledger['header'] = {
    kind: 'ledger',
    version: LEDGER_VERSION,
    baseUrl,
    source: path ?? name,
    nonce: before?.header.nonce ?? random(16).toString('hex'),
    epoch: (before?.header.epoch ?? 0) + (restart ? 1 : 0),
    sha256,
    rows: rows.length,
    startedAt: known?.header.sha256 === sha256 ? known.header.startedAt : new Date(now).toISOString(),
  };
  return { header, entries: known?.entries ?? new Map(), finishedAt: undefined };
}

/** An error of the file system or of the lock, for the user; any other error is returned as it is. */
function describePlaceError(directory: string, error: unknown): unknown {
  if (error instanceof CliError) return error;
  const fix = errnoOf(error) === 'ENOSPC' ? 'free some disk space' : 'make the directory writable';
  // A new state directory knows nothing of earlier runs: their rows would be added again.
  const hint = `${fix}; or, if no row of this input was added yet, set XDG_STATE_HOME to a writable directory on a local disk`;
  if (error instanceof LockError)
    return new CliError(error.message, { code: 'file_error', hint, cause: error });
  return errnoOf(error) === undefined ? error : fileError('write', directory, error, hint);
}
