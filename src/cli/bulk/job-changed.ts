import { join } from 'node:path';
import type { Files } from '../../store/files.ts';
import { fileChangedError } from './job-errors.ts';
import { readJobs } from './job-index.ts';
import { lockExistingJob } from './job-lock.ts';
import type { BulkOptions } from './job-types.ts';
import { loadProgress, PROGRESS, type Progress } from './progress-file.ts';
import { countCommonRows, type StoredRows } from './spool.ts';

export const ROWS = 'rows.ndjson';

/**
 * Refuses a file that holds other rows than when it was run, where adding them could add some twice: its last run had
 * not ended, or the file still holds rows that one of its runs has added. `job` is that of the file as it is now, `rows`
 * their spool.
 *
 * @throws CliError
 */
export async function expectUnchanged(
  files: Files,
  options: BulkOptions,
  job: string,
  rows: StoredRows,
): Promise<void> {
  const { directory, source } = options;
  if (source.path === undefined) return;
  const jobs = await readJobs(options, source.path);
  const last = jobs.at(-1);
  for (const other of jobs.filter((each) => each !== job).reverse()) {
    const lock = await lockExistingJob(join(directory, other), source.name);
    if (!lock) continue;
    try {
      await expectOthers(
        files,
        { directory: join(directory, other), isLast: other === last },
        source.name,
        rows,
      );
    } finally {
      await lock.release();
    }
  }
}

/** That none of the rows was added by another job. @throws CliError */
async function expectOthers(
  files: Files,
  { directory, isLast }: { directory: string; isLast: boolean },
  name: string,
  rows: StoredRows,
): Promise<void> {
  const progress = await loadProgress(files, join(directory, PROGRESS));
  await progress?.file.close();
  if (!progress || progress.states.touched === 0) return;
  const { header, states } = progress;
  if (isLast && states.counts().left > 0) throw changed(name, progress);
  // One that failed may come again, mended or not.
  const counts = (row: number) => states.isTouched(row);
  const earlier = { path: join(directory, ROWS), rows: header.rows, counts };
  const common = await countCommonRows(files, earlier, rows);
  if (common > 0) throw repeated(name, progress, common);
}

function changed(name: string, { header, states }: Progress) {
  const done = header.rows - states.counts().left;
  return fileChangedError(
    `${name} has changed since the run of ${dateOf(header.startedAt)}, which stopped after ${done} of ` +
      `${rowsText(header.rows)}`,
    'put it back as it was',
  );
}

function repeated(name: string, { header, states }: Progress, common: number) {
  const { added } = states.counts();
  const which = common === header.rows ? `all ${rowsText(common)}` : rowsText(common);
  return fileChangedError(
    `${name} holds ${which} of the run of ${dateOf(header.startedAt)}, which added ${added} of ${header.rows}`,
    'take those out that are added',
  );
}

const rowsText = (count: number) => `${count} ${count === 1 ? 'row' : 'rows'}`;
export const dateOf = (instant: string) => `${instant.slice(0, 16).replace('T', ' ')} UTC`;
