import { join } from 'node:path';
import { type Files, realFiles } from '../../store/files.ts';
import { addJobs, readJobs, sharersOf } from './job-index.ts';
import { lockExistingJob } from './job-lock.ts';
import type { BulkOptions } from './job-types.ts';
import { loadProgress, PROGRESS, type Progress } from './progress-file.ts';
import { lookAtProgress } from './progress-replay.ts';
import type { KnownJob } from './shared-rows.ts';

export const ROWS = 'rows.ndjson';

/** Another job of the same file; `isLast` tells whether it is that of the file's last run. */
export type OtherJob = KnownJob & { isLast: boolean };

/** One that this process has until `close`. */
export type OpenOther = OtherJob & { progress: Progress; close(): Promise<void> };

/**
 * Opens the jobs of what the file held at other times, and those that share rows with its own, `job`. The last one is
 * the first.
 *
 * @throws CliError where another process has one
 */
export async function openOthers(files: Files, options: BulkOptions, job: string): Promise<OpenOther[]> {
  const others: OpenOther[] = [];
  try {
    for (const { id, isLast } of await otherIds(options, job)) {
      const directory = join(options.directory, id);
      const lock = await lockExistingJob(directory, options.source.name);
      if (!lock) continue;
      const close = async (progress?: Progress) => {
        await progress?.file.close().catch(() => {});
        await lock.release();
      };
      const progress = await loadProgress(files, join(directory, PROGRESS)).catch(async (error) => {
        await close();
        throw error;
      });
      if (!progress) await close();
      else others.push({ rows: join(directory, ROWS), isLast, progress, close: () => close(progress) });
    }
    return others;
  } catch (error) {
    await closeOthers(others);
    throw error;
  }
}

export async function closeOthers(others: readonly OpenOther[]): Promise<void> {
  for (const other of others) await other.close();
}

/** The same as they are, without a lock: nobody is hindered. @throws CliError where one is damaged */
export async function lookAtOthers(options: BulkOptions, job: string): Promise<OtherJob[]> {
  const others: OtherJob[] = [];
  for (const { id, isLast } of await otherIds(options, job)) {
    const directory = join(options.directory, id);
    const progress = await lookAtProgress(realFiles, join(directory, PROGRESS));
    if (progress) others.push({ rows: join(directory, ROWS), isLast, progress });
  }
  return others;
}

/**
 * Makes a job and those that it is about to take rows from known to each other, under whatever name their files come:
 * each is compared with the other before it sends.
 */
export async function tieToOthers(files: Files, options: BulkOptions, job: string): Promise<void> {
  const others = (await otherIds(options, job)).map(({ id }) => id);
  for (const other of others) await addJobs(files, options, sharersOf(other), [job]);
  if (others.length > 0) await addJobs(files, options, sharersOf(job), others);
}

/**
 * What is known at the start of a job that is to add every row once more: how many rows each job has sent, by its nonce.
 * Damage hinders nobody.
 */
export async function sentSoFar(options: BulkOptions, job: string): Promise<Record<string, number>> {
  const sent: Record<string, number> = {};
  for (const id of [job, ...(await otherIds(options, job)).map((other) => other.id)]) {
    const path = join(options.directory, id, PROGRESS);
    const known = await lookAtProgress(realFiles, path).catch(() => undefined);
    if (known) sent[known.header.nonce] = known.states.touched;
  }
  return sent;
}

async function otherIds(options: BulkOptions, job: string): Promise<{ id: string; isLast: boolean }[]> {
  const { path } = options.source;
  const ofPath = path === undefined ? [] : await readJobs(options, path);
  const sharers = await readJobs(options, sharersOf(job));
  const last = ofPath.at(-1);
  return [...new Set([...ofPath.reverse(), ...sharers.reverse()])]
    .filter((id) => id !== job)
    .map((id) => ({ id, isLast: id === last }));
}
