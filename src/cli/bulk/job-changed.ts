import { join } from 'node:path';
import type { Files } from '../../store/files.ts';
import { fileChangedError } from './job-errors.ts';
import { readLastJob } from './job-index.ts';
import { lockExistingJob } from './job-lock.ts';
import type { BulkOptions } from './job-types.ts';
import { loadProgress, PROGRESS, type Progress } from './progress-file.ts';
import { rowStates } from './row-states.ts';
import { countCommonRows, type StoredRows } from './spool.ts';

export const ROWS = 'rows.ndjson';

/**
 * Refuses a file that holds other rows than when it was last run, where adding them could add some twice: that run
 * had not ended, or the file still holds its rows. `job` is that of the file as it is now, `rows` their spool.
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
  const last = await readLastJob(options, source.path);
  if (last === undefined || last === job) return;
  const other = join(directory, last);
  const lock = await lockExistingJob(other, source.name);
  if (!lock) return;
  try {
    const progress = await loadProgress(files, join(other, PROGRESS));
    await progress?.file.close();
    if (!progress || progress.states.touched === 0) return;
    if (progress.states.counts().left > 0) throw changed(source.name, progress);
    const { states } = progress;
    const common = await countCommonRows(
      files,
      {
        path: join(other, ROWS),
        rows: progress.header.rows,
        // One that failed may come again, mended or not.
        counts: (row) => states.state(row) === rowStates.added || states.state(row) === rowStates.unknown,
      },
      rows,
    );
    if (common > 0) throw repeated(source.name, progress, common);
  } finally {
    await lock.release();
  }
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
