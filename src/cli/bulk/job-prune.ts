import { lstat, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Files, isMissing, readAll, removeFile, withFile } from '../../store/files.ts';
import { JOB_ID, PATHS, readEntry } from './job-index.ts';
import { lockExistingJob } from './job-lock.ts';
import { ROWS } from './other-jobs.ts';
import { PROGRESS } from './progress-file.ts';
import { decodeEvent } from './progress-format.ts';
import { SPOOL } from './spool.ts';
import { NEW_PROGRESS } from './take-over.ts';

const DAY_MS = 86_400_000;
const REMEMBERED_MS = 30 * DAY_MS;
/** More than a line that says `finished` takes. */
const TAIL_BYTES = 200;

/**
 * Removes what nobody needs any more: jobs that were finished 30 days ago, what a kill left of spools a day ago, and
 * the paths of jobs that are gone. `now` is in milliseconds since 1970. A job that is not finished stays, as does one
 * that a process has, and `spool`, the caller's own. Never fails: what cannot be removed is left.
 */
export async function prune(files: Files, directory: string, now: number, spool: string): Promise<void> {
  const names = await files.readdir(directory).catch(() => []);
  for (const name of names) {
    const path = join(directory, name);
    if (SPOOL.test(name) && path !== spool) await removeOld(files, path, now - DAY_MS);
    if (JOB_ID.test(name)) await pruneJob(files, path, now).catch(() => {});
  }
  const jobs = new Set(await files.readdir(directory).catch(() => names));
  const paths = join(directory, PATHS);
  for (const name of await files.readdir(paths).catch(() => [])) {
    const path = join(paths, name);
    if (!JOB_ID.test(name)) await removeOld(files, path, now - DAY_MS);
    else await prunePath(files, path, jobs, now).catch(() => {});
  }
}

async function pruneJob(files: Files, directory: string, now: number): Promise<void> {
  // Taking the lock changes it.
  const { mtimeMs } = await lstat(directory);
  if (!(await isOver(files, directory, mtimeMs, now))) return;
  const lock = await lockExistingJob(directory, '');
  if (!lock) return;
  try {
    // Another process may have had it until just now.
    if (await isOver(files, directory, mtimeMs, now)) {
      // In this order: rows without progress are of no job, progress without rows still says what was added.
      await removeFile(files, join(directory, NEW_PROGRESS));
      await removeFile(files, join(directory, PROGRESS));
      await removeFile(files, join(directory, ROWS));
    }
  } finally {
    await lock.release();
  }
  await rmdir(directory);
}

/** Whether the job was finished 30 days ago, or none was begun in the directory since `changed`, a day ago. */
async function isOver(files: Files, directory: string, changed: number, now: number): Promise<boolean> {
  let last: string;
  try {
    last = await lastLine(files, join(directory, PROGRESS));
  } catch (error) {
    if (!isMissing(error)) throw error;
    return changed < now - DAY_MS;
  }
  const event = decodeEvent(last);
  return event?.status === 'finished' && isForgotten(event.at, now);
}

/** Whether what was finished then (ISO 8601) is no longer remembered. */
export const isForgotten = (finishedAt: string, now: number): boolean =>
  Date.parse(finishedAt) < now - REMEMBERED_MS;

async function lastLine(files: Files, path: string): Promise<string> {
  return withFile(await files.open(path, 'read'), async (file) => {
    const { size } = await file.status();
    const tail = Buffer.alloc(TAIL_BYTES);
    const read = await readAll(file, tail, Math.max(0, size - TAIL_BYTES));
    return tail.toString('latin1', 0, read).split('\n').at(-2) ?? '';
  });
}

async function prunePath(files: Files, path: string, jobs: ReadonlySet<string>, now: number): Promise<void> {
  const known = await readEntry(path);
  // Each run writes it anew: one that another process writes at this moment is not old.
  if (!known.some((job) => jobs.has(job))) await removeOld(files, path, now - REMEMBERED_MS);
}

async function removeOld(files: Files, path: string, before: number): Promise<void> {
  try {
    if ((await lstat(path)).mtimeMs < before) await files.unlink(path);
  } catch {
    // It is left for the next time.
  }
}
