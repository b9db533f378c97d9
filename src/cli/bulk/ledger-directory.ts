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
import { CliError } from '../errors/errors.ts';
import { dropOldEntries, isForgotten, type Ledger } from './ledger.ts';
import { damagedError, readLedger } from './ledger-file.ts';

/*
 * Where ledgers are kept. Each path and each content has a directory:
 *
 *   ledgers/<id>/ledger.ndjson   its ledger. A content has one only if it was piped.
 *   ledgers/<id>/pointer.json    the id of the ledger that the last run of the path or content used. A path uses the
 *                                ledger of another path if both had the same content when this path was first added.
 *                                Without this file, the ledger in the same directory is used.
 *
 * Each directory can be locked. A run holds the locks of its path, its content and every ledger that it reads, so that no
 * two processes add the same file, or the same content under two names.
 */

const POINTER = 'pointer.json';
const Pointer = z.object({ version: z.literal(1), ledger: z.string().check(z.regex(/^[0-9a-f]{32}$/)) });

/** `directory` contains `ledgers`, and is created if it is missing. `now` is in milliseconds since the epoch. */
export type LedgerPlace = {
  directory: string;
  files: FileSystem;
  now: number;
  /** Replaces the lock in tests on a simulated disk. */
  lockDirectory?: typeof acquireDirectoryLock;
};

/** The id of a path or a content at a service. A content is identified by its SHA-256. */
export const idOf = (baseUrl: string, pathOrSha256: string): string =>
  createHash('sha256')
    .update(JSON.stringify([baseUrl, pathOrSha256]))
    .digest('hex')
    .slice(0, 32);

export const ledgerDirectory = (place: LedgerPlace, id: string): string =>
  join(place.directory, 'ledgers', id);

/** Returns the id of the ledger that a path or content uses. @throws CliError if its pointer is damaged */
export async function resolvePointer(place: LedgerPlace, id: string): Promise<string> {
  const path = join(ledgerDirectory(place, id), POINTER);
  const text = await readTextFile(place.files, path);
  if (text === undefined) return id;
  const pointer = readStored(Pointer, text);
  if ('why' in pointer) throw damagedError(path, `is damaged: ${pointer.why}`);
  return pointer.data.ledger;
}

/** Makes a path or content use a ledger. The change is on the disk when the promise resolves. */
export async function writePointer(place: LedgerPlace, id: string, ledger: string): Promise<void> {
  const directory = ledgerDirectory(place, id);
  const text = `${JSON.stringify({ version: 1, ledger } satisfies z.infer<typeof Pointer>)}\n`;
  await replaceFile(place.files, join(directory, POINTER), [Buffer.from(text)]);
  await fsyncAncestors(place.files, directory);
}

/** Reads a ledger and drops old entries. Undefined if nothing is left to remember. @throws CliError */
export async function loadLedger(place: LedgerPlace, id: string): Promise<Ledger | undefined> {
  const ledger = await readLedger(place.files, ledgerDirectory(place, id));
  if (ledger === undefined) return undefined;
  dropOldEntries(ledger, place.now);
  const isOver = ledger.finishedAt !== undefined || isForgotten(ledger.header.startedAt, place.now);
  return isOver && ledger.entries.size === 0 ? undefined : ledger;
}

const ATTEMPTS = 5;

/** The directories that this process has locked. */
export type Locks = {
  /** Locks a directory, and creates it if it is missing. @throws CliError if another process has locked it */
  acquire(directory: string): Promise<void>;
  /** Releases all locks, and removes directories in which nothing is left. */
  release(): Promise<void>;
};

/** `name` is what the user calls the input. */
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
        // Fails if the directory is not empty. If another process has locked it, it contains a socket.
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
 * Removes the ledgers that no run has used for 30 days and that have nothing left to remember, and the pointers to them.
 * Ignores errors, because the next run tries again.
 */
export async function pruneLedgers(place: LedgerPlace): Promise<void> {
  for (const id of await place.files.readdir(ledgerDirectory(place, '')).catch(() => [])) {
    const directory = ledgerDirectory(place, id);
    const locks = createLocks(place, '');
    try {
      // Every run locks the directory, which changes its modification time.
      if (!isForgotten((await lstat(directory)).mtime.toISOString(), place.now)) continue;
      await locks.acquire(directory);
      if (await loadLedger(place, await resolvePointer(place, id))) continue;
      for (const name of await place.files.readdir(directory)) {
        if (/^(ledger|pointer)\./.test(name)) await removeFile(place.files, join(directory, name));
      }
    } catch {
      // See above.
    } finally {
      await locks.release();
    }
  }
}
