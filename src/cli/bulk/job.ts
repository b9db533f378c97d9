import { chmod, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Files, realFiles, removeFile, syncUpward } from '../../store/files.ts';
import type { Lock } from '../../store/lock.ts';
import { regarded, whyChanged, whyOtherRows } from './job-changed.ts';
import { placeError } from './job-errors.ts';
import { addJobs, jobIdOf } from './job-index.ts';
import { lockJob } from './job-lock.ts';
import { OpenJob } from './job-open.ts';
import { prune } from './job-prune.ts';
import type { BulkOptions, Job } from './job-types.ts';
import { closeOthers, type OpenOther, openOthers, ROWS, sentSoFar, tieToOthers } from './other-jobs.ts';
import { createProgress, loadProgress, PROGRESS, type Progress } from './progress-file.ts';
import { animalHashes, type SharedRow, sharedRows } from './shared-rows.ts';
import { readRows, type SpoolFile } from './spool.ts';
import { takeOver } from './take-over.ts';

/**
 * Opens the job of an input; `sha256` (hexadecimal) is that of its bytes. The spool is used up, also by an error.
 *
 * @throws CliError where another process has the job, the input has changed since some of it was added, or a file is
 *   damaged or cannot be written
 */
export async function openJob(spool: SpoolFile, sha256: string, options: BulkOptions): Promise<Job> {
  const { directory, files = realFiles, clock } = options;
  try {
    const rowsSha256 = await spool.complete();
    await prune(files, directory, clock.now(), spool.path);
    const id = jobIdOf(options.baseUrl, sha256);
    const lock = await lockJob(files, join(directory, id), options.source.name);
    try {
      return await openLocked({ files, id, lock, spool, sha256, rowsSha256, options });
    } catch (error) {
      await lock.release();
      // Only what was made just now is empty.
      await rmdir(join(directory, id)).catch(() => {});
      throw error;
    }
  } catch (error) {
    await spool.discard().catch(() => {});
    throw placeError(directory, error);
  }
}

type Opening = {
  files: Files;
  id: string;
  lock: Lock;
  spool: SpoolFile;
  sha256: string;
  rowsSha256: string;
  options: BulkOptions;
};

async function openLocked(opening: Opening): Promise<Job> {
  const { files, id, lock, spool, sha256, rowsSha256, options } = opening;
  const { baseUrl, source, restart, clock, random } = options;
  const directory = join(options.directory, id);
  const [path, rows] = [join(directory, PROGRESS), join(directory, ROWS)];
  const earlier = restart ? undefined : await loadProgress(files, path);
  let progress = earlier;
  let others: OpenOther[] = [];
  try {
    const disregards = restart ? await sentSoFar(options, id) : undefined;
    const otherRows = whyOtherRows(source.name, earlier, rowsSha256);
    if (otherRows) throw otherRows;
    const { added = 0, unknown = 0 } = earlier?.states.counts() ?? {};
    const mayAdd = added + unknown < spool.rows;
    const isCompared = mayAdd && !restart;
    // Before they are read: from then on nobody takes one of them up without looking at this one first.
    if (isCompared && options.skipAdded) await tieToOthers(files, options, id);
    if (isCompared) others = await openOthers(files, options, id);
    const shared = isCompared ? await compare(opening, earlier, others) : [];
    if (earlier) await chmod(path, 0o600);
    else await removeFile(files, path);
    // The same rows, also where there are some already: those may be damaged.
    await files.rename(spool.path, rows);
    const header = {
      source: source.name,
      sha256,
      rowsSha256,
      baseUrl,
      rows: spool.rows,
      startedAt: new Date(clock.now()).toISOString(),
      nonce: random(16).toString('hex'),
      ...(disregards && { disregards }),
    };
    if (shared.length > 0) progress = await takeOver(files, directory, earlier ?? header, shared);
    else progress ??= await createProgress(files, path, header);
    // Before the first send, and also where an earlier run was killed in front of it.
    await syncUpward(files, directory);
    // Behind the progress: until that is there, the path's jobs are those that its file is compared with.
    if (mayAdd && source.path !== undefined) await addJobs(files, options, source.path, [id]);
    const resumed = earlier !== undefined;
    return new OpenJob({ files, rows, progress, lock, clock, resumed, taken: shared.length });
  } catch (error) {
    await progress?.file.close();
    throw error;
  } finally {
    await closeOthers(others);
  }
}

/** The rows that were sent by others. @throws CliError where the file is refused because of them */
async function compare(
  { files, spool, options }: Opening,
  own: Progress | undefined,
  opened: readonly OpenOther[],
): Promise<SharedRow<OpenOther>[]> {
  const others = regarded(opened, own, options);
  const isSent = others.some(({ progress }) => progress.states.touched > 0);
  const hashes = isSent ? await animalHashes(readRows(files, spool.path, spool.rows)) : [];
  const shared = await sharedRows(files, hashes, own, others);
  const refusal = whyChanged(options, { own, others, shared });
  if (refusal) throw refusal;
  return shared;
}
