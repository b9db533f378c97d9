import { createHash, hash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as z from 'zod/mini';
import { serviceOf } from '../../client/service-state.ts';
import { isTrusted } from '../../client/state-directory.ts';
import { stringifyJson } from '../../contract/json.ts';
import { type NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { IsoTime, parseStoredJson, Sha256 } from '../../store/stored-json.ts';
import { type AppendFile, openAppendFile } from '../../system/append-file.ts';
import { acquireDirectoryLock } from '../../system/directory-lock.ts';
import {
  errnoOf,
  type FileSystem,
  fsyncAncestors,
  isTemporaryName,
  LockError,
  makePrivateDirectory,
  readBytes,
  realFileSystem,
  removeFile,
  replaceFile,
} from '../../system/file-system.ts';
import { createStateDirectory } from '../connection/connect.ts';
import { CliError, fileError } from '../core/errors.ts';
import { stateDirectories } from '../profiles/paths.ts';
import type { CommandContext } from '../program/command.ts';

/*
 * `pets import` keeps one ledger for each service. It is a file of JSON lines (records) with everything that is known
 * about the rows that were sent. What an import does is decided in plan.ts, from the ledger and the rows of the file.
 *
 * A row is known by what it says: by the hash of its animal. A record identifies a row by the `seq` of an import and an
 * index in that import. The last record of a row is its state. A row without a record was never sent.
 *
 *   import    an import begins, with the hashes of all rows of its file
 *   resumed   an import that was finished continues, because it has rows that are open, failed or were never sent
 *   finished  every row that the import sends has a result. Written again by later runs that skip rows of the import
 *   open      synced before a request is sent: the row may have been added. Written again if the outcome stays unknown
 *   notSent   the request had no effect, or the inventory shows that the row was not added. It counts as never sent
 *   added     the service added the animal. The record contains the animal with its id
 *   failed    the service rejected the row. The next run of the import tries again
 *   answered  the service responded with 2xx, but not with the animal. The row is never sent again
 *
 * Order. `seq` numbers imports and attempts. It only grows, also when old records are dropped. Times never decide which of
 * two things happened first, because clocks can be set back.
 *
 * Idempotency keys. The key of a row is derived from the nonce of the ledger and the `seq` of its attempt, so a request
 * can be repeated with the same key after a crash.
 *
 * Crashes. A line is an array of the records that are synced together. It is synced before the next one is written, so
 * only the last line can be torn. A torn line is ignored. If it contained the first record of an attempt, the row was not
 * sent. If it contained the result of a row, the row still counts as open.
 */

const count = z.int().check(z.nonnegative());
const position = z.int().check(z.positive());

/** The first line of a ledger. */
const LedgerHeader = z.object({
  kind: z.literal('ledger'),
  version: z.literal(1),
  /** The base URL of the service. */
  service: z.string(),
  nonce: z.string().check(z.regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits')),
  /** The highest `seq` when the line was written; in memory, the highest one so far. */
  seq: count,
  /** The latest time, like `seq`. If the clock was set back, this time may be in the future. */
  at: IsoTime,
});

/** Identifies a row by the `seq` of its import and its index there. `seq` identifies the latest attempt to send the row. */
const attempt = { import: position, row: count, seq: position };

const RowRecord = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('open'),
    ...attempt,
    name: z.string(),
    /** The time of the first request, and the hash of its API key. Both decide whether the request may be repeated. */
    at: IsoTime,
    apiKeyHash: Sha256,
    /** When the last request ended. Missing if the process was killed first, until a comparison sets it to `at`. */
    endedAt: z.optional(IsoTime),
    /** Why the outcome is unknown; missing if the run ended with this request, by an error, Ctrl-C or a kill. */
    message: z.optional(z.string()),
    /** Set if a comparison with the inventory found animals that this row may have added: their ids, at most 20. */
    candidates: z.optional(z.array(ReceivedPet.shape.id)),
  }),
  z.object({ kind: z.literal('added'), ...attempt, pet: ReceivedPet }),
  z.object({
    kind: z.literal('failed'),
    ...attempt,
    error: z.object({ code: z.string(), message: z.string(), status: z.optional(z.int()) }),
  }),
  z.object({ kind: z.literal('answered'), ...attempt, name: z.string(), message: z.string() }),
]);
/** The state of a row. */
export type RowRecord = z.infer<typeof RowRecord>;
export type RecordOf<Kind extends RowRecord['kind']> = Extract<RowRecord, { kind: Kind }>;

const ImportRecord = z.object({
  kind: z.literal('import'),
  seq: position,
  at: IsoTime,
  /** The real path of the file; missing if the rows came from a pipe. */
  source: z.optional(z.string()),
  /** Set with `--skip-added`, or if all rows were known: rows with an id, and those added before, are not sent. */
  skipAdded: z.boolean(),
  /** What `animalHash` returns for each row, in the order of the file. */
  hashes: z.array(z.string()),
});

const LedgerRecord = z.discriminatedUnion('kind', [
  ...RowRecord.def.options,
  z.object({ kind: z.literal('notSent'), ...attempt }),
  ImportRecord,
  z.object({ kind: z.literal('resumed'), import: position, at: IsoTime }),
  z.object({ kind: z.literal('finished'), import: position, at: IsoTime }),
]);
export type LedgerRecord = z.infer<typeof LedgerRecord>;

/** A line after the header. */
const LedgerLine = z.array(LedgerRecord);

/** An import, and the state of each of its rows. A row without a state was never sent. */
export type Import = z.infer<typeof ImportRecord> & {
  rows: (RowRecord | undefined)[];
  /** The time of the latest `finished` record; undefined if the import was interrupted or stopped early. */
  finishedAt: string | undefined;
};

/** Where a row is recorded: its state is `its.rows[index]`. */
export type RowPosition = { its: Import; index: number };

export type Ledger = z.infer<typeof LedgerHeader> & {
  /** By their `seq`, in the order in which they began. */
  imports: Map<number, Import>;
};

/** An import of which no row was sent. */
export const startImport = (record: z.infer<typeof ImportRecord>): Import => ({
  ...record,
  rows: record.hashes.map(() => undefined),
  finishedAt: undefined,
});

/** Applies a record to a ledger in memory. */
export function applyRecord(ledger: Ledger, record: LedgerRecord): void {
  if ('seq' in record) ledger.seq = Math.max(ledger.seq, record.seq);
  if ('at' in record && record.at > ledger.at) ledger.at = record.at;
  if (record.kind === 'import') {
    // `carryOut` adds a new import to the ledger before it writes the record.
    if (!ledger.imports.has(record.seq)) ledger.imports.set(record.seq, startImport(record));
    return;
  }
  const its = ledger.imports.get(record.import);
  if (its === undefined) return;
  if (record.kind === 'finished') its.finishedAt = record.at;
  else if (record.kind === 'resumed') its.finishedAt = undefined;
  else its.rows[record.row] = record.kind === 'notSent' ? undefined : record;
}

/** The records from which `applyRecord` makes the import again. */
export const recordsOf = ({ rows, finishedAt, ...record }: Import): LedgerRecord[] => [
  record,
  ...rows.filter((row) => row !== undefined),
  ...(finishedAt === undefined ? [] : [{ kind: 'finished', import: record.seq, at: finishedAt } as const]),
];

/**
 * The time (ISO 8601) for a record of a whole import: now, but never before an earlier record. Otherwise, rows that are
 * imported while the clock is set back would be forgotten too early.
 */
export function nextRecordTime({ at }: Ledger, now: number): string {
  const present = new Date(now).toISOString();
  return present > at ? present : at;
}

/** Whether the row may have been added although no response shows that. Such a row is never forgotten. */
export const isUnknown = (record: RowRecord | undefined): record is RecordOf<'open' | 'answered'> =>
  record?.kind === 'open' || record?.kind === 'answered';

const REMEMBERED_MS = 30 * 86_400_000;

/**
 * Drops the rows of imports that have been finished for more than 30 days, except rows that may have been added, and
 * added rows that an unfinished import also has: when that import continues, it must not add them again.
 */
export function forgetOldRows({ imports }: Ledger, now: number): void {
  const isOld = ({ finishedAt }: Import) =>
    finishedAt !== undefined && Date.parse(finishedAt) < now - REMEMBERED_MS;
  const old = [...imports.values()].filter(isOld);
  if (old.length === 0) return;
  const unfinished = [...imports.values()].filter(({ finishedAt }) => finishedAt === undefined);
  const needed = new Set(unfinished.flatMap(({ hashes }) => hashes));
  for (const its of old) {
    const kept = its.rows.filter(
      (record, i) => isUnknown(record) || (record?.kind === 'added' && needed.has(its.hashes[i] ?? '')),
    ) as RowRecord[];
    its.hashes = kept.map(({ row }) => its.hashes[row] ?? '');
    its.rows = kept.map((record, row) => ({ ...record, row }));
    if (kept.length === 0) imports.delete(its.seq);
  }
}

/**
 * A hash of an animal: 128 bits, as base64url. An animal without a status has the same hash as an available one. With
 * `id`, the result is the hash of a row that is not sent because it has this id.
 */
export function animalHash({ name, categoryId, status = 'available' }: NewPet, id?: unknown): string {
  const text = `{"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}${id ?? ''}`;
  return hash('sha256', text, 'buffer').toString('base64url', 0, 16);
}

/** The idempotency key of an attempt: a UUID of version 8 (RFC 9562). */
export function idempotencyKeyOf({ nonce }: Ledger, seq: number): string {
  const hex = hash('sha256', `${nonce}:${seq}`, 'hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

const LEDGER = 'ledger.ndjson';
const NEWLINE = 0x0a;
/** The number of records per line when a ledger is replaced. Few long writes take less time than many short ones. */
const RECORDS_PER_LINE = 100;

/** Where the ledger of a service is, and what is needed to use it. */
export type LedgerEnvironment = {
  /** The ledger's directory. `openLedger` creates it if it is missing. */
  directory: string;
  /** The base URL of the service. */
  service: string;
  files: FileSystem;
  /** The present, in milliseconds since the epoch. */
  now(): number;
  random(bytes: number): Buffer;
  /** Tests on a simulated disk replace the lock with this function. */
  lockDirectory?: typeof acquireDirectoryLock;
};

/**
 * Chooses the state directory for the ledger of a service, and prints a note if it is a temporary one. A directory that
 * already has the ledger is used even if it is not writable: an import with a new ledger would add the rows again.
 *
 * @throws CliError if PETS_STATE_DIR is not writable and has no ledger of this service, unless `dryRun` is set
 */
export function chooseLedger(context: CommandContext, service: string, dryRun: boolean): LedgerEnvironment {
  const id = createHash('sha256').update(serviceOf(service)).digest('hex').slice(0, 32);
  const directoryIn = ({ path }: { path: string }) => join(path, 'imports', id);
  const directories = stateDirectories(context);
  const known = directories.find((each) => isTrusted(each) && existsSync(join(directoryIn(each), LEDGER)));
  const chosen = known ?? (dryRun ? undefined : createStateDirectory(context)) ?? directories[0];
  if (chosen.isTemporary && !dryRun)
    context.console.notice(
      `recording the rows in the temporary directory ${chosen.path}, because the usual directory could not be used; if the temporary directory is deleted, later imports add the same rows again; to choose another directory: PETS_STATE_DIR`,
    );
  const { now } = context.clock;
  return { directory: directoryIn(chosen), service, files: realFileSystem, now, random: randomBytes };
}

/**
 * Reads the ledger of a service, without locking it, and drops old rows (`forgetOldRows`). If there is no file, the
 * ledger is empty. A crash cannot tear the header, because the file is created by an atomic replacement.
 *
 * @throws CliError if the ledger is damaged, or was written by a newer version
 */
export async function readLedger({
  files,
  directory,
  service,
  now,
  random,
}: LedgerEnvironment): Promise<Ledger> {
  const path = join(directory, LEDGER);
  const bytes = await readBytes(files, path).catch((error) => {
    if (errnoOf(error) !== 'ENOTDIR')
      throw fileError(
        'read',
        path,
        error,
        'make it readable; without it, rows of earlier imports are added again',
      );
  });
  if (bytes === undefined) {
    const nonce = random(16).toString('hex');
    const at = new Date(now()).toISOString();
    return { kind: 'ledger', version: 1, service, nonce, seq: 0, at, imports: new Map() };
  }
  let ledger: Ledger | undefined;
  let number = 0;
  for (const text of completeLines(bytes)) {
    number++;
    const stored = parseStoredJson<typeof LedgerHeader | typeof LedgerLine>(
      ledger ? LedgerLine : LedgerHeader,
      text,
    );
    if ('why' in stored) throw damagedError(path, number, stored.why);
    if (!Array.isArray(stored.data)) ledger = { ...stored.data, imports: new Map() };
    else if (ledger) for (const record of stored.data) applyRecord(ledger, record);
  }
  if (ledger === undefined) throw damagedError(path, 1, 'it is incomplete');
  forgetOldRows(ledger, now());
  return ledger;
}

/**
 * Yields the lines of a file, except a last line that a crash has torn. The end of such a line is missing, or a part of
 * the line did not reach the disk and reads as zeros.
 */
function* completeLines(bytes: Buffer): Generator<string> {
  let from = 0;
  for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
    const text = bytes.toString('utf8', from, end);
    from = end + 1;
    if (from === bytes.length && text.includes('\0')) return;
    yield text;
  }
}

const damagedError = (path: string, line: number, why: string): CliError =>
  new CliError(`${path} is damaged in line ${line}, or a newer version of pets has written it: ${why}`, {
    code: 'damaged_file',
    hint: `use that version, or move ${dirname(path)} away; without this file, rows of earlier imports are not recognized, and are added again`,
  });

/**
 * Locks and opens the ledger of a service, and creates it if it is missing.
 *
 * @throws CliError if another process is importing, or if the file is damaged or not writable
 */
export async function openLedger(place: LedgerEnvironment): Promise<LedgerFile> {
  const { files, directory, lockDirectory = acquireDirectoryLock } = place;
  const path = join(directory, LEDGER);
  try {
    await makePrivateDirectory(files, directory);
    const lock = await lockDirectory(directory);
    try {
      const ledger = await readLedger(place);
      for (const name of await files.readdir(directory))
        if (isTemporaryName(name)) await removeFile(files, join(directory, name));
      // Write the ledger again even if no row was dropped: after a failed sync of an earlier run, the records that were
      // just read may not be on the disk.
      await replaceFile(files, path, encodeLedger(ledger));
      await fsyncAncestors(files, directory);
      return createLedgerFile(ledger, await openAppendFile(files, path), path, () => lock.release());
    } catch (error) {
      await lock.release();
      throw error;
    }
  } catch (error) {
    throw describePlaceError(place, error);
  }
}

function* encodeLedger({ imports, ...header }: Ledger): Generator<Buffer> {
  yield encodeLine(header);
  for (const its of imports.values()) {
    const records = recordsOf(its);
    for (let i = 0; i < records.length; i += RECORDS_PER_LINE)
      yield encodeLine(records.slice(i, i + RECORDS_PER_LINE));
  }
}

const encodeLine = (line: object): Buffer => Buffer.from(`${stringifyJson(line)}\n`);

export type LedgerFile = ReturnType<typeof createLedgerFile>;

/** The ledger of a service, locked and open for appending records. */
function createLedgerFile(ledger: Ledger, file: AppendFile, path: string, release: () => Promise<void>) {
  // After a record could not be written, no later record may be written.
  let failure: CliError | undefined;
  let waiting: LedgerRecord[] = [];
  let last: Promise<void> = Promise.resolve();
  const write = async () => {
    // Wait for records of responses that arrived at the same time, so that all of them are written as one line.
    await new Promise(setImmediate);
    const records = waiting;
    waiting = [];
    if (failure) throw failure;
    await file.append(encodeLine(records)).catch((cause) => {
      failure = fileError('write', path, cause, 'fix the problem, then run the command again to continue');
      throw failure;
    });
  };
  return {
    /** Everything that is recorded, including what is not synced yet. */
    ledger,
    /**
     * Applies records, and writes and syncs them as one line. Records of concurrent calls are written in the order of
     * the calls. Those that arrive during a sync are written and synced together after it. After a failure, all later
     * calls fail.
     *
     * @throws CliError
     */
    append(...records: LedgerRecord[]): Promise<void> {
      if (waiting.length === 0) last = last.then(write, write);
      for (const record of records) {
        waiting.push(record);
        applyRecord(ledger, record);
      }
      return last;
    },
    /** Resolves when all records are synced. @throws CliError if an append has failed */
    flush: () => last,
    /** Closes the file and releases the lock. */
    close: () =>
      last
        .catch(() => {})
        .then(() => file.close())
        .finally(release),
  };
}

/** Converts an error of the file system or the lock to a CliError with a hint. Returns any other error unchanged. */
function describePlaceError({ directory, service }: LedgerEnvironment, error: unknown): unknown {
  if (error instanceof CliError) return error;
  if (error instanceof LockError && error.owner)
    return new CliError(
      `another import into ${new URL(service).host} is running${error.owner.pid ? ` (process ${error.owner.pid})` : ''}; it may be waiting for confirmation`,
      { code: 'already_running', hint: 'wait until it has ended, then run the command again' },
    );
  const fix = errnoOf(error) === 'ENOSPC' ? 'free some disk space' : 'make the directory writable';
  // A new state directory has no ledger, so the rows of earlier imports would be added again.
  const hint = `${fix}; or, if no row of this file was added yet, set PETS_STATE_DIR to a writable directory on a local disk`;
  if (error instanceof LockError)
    return new CliError(error.message, { code: 'file_error', hint: error.hint, cause: error });
  return errnoOf(error) === undefined ? error : fileError('write', directory, error, hint);
}
