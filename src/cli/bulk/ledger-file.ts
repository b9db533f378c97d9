import { dirname, join } from 'node:path';
import { stringifyJson, tryParseJson } from '../../contract/json.ts';
import { readStored } from '../../store/stored-json.ts';
import { AppendFile } from '../../system/append-file.ts';
import { fsyncAncestors } from '../../system/directories.ts';
import type { FileSystem } from '../../system/file-system.ts';
import { isTemporaryName, readBytes, removeFile, replaceFile } from '../../system/files.ts';
import { CliError, fileError } from '../core/errors.ts';
import {
  applyRecord,
  isNewerVersion,
  type Ledger,
  LedgerHeader,
  LedgerLine,
  type LedgerRecord,
} from './ledger.ts';

const LEDGER = 'ledger.ndjson';
const NEWLINE = 0x0a;
/** The number of records per write when a ledger is replaced. Few long writes take less time than many short ones. */
const RECORDS_PER_WRITE = 100;

/**
 * Reads the ledger of a directory; undefined if there is none. A crash cannot tear the header, because a ledger is
 * created by an atomic replacement of the file.
 *
 * @throws CliError if the ledger is damaged, or was written by a newer version
 */
export async function readLedger(files: FileSystem, directory: string): Promise<Ledger | undefined> {
  const path = join(directory, LEDGER);
  const bytes = await readBytes(files, path);
  if (bytes === undefined) return undefined;
  let ledger: Ledger | undefined;
  let line = 0;
  for (const text of completeLines(bytes)) {
    line++;
    const stored = readStored<typeof LedgerLine | typeof LedgerHeader>(
      ledger ? LedgerLine : LedgerHeader,
      text,
    );
    if ('why' in stored) {
      if (isNewerVersion(tryParseJson(text)))
        throw damagedError(path, 'was written by a newer version of pets', 'use that version');
      throw damagedError(path, `is damaged in line ${line}: ${stored.why}`);
    }
    const { data } = stored;
    if (data.kind === 'ledger') ledger = { header: data, entries: new Map(), finishedAt: undefined };
    else
      for (const record of data.kind === 'group' ? data.records : [data])
        if (ledger) applyRecord(ledger, record);
  }
  if (ledger === undefined) throw damagedError(path, 'is damaged: its first line is incomplete');
  return ledger;
}

/**
 * Yields the lines of a file, except a last line that a crash has torn. The end of such a line is missing, or a part of
 * the line did not reach the disk and reads as zeros.
 */
export function* completeLines(bytes: Buffer = Buffer.alloc(0)): Generator<string> {
  let from = 0;
  for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
    const text = bytes.toString('utf8', from, end);
    from = end + 1;
    if (from === bytes.length && text.includes('\0')) return;
    yield text;
  }
}

/** Replaces the ledger of a directory atomically. The new ledger is on the disk when the promise resolves. */
export async function replaceLedger(files: FileSystem, directory: string, ledger: Ledger): Promise<void> {
  for (const name of await files.readdir(directory)) {
    if (isTemporaryName(name)) await removeFile(files, join(directory, name));
  }
  await replaceFile(files, join(directory, LEDGER), encodeLedger(ledger));
  await fsyncAncestors(files, directory);
}

/** A ledger that is open for appending records. The process must hold the lock of the ledger's directory. */
export type LedgerFile = {
  header: LedgerHeader;
  /**
   * Writes and syncs a record. Records of concurrent calls are written in the order of the calls. Those that arrive
   * during a sync are written and synced together after it. After a failure, all later calls fail.
   *
   * @throws CliError
   */
  append(record: LedgerRecord): Promise<void>;
  /** Resolves when all records are synced. @throws CliError if an append has failed */
  flush(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Opens the ledger of a directory for appending records. `header` is the header that the file already has. A record with
 * a time before `earliest` (ISO 8601) gets the time `earliest`, because a ledger whose times went back would be forgotten
 * too early.
 */
export async function openLedger(
  files: FileSystem,
  directory: string,
  header: LedgerHeader,
  earliest: string,
): Promise<LedgerFile> {
  const path = join(directory, LEDGER);
  const appendFile = await AppendFile.open(files, path);
  // After one record is missing, no later one may be written.
  let failure: CliError | undefined;
  const fail = (cause: unknown): never => {
    failure ??= fileError('write', path, cause, 'fix the problem, then rerun the command to resume');
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
    const bytes = encodeRecords(records.length === 1 ? records : [{ kind: 'group', records }]);
    await appendFile.append(bytes).catch(fail);
  };
  return {
    header,
    append(record) {
      waiting.push(record.at < earliest ? { ...record, at: earliest } : record);
      if (waiting.length === 1) last = last.then(write, write);
      return last;
    },
    flush: () => last,
    close: () => last.catch(() => {}).then(() => appendFile.close()),
  };
}

const encodeRecords = (records: readonly (LedgerHeader | LedgerLine)[]): Buffer =>
  Buffer.from(records.map((record) => `${stringifyJson(record)}\n`).join(''));

function* encodeLedger({ header, entries, finishedAt }: Ledger): Generator<Buffer> {
  yield encodeRecords([header]);
  const records = [...entries.values()];
  for (let i = 0; i < records.length; i += RECORDS_PER_WRITE)
    yield encodeRecords(records.slice(i, i + RECORDS_PER_WRITE));
  if (finishedAt !== undefined) yield encodeRecords([{ kind: 'finished', at: finishedAt }]);
}

/** The error for a file that is damaged, or that this version cannot read. The message is the path and `problem`. */
export const damagedError = (path: string, problem: string, fix = `move ${dirname(path)} away`): CliError =>
  new CliError(`${path} ${problem}`, {
    code: 'damaged_file',
    hint: `${fix}, or use --add-again, which adds every row, including those that were already added`,
  });
