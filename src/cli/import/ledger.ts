import { hash } from 'node:crypto';
import { dirname, join } from 'node:path';
import * as z from 'zod/mini';
import { serviceOf } from '../../client/service-state.ts';
import { stringifyJson } from '../../contract/json.ts';
import { type NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { IsoTime, parseStoredJson, Sha256 } from '../../store/stored-text.ts';
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
  writeFully,
} from '../../system/file-system.ts';
import { CliError, fileError } from '../core/errors.ts';
import { stateDirectory } from '../profiles/paths.ts';
import type { CommandContext } from '../program/command.ts';

/*
 * `pets import` keeps one ledger for each service: a file of JSON lines with the rows that it has sent. plan.ts decides from
 * it what an import does. After 30 days, rows are forgotten (`forgetOldRows`).
 *
 * A row is known by the hash of its animal. Each of several equal rows has its own `seq`, and the last event with a `seq` is
 * the state of the row. `seq` also numbers imports. A new row or import gets a higher `seq` than all others in the ledger, so
 * `seq` shows what happened first. Times do not, because clocks can be set back.
 *
 *   import    an import begins, continues or ends, or a file with rows of it is imported later
 *   sent      synced before the first request: the row may have been added. Written again to record why that stays unknown
 *   added     the service added the animal, which the event contains with its id
 *   notAdded  the request had no effect, or the inventory shows that the row was not added. The row counts as never sent
 *
 * After the header, each line is an array of events, and is synced before the next line is appended. So only the last line
 * can be torn, and is then ignored: if it contained the `sent` of a row, the row was not sent.
 */

const nonNegative = z.int().check(z.nonnegative());
const positive = z.int().check(z.positive());

const LedgerHeader = z.object({
  kind: z.literal('ledger'),
  version: z.literal(2, 'must be 2'),
  /** The base URL of the service. */
  service: z.string(),
  /** The latest `at` when this line was written; in a new ledger, its creation. In the future if the clock was set back. */
  at: IsoTime,
});

const ImportEvent = z.object({
  kind: z.literal('import'),
  seq: positive,
  /** When the import last began or continued, or when a file with rows of it was last imported before it ended. */
  at: IsoTime,
  /** The real path of the file; missing if the rows came from a pipe. */
  file: z.optional(z.string()),
  /** The number of rows (with --skip-added, only those without an id), and what `digestOf` returns for their hashes. */
  rows: nonNegative,
  digest: z.string(),
  /** Set if the import adds known rows again: the `seq` of rows that it does not add again, or of imports with such rows. */
  except: z.optional(z.array(positive)),
  /** When the import ended, or when a file with rows of it was last imported after that; null until the import ends. */
  finishedAt: z.nullable(IsoTime),
});
export type Import = z.infer<typeof ImportEvent>;

/** `seq` identifies the row, `import` is the `seq` of its import, and `line` is that of `PetRow` in the file. */
const row = { seq: positive, import: positive, line: nonNegative, hash: z.string() };

const SentRow = z.object({
  kind: z.literal('sent'),
  ...row,
  name: z.string(),
  idempotencyKey: z.string(),
  /** The time of the first request that may have added the row, and the hash of its API key. `whyNotRepeatable` uses both. */
  at: IsoTime,
  apiKeyHash: Sha256,
  /** Why the outcome is unknown; missing if an error, Ctrl-C or a kill ended the run while the row was being sent. */
  message: z.optional(z.string()),
  /** Set if a comparison with the inventory found animals that this row may have added: their ids, at most 20. */
  candidates: z.optional(z.array(ReceivedPet.shape.id)),
  /** Set if a comparison with the inventory left the outcome unknown. Other imports may then add an equal row. */
  isCompared: z.optional(z.literal(true)),
  /** Set if the service responded with 2xx, but did not confirm that it added the animal. This row is never sent again. */
  isAnswered: z.optional(z.literal(true)),
});
export type SentRow = z.infer<typeof SentRow>;

const AddedRow = z.object({ kind: z.literal('added'), ...row, pet: ReceivedPet });
/** A row that was added, or may have been. */
export type LedgerRow = SentRow | z.infer<typeof AddedRow>;

const LedgerEvent = z.discriminatedUnion('kind', [
  ImportEvent,
  SentRow,
  AddedRow,
  z.object({ kind: z.literal('notAdded'), seq: positive }),
]);
export type LedgerEvent = z.infer<typeof LedgerEvent>;

const LedgerLine = z.array(LedgerEvent);

export type Ledger = z.infer<typeof LedgerHeader> & {
  /** The highest `seq` used so far. */
  seq: number;
  /** By their `seq`, in the order in which they first began. */
  imports: Map<number, Import>;
  /** By their `seq`, in the order in which they were first sent. */
  rows: Map<number, LedgerRow>;
};

export function applyEvent(ledger: Ledger, event: LedgerEvent): void {
  ledger.seq = Math.max(ledger.seq, event.seq);
  if ('at' in event && event.at > ledger.at) ledger.at = event.at;
  if (event.kind === 'import') ledger.imports.set(event.seq, event);
  else if (event.kind === 'notAdded') ledger.rows.delete(event.seq);
  else ledger.rows.set(event.seq, event);
}

/** The time for an `import` event: now, or the ledger's `at` if the clock was set back, so that no row is forgotten early. */
export function nextTime({ at }: Ledger, now: number): string {
  const present = new Date(now).toISOString();
  return present > at ? present : at;
}

const REMEMBERED_MS = 30 * 86_400_000;

/** Drops imports last used more than 30 days ago, and their rows. Keeps rows that may have been added, and their imports. */
export function forgetOldRows({ imports, rows }: Ledger, now: number): void {
  const isOld = ({ at, finishedAt }: Import) => Date.parse(finishedAt ?? at) < now - REMEMBERED_MS;
  const old = new Set([...imports.values()].filter(isOld).map(({ seq }) => seq));
  if (old.size === 0) return;
  const needed = new Set<number>();
  for (const { kind, seq, import: importSeq } of rows.values()) {
    if (kind === 'added' && old.has(importSeq)) rows.delete(seq);
    else needed.add(importSeq);
  }
  for (const seq of old) if (!needed.has(seq)) imports.delete(seq);
}

/** A hash of an animal: 128 bits, as base64url. The same for both Unicode forms of a name, and without a status as if available. */
export function animalHash({ name, categoryId, status = 'available' }: NewPet): string {
  const text = `{"name":${JSON.stringify(name.normalize())},"categoryId":${categoryId},"status":"${status}"}`;
  return hash('sha256', text, 'buffer').toString('base64url', 0, 16);
}

/** A hash of the rows of a file, whatever their order. */
export const digestOf = (hashes: readonly string[]): string =>
  hash('sha256', hashes.toSorted().join(), 'base64url');

const LEDGER = 'ledger.ndjson';
const NEWLINE = 0x0a;
/** The number of events per line when a ledger is replaced. Few long writes take less time than many short ones. */
const EVENTS_PER_LINE = 100;

/** Where the ledger of a service is, and what is needed to use it. */
export type LedgerEnvironment = {
  /** The ledger's directory. `openLedger` creates it if it is missing. */
  directory: string;
  /** The base URL of the service. */
  service: string;
  files: FileSystem;
  /** The present, in milliseconds since the epoch. */
  now(): number;
  /** Tests on a simulated disk replace the lock with this function. */
  lockDirectory?: typeof acquireDirectoryLock;
};

/** Where the ledger of a service is. It never falls back to a temporary directory: if it were lost, its rows would be added again. */
export function ledgerEnvironmentFor(context: CommandContext, service: string): LedgerEnvironment {
  const id = hash('sha256', serviceOf(service)).slice(0, 32);
  const directory = join(stateDirectory(context), 'imports', id);
  return { directory, service, files: realFileSystem, now: context.clock.now };
}

/** The hint names a condition, because a ledger in another state directory does not know the rows of earlier imports. */
const ELSEWHERE =
  'if no row of this file was added yet, you can also set PETS_STATE_DIR to a writable directory on a local disk';

const directoryHint = (directory: string): string =>
  `check this path and the free disk space; after sudo, give it back: sudo chown -R "$(id -un)" ${dirname(directory)}; ${ELSEWHERE}`;

/**
 * Reads the ledger of a service without locking it, and forgets old rows. If there is no file, the ledger is empty.
 *
 * @throws CliError if the ledger cannot be read, is damaged, or was written by another version
 */
export async function readLedger({ files, directory, service, now }: LedgerEnvironment): Promise<Ledger> {
  const path = join(directory, LEDGER);
  const bytes = await readBytes(files, path).catch((error) => {
    // A path below a file, such as a home directory that is /dev/null, cannot exist either.
    if (errnoOf(error) === 'ENOTDIR') return undefined;
    throw fileError('read', path, error, directoryHint(directory));
  });
  const empty = { seq: 0, imports: new Map(), rows: new Map() };
  if (bytes === undefined)
    return { kind: 'ledger', version: 2, service, at: new Date(now()).toISOString(), ...empty };
  let ledger: Ledger | undefined;
  let number = 0;
  for (const text of completeLines(bytes)) {
    number++;
    const schema = ledger ? LedgerLine : LedgerHeader;
    const stored = parseStoredJson<typeof LedgerHeader | typeof LedgerLine>(schema, text);
    if ('why' in stored) throw damagedError(path, number, stored.why);
    if (!Array.isArray(stored.data)) ledger = { ...stored.data, ...empty };
    else if (ledger) for (const event of stored.data) applyEvent(ledger, event);
  }
  // A crash cannot tear the header, because the file is created by an atomic replacement.
  if (ledger === undefined) throw damagedError(path, 1, 'it is incomplete');
  forgetOldRows(ledger, now());
  return ledger;
}

/** Yields the lines of a file, except a torn last line: its end is missing, or parts did not reach the disk and are zeros. */
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
  new CliError(`line ${line} of ${path} is damaged, or another version of pets has written it: ${why}`, {
    code: 'damaged_file',
    hint: `use the version that wrote it, or move ${dirname(path)} away; without this file, pets does not recognize rows of earlier imports, and adds them again`,
  });

/**
 * Locks and opens the ledger of a service, and creates it if it is missing.
 *
 * @throws CliError if another process uses the ledger, or if the ledger is damaged, or cannot be locked, read or written
 */
export async function openLedger(environment: LedgerEnvironment): Promise<LedgerFile> {
  const { files, directory, lockDirectory = acquireDirectoryLock } = environment;
  const path = join(directory, LEDGER);
  try {
    await makePrivateDirectory(files, directory);
    const lock = await lockDirectory(directory);
    try {
      const ledger = await readLedger(environment);
      for (const name of await files.readdir(directory))
        if (isTemporaryName(name)) await removeFile(files, join(directory, name));
      // Write the ledger again: if a sync of an earlier run failed, the events that were just read may not be on the disk.
      await replaceFile(files, path, encodeLedger(ledger));
      await fsyncAncestors(files, directory);
      return await openForAppending(ledger, files, path, () => lock.release());
    } catch (error) {
      await lock.release();
      throw error;
    }
  } catch (error) {
    throw toLedgerError(environment, error);
  }
}

function* encodeLedger({ imports, rows, seq: _, ...header }: Ledger): Generator<Buffer> {
  yield Buffer.from(`${JSON.stringify(header)}\n`);
  const events = [...imports.values(), ...rows.values()];
  for (let i = 0; i < events.length; i += EVENTS_PER_LINE)
    yield encodeLine(events.slice(i, i + EVENTS_PER_LINE));
}

const encodeLine = (events: readonly LedgerEvent[]): Buffer =>
  Buffer.from(`[${events.map(encodeEvent).join()}]\n`);

/** Ids and categories need `stringifyJson`, which keeps every digit. JSON.stringify takes less time for the many sent rows. */
const encodeEvent = (event: LedgerEvent): string =>
  event.kind === 'sent' && !event.candidates ? JSON.stringify(event) : stringifyJson(event);

export type LedgerFile = Awaited<ReturnType<typeof openForAppending>>;

/** Opens the file of a ledger for appending events. The caller has locked the ledger; `close` calls `release`. */
async function openForAppending(
  ledger: Ledger,
  files: FileSystem,
  path: string,
  release: () => Promise<void>,
) {
  const file = await files.open(path, 'readwrite');
  let { size } = await file.stat();
  let waiting: LedgerEvent[] = [];
  let last: Promise<void> = Promise.resolve();
  const write = async () => {
    // Wait for events of responses that arrived at the same time, so that all of them are written as one line.
    await new Promise(setImmediate);
    const bytes = encodeLine(waiting);
    waiting = [];
    try {
      await writeFully(file, bytes, size);
      await file.datasync();
      size += bytes.length;
    } catch (cause) {
      throw fileError('write', path, cause, 'check the disk and its free space, then run the command again');
    }
  };
  return {
    /** Everything that is recorded, including what is not synced yet. */
    ledger,
    /**
     * Applies events at once, and resolves when they are written and synced, in the order of the calls. After each sync, the
     * events that arrived during it are written as one line. After a failure, all later calls fail. @throws CliError
     */
    append(...events: LedgerEvent[]): Promise<void> {
      // After an event could not be written, no later event may be written, so `last` stays rejected.
      if (waiting.length === 0) last = last.then(write);
      for (const event of events) {
        waiting.push(event);
        applyEvent(ledger, event);
      }
      return last;
    },
    /** Resolves when all events are synced. @throws CliError if an append has failed */
    flush: () => last,
    close: () =>
      last
        .catch(() => {})
        .then(() => file.close())
        .finally(release),
  };
}

/** Converts an error of the file system or the lock to a CliError with a hint. Returns any other error unchanged. */
function toLedgerError({ directory, service }: LedgerEnvironment, error: unknown): unknown {
  if (error instanceof LockError && error.owner) {
    const { pid } = error.owner;
    const process = pid === undefined ? '' : ` (process ${pid})`;
    const message = `another import into ${new URL(service).host} is running${process}; it may be waiting for confirmation`;
    const hint = 'wait until it has ended, or stop it; then run the command again';
    return new CliError(message, { code: 'already_running', hint });
  }
  if (error instanceof LockError) {
    const hint = `${error.hint}; ${ELSEWHERE}`;
    return new CliError(error.message, { code: 'file_error', hint, cause: error });
  }
  if (error instanceof CliError || errnoOf(error) === undefined) return error;
  return fileError('write', directory, error, directoryHint(directory));
}
