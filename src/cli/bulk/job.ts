import { chmod, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Files, realFiles, removeFile, syncUpward } from '../../store/files.ts';
import type { Lock } from '../../store/lock.ts';
import { dateOf, expectUnchanged, ROWS } from './job-changed.ts';
import { fileChangedError, placeError } from './job-errors.ts';
import { addJob, jobIdOf } from './job-index.ts';
import { lockJob } from './job-lock.ts';
import { OpenJob } from './job-open.ts';
import { prune } from './job-prune.ts';
import type { BulkOptions, Job } from './job-types.ts';
import { createProgress, loadProgress, PROGRESS, type Progress } from './progress-file.ts';
import type { SpoolFile } from './spool.ts';

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

async function openLocked({ files, id, lock, spool, sha256, rowsSha256, options }: Opening): Promise<Job> {
  const { baseUrl, source, restart, clock, random } = options;
  const directory = join(options.directory, id);
  const [path, rows] = [join(directory, PROGRESS), join(directory, ROWS)];
  const earlier = restart ? undefined : await loadProgress(files, path);
  let progress = earlier;
  try {
    if (earlier && earlier.header.rowsSha256 !== rowsSha256) throw otherRows(source.name, earlier);
    const { added = 0, unknown = 0 } = earlier?.states.counts() ?? {};
    const mayAdd = added + unknown < spool.rows;
    if (mayAdd && !restart) await expectUnchanged(files, options, id, spool);
    if (earlier) await chmod(path, 0o600);
    else await removeFile(files, path);
    // The same rows, also where there are some already: those may be damaged.
    await files.rename(spool.path, rows);
    progress ??= await createProgress(files, path, {
      source: source.name,
      sha256,
      rowsSha256,
      baseUrl,
      rows: spool.rows,
      startedAt: new Date(clock.now()).toISOString(),
      nonce: random(16).toString('hex'),
    });
    // Before the first send, and also where an earlier run was killed in front of it.
    await syncUpward(files, directory);
    // Behind the progress: until that is there, the path's jobs are those that its file is compared with.
    if (mayAdd && source.path !== undefined) await addJob(files, options, source.path, id);
    return new OpenJob({ files, rows, progress, lock, clock, resumed: earlier !== undefined });
  } catch (error) {
    await progress?.file.close();
    throw error;
  }
}

/** The same bytes, and other rows. */
const otherRows = (name: string, { header }: Progress) =>
  fileChangedError(
    `${name} was read as other rows in the run of ${dateOf(header.startedAt)}`,
    'give the --format that it had then',
  );
