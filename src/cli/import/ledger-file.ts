import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { serviceOf } from '../../client/service-state.ts';
import { stringifyJson, tryParseJson } from '../../contract/json.ts';
import { readStored } from '../../store/stored-json.ts';
import { AppendFile } from '../../system/append-file.ts';
import { fsyncAncestors, makePrivateDirectory } from '../../system/directories.ts';
import { acquireDirectoryLock, DirectoryInUseError, LockError } from '../../system/directory-lock.ts';
import { errnoOf, type FileSystem } from '../../system/file-system.ts';
import { isTemporaryName, readBytes, removeFile, replaceFile } from '../../system/files.ts';
import { isTrusted } from '../../system/state-directory.ts';
import { createStateDirectory } from '../connection/connect.ts';
import { CliError, fileError } from '../core/errors.ts';
import { stateDirectories } from '../profiles/paths.ts';
import type { CommandContext } from '../program/command.ts';
import {
  applyRecord,
  emptyLedger,
  forgetOldRows,
  LEDGER_VERSION,
  type Ledger,
  LedgerHeader,
  LedgerLine,
  type LedgerRecord,
  recordsOf,
} from './ledger.ts';

const LEDGER = 'ledger.ndjson';
const NEWLINE = 0x0a;
/** The number of records per write when a ledger is replaced. Few long writes take less time than many short ones. */
const RECORDS_PER_WRITE = 100;

/** Where the ledger of a service is, and what is needed to use it. */
export type LedgerPlace = {
  /** The ledger's directory, created if missing. */
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
 * The directory of a service's ledger, in a state directory. A state directory that already has the ledger is used even if
 * it is not writable, because an import with a new ledger would add the rows again.
 *
 * @throws CliError if PETS_STATE_DIR is not writable, unless `dryRun` is set
 */
export function chooseDirectory(context: CommandContext, service: string, dryRun: boolean): string {
  const id = createHash('sha256').update(serviceOf(service)).digest('hex').slice(0, 32);
  const directoryIn = ({ path }: { path: string }) => join(path, 'imports', id);
  const directories = stateDirectories(context);
  const known = directories.find((each) => isTrusted(each) && existsSync(join(directoryIn(each), LEDGER)));
  const chosen = known ?? (dryRun ? undefined : createStateDirectory(context)) ?? directories[0];
  if (chosen.isTemporary && !dryRun)
    context.console.notice(
      `recording the rows in ${chosen.path}; they are recognized only while this directory exists`,
    );
  return directoryIn(chosen);
}

/**
 * Reads the ledger of a service, without locking it, and drops what is not known any more. A crash cannot tear the header, because the file is created by an
 * atomic replacement. If there is no file, the ledger is empty.
 *
 * @throws CliError if the ledger is damaged, or was written by a newer version
 */
export async function readLedger({ files, directory, service, now, random }: LedgerPlace): Promise<Ledger> {
  const path = join(directory, LEDGER);
  const bytes = await readBytes(files, path).catch((error) => {
    if (errnoOf(error) !== 'ENOTDIR') throw error;
  });
  if (bytes === undefined) {
    const nonce = random(16).toString('hex');
    const at = new Date(now()).toISOString();
    return emptyLedger({ kind: 'ledger', version: LEDGER_VERSION, service, nonce, seq: 0, at });
  }
  let ledger: Ledger | undefined;
  let number = 0;
  for (const text of completeLines(bytes)) {
    number++;
    const schema = ledger ? LedgerLine : LedgerHeader;
    const stored = readStored<typeof LedgerLine | typeof LedgerHeader>(schema, text);
    if ('why' in stored) throw damagedError(path, number, text, stored.why);
    const { data } = stored;
    if (data.kind === 'ledger') ledger = emptyLedger(data);
    else for (const record of recordsIn(data)) if (ledger) applyRecord(ledger, record);
  }
  if (ledger === undefined) throw damagedError(path, 1, '', 'it is incomplete');
  forgetOldRows(ledger, now());
  return ledger;
}

const recordsIn = (line: LedgerLine): readonly LedgerRecord[] =>
  line.kind === 'group' ? line.records : [line];

/**
 * Yields the lines of a file, except a last line that a crash has torn. The end of such a line is missing, or a part of
 * the line did not reach the disk and reads as zeros.
 */
export function* completeLines(bytes: Buffer): Generator<string> {
  let from = 0;
  for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
    const text = bytes.toString('utf8', from, end);
    from = end + 1;
    if (from === bytes.length && text.includes('\0')) return;
    yield text;
  }
}

function damagedError(path: string, line: number, text: string, why: string): CliError {
  const { version } = (tryParseJson(text) ?? {}) as { version?: unknown };
  const isNewer = line === 1 && Number(version) > LEDGER_VERSION;
  const [problem, fix] = isNewer
    ? ['was written by a newer version of pets', 'use that version']
    : [`is damaged in line ${line}: ${why}`, `move ${dirname(path)} away`];
  return new CliError(`${path} ${problem}`, {
    code: 'damaged_file',
    hint: `${fix}; without this file, rows of earlier imports are not recognized, and are added again`,
  });
}

/** The ledger of a service, locked and open for appending records. */
export type LedgerFile = {
  /** Everything that is recorded, including what is not synced yet. */
  ledger: Ledger;
  /**
   * Applies records, and writes and syncs them as one line. Records of concurrent calls are written in the order of the
   * calls. Those that arrive during a sync are written and synced together after it. After a failure, all later calls
   * fail.
   *
   * @throws CliError
   */
  append(...records: LedgerRecord[]): Promise<void>;
  /** Resolves when all records are synced. @throws CliError if an append has failed */
  flush(): Promise<void>;
  /** Closes the file and releases the lock. */
  close(): Promise<void>;
};

/**
 * Locks and opens the ledger of a service, and creates it if it is missing.
 *
 * @throws CliError if another process is importing, or if the file is damaged or not writable
 */
export async function openLedger(place: LedgerPlace): Promise<LedgerFile> {
  const { files, directory, service, lockDirectory = acquireDirectoryLock } = place;
  try {
    await makePrivateDirectory(files, directory);
    const lock = await lockDirectory(directory);
    try {
      const ledger = await readLedger(place);
      ledger.header = { ...ledger.header, seq: ledger.seq, at: ledger.at };
      // Also if nothing was dropped: after a failed sync, what was read now may not be on the disk.
      await replaceLedger(files, directory, ledger);
      const file = await AppendFile.open(files, join(directory, LEDGER));
      return writer(ledger, file, join(directory, LEDGER), () => lock.release());
    } catch (error) {
      await lock.release();
      throw error;
    }
  } catch (error) {
    throw error instanceof DirectoryInUseError
      ? alreadyRunning(service, error.pid)
      : describePlaceError(directory, error);
  }
}

/** Replaces the ledger of a directory atomically. The new ledger is on the disk when the promise resolves. */
async function replaceLedger(files: FileSystem, directory: string, ledger: Ledger): Promise<void> {
  for (const name of await files.readdir(directory)) {
    if (isTemporaryName(name)) await removeFile(files, join(directory, name));
  }
  await replaceFile(files, join(directory, LEDGER), encodeLedger(ledger));
  await fsyncAncestors(files, directory);
}

function* encodeLedger({ header, imports }: Ledger): Generator<Buffer> {
  yield encodeLines([header]);
  let records: LedgerRecord[] = [];
  for (const each of imports.values()) {
    for (const record of recordsOf(each)) {
      if (records.push(record) < RECORDS_PER_WRITE) continue;
      yield encodeLines(records);
      records = [];
    }
  }
  yield encodeLines(records);
}

const encodeLines = (lines: readonly (LedgerHeader | LedgerLine)[]): Buffer =>
  Buffer.from(lines.map((line) => `${stringifyJson(line)}\n`).join(''));

function writer(ledger: Ledger, file: AppendFile, path: string, release: () => Promise<void>): LedgerFile {
  // After one record is missing, no later one may be written.
  let failure: CliError | undefined;
  const fail = (cause: unknown): never => {
    failure ??= fileError('write', path, cause, 'fix the problem, then run the command again to continue');
    throw failure;
  };
  let waiting: LedgerRecord[] = [];
  let last: Promise<void> = Promise.resolve();
  const write = async () => {
    // Wait for records of responses that arrived at the same time, so that they share the group.
    await new Promise(setImmediate);
    const records = waiting;
    waiting = [];
    if (failure) throw failure;
    const line: LedgerLine = records.length === 1 && records[0] ? records[0] : { kind: 'group', records };
    await file.append(encodeLines([line])).catch(fail);
  };
  return {
    ledger,
    append(...records) {
      if (waiting.length === 0) last = last.then(write, write);
      for (const record of records) {
        waiting.push(record);
        applyRecord(ledger, record);
      }
      return last;
    },
    flush: () => last,
    close: () =>
      last
        .catch(() => {})
        .then(() => file.close())
        .finally(release),
  };
}

const alreadyRunning = (service: string, pid: number | undefined): CliError =>
  new CliError(
    `another import into ${new URL(service).host} is running${pid === undefined ? '' : ` (process ${pid})`}`,
    { code: 'already_running', hint: 'wait until it has ended, then run the command again' },
  );

/** Converts an error of the file system or the lock to a CliError with a hint. Returns any other error unchanged. */
function describePlaceError(directory: string, error: unknown): unknown {
  if (error instanceof CliError) return error;
  const fix = errnoOf(error) === 'ENOSPC' ? 'free some disk space' : 'make the directory writable';
  // A new state directory has no ledger, so the rows of earlier imports would be added again.
  const hint = `${fix}; or, if no row of this file was added yet, set PETS_STATE_DIR to a writable directory on a local disk`;
  if (error instanceof LockError)
    return new CliError(error.message, { code: 'file_error', hint, cause: error });
  return errnoOf(error) === undefined ? error : fileError('write', directory, error, hint);
}
