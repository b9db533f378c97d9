import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { lstat, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { readStored } from '../../store/stored-json.ts';
import { fsyncAncestors, makePrivateDirectory } from '../../system/directories.ts';
import type { FileSystem } from '../../system/file-system.ts';
import { readTextFile, removeFile, replaceFile } from '../../system/files.ts';
import {
  acquireDirectoryLock,
  DirectoryInUseError,
  type DirectoryLock,
} from '../../system/lock/directory-lock.ts';
import { CliError } from '../core/errors.ts';
import { dropOldEntries, type EntryOf, isForgotten, type Ledger } from './ledger.ts';
import { damagedError, readLedger } from './ledger-file.ts';

/*
 * Ledgers are stored in directories. Each path of an input file, and each content of an input, has its own directory:
 *
 *   ledgers/<id>/ledger.ndjson   the ledger of the path. A content has its own ledger only if it was piped.
 *   ledgers/<id>/pointer.json    the id of the ledger that the last run used. If this file is missing, the ledger in the
 *                                same directory is used. A path without its own ledger uses the ledger that its content
 *                                used last.
 *
 * A run locks the directories of its path, of its content and of every ledger that it may continue. Therefore, no two
 * processes add the same file at the same time, or the same content under two names. The comparison with the inventory also reads the other
 * ledgers, without locks.
 */

const POINTER = 'pointer.json';
const Pointer = z.object({ version: z.literal(1), ledger: z.string().check(z.regex(/^[0-9a-f]{32}$/)) });

/** Where ledgers are stored: in `<directory>/ledgers`, created if missing. `now` is in milliseconds since the epoch. */
export type LedgerPlace = {
  directory: string;
  files: FileSystem;
  now: number;
  /** Tests on a simulated disk replace the lock with this function. */
  lockDirectory?: typeof acquireDirectoryLock;
};

/** The id of an input file's path or content, per service. Its directory has this name. */
export const idOf = (baseUrl: string, pathOrSha256: string): string =>
  createHash('sha256')
    .update(JSON.stringify([baseUrl, pathOrSha256]))
    .digest('hex')
    .slice(0, 32);

export const ledgerDirectory = (place: Pick<LedgerPlace, 'directory'>, id: string): string =>
  join(place.directory, 'ledgers', id);

/** Returns the id of the ledger that a path or content uses. @throws CliError if `pointer.json` is damaged */
export async function resolvePointer(place: LedgerPlace, id: string): Promise<string> {
  const path = join(ledgerDirectory(place, id), POINTER);
  const text = await readTextFile(place.files, path);
  if (text === undefined) return id;
  const pointer = readStored(Pointer, text);
  if ('why' in pointer) throw damagedError(path, `is damaged: ${pointer.why}`);
  return pointer.data.ledger;
}

/** Makes the path or content `id` use the ledger with the id `ledger`. The change is on the disk when this resolves. */
export async function writePointer(place: LedgerPlace, id: string, ledger: string): Promise<void> {
  const directory = ledgerDirectory(place, id);
  const text = `${JSON.stringify({ version: 1, ledger } satisfies z.infer<typeof Pointer>)}\n`;
  await replaceFile(place.files, join(directory, POINTER), [Buffer.from(text)]);
  await fsyncAncestors(place.files, directory);
}

/**
 * Reads a ledger without its old entries. Undefined if the ledger is missing, or if it has no entries left and its run is
 * finished or older than 30 days.
 *
 * @throws CliError if the ledger is damaged, or was written by a newer version
 */
export async function loadLedger(place: LedgerPlace, id: string): Promise<Ledger | undefined> {
  const ledger = await readLedger(place.files, ledgerDirectory(place, id));
  if (ledger === undefined) return undefined;
  dropOldEntries(ledger, place.now);
  const isOver = ledger.finishedAt !== undefined || isForgotten(ledger.header.startedAt, place.now);
  return isOver && ledger.entries.size === 0 ? undefined : ledger;
}

/** Reads the rows that were added at a service, from the ledgers of all files. Ignores ledgers that cannot be read. */
export async function readAdded(place: LedgerPlace, baseUrl: string): Promise<EntryOf<'added'>[]> {
  const added: EntryOf<'added'>[] = [];
  for (const id of await place.files.readdir(ledgerDirectory(place, ''))) {
    const ledger = await readLedger(place.files, ledgerDirectory(place, id)).catch(() => undefined);
    if (ledger?.header.baseUrl !== baseUrl) continue;
    for (const entry of ledger.entries.values()) if (entry.kind === 'added') added.push(entry);
  }
  return added;
}

const ATTEMPTS = 5;

/** A set of directory locks that are released together. */
export type Locks = {
  /** Locks a directory, and creates it if it is missing. @throws CliError if another process has locked it */
  acquire(directory: string): Promise<void>;
  /** Releases all locks, and removes those of the locked directories that are empty. */
  release(): Promise<void>;
};

/** `name` is the name of the input in messages. */
export function createLocks(
  { files, lockDirectory = acquireDirectoryLock }: LedgerPlace,
  name: string,
): Locks {
  const locks = new Map<string, DirectoryLock>();
  return {
    async acquire(directory) {
      for (let attempt = 1; !locks.has(directory); attempt++) {
        try {
          await makePrivateDirectory(files, directory);
          locks.set(directory, await lockDirectory(directory));
        } catch (error) {
          if (error instanceof DirectoryInUseError) throw alreadyRunningError(name, error.pid);
          // Another process may have removed the empty directory (see `release`) before this one could lock it.
          if (attempt === ATTEMPTS || existsSync(directory)) throw error;
        }
      }
    },
    async release() {
      for (const [directory, lock] of [...locks].reverse()) {
        await lock.release();
        // `rmdir` removes only empty directories. A directory that another process has locked is not empty, because it
        // contains the socket of the lock.
        await rmdir(directory).catch(() => {});
      }
      locks.clear();
    },
  };
}

const alreadyRunningError = (name: string, pid: number | undefined): CliError =>
  new CliError(`${name} is already being added by ${pid ? `process ${pid}` : 'another process'}`, {
    code: 'already_running',
    hint: 'wait until that process has ended, then rerun the command',
  });

/**
 * Removes the files of each path and content that no run has used for 30 days, unless its ledger is still needed (see
 * `loadLedger`). Ignores errors.
 */
export async function pruneLedgers(place: LedgerPlace): Promise<void> {
  for (const id of await place.files.readdir(ledgerDirectory(place, '')).catch(() => [])) {
    const directory = ledgerDirectory(place, id);
    const locks = createLocks(place, '');
    try {
      // A run that uses a directory locks it, which changes the modification time of the directory.
      if (!isForgotten((await lstat(directory)).mtime.toISOString(), place.now)) continue;
      await locks.acquire(directory);
      if (await loadLedger(place, await resolvePointer(place, id))) continue;
      for (const name of await place.files.readdir(directory)) {
        if (/^(ledger|pointer)\./.test(name)) await removeFile(place.files, join(directory, name));
      }
    } catch {
      // The next run tries again.
    } finally {
      await locks.release();
    }
  }
}
