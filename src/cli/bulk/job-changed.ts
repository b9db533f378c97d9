import { type CliError, usageError } from '../errors/cli-error.ts';
import { fileChangedError, rowsText, skipHint } from './job-errors.ts';
import type { BulkOptions } from './job-types.ts';
import type { OtherJob } from './other-jobs.ts';
import type { Known } from './progress-replay.ts';
import type { SharedRow } from './shared-rows.ts';

/** What an input is compared with: the progress of its own job, the jobs of what its file held before, and common rows. */
export type Comparison = {
  own: Known | undefined;
  others: readonly OtherJob[];
  shared: readonly SharedRow<OtherJob>[];
};

/**
 * Why a file is not added that holds other rows than when it was run, where that could add some twice: its last run had
 * not ended, or it holds rows that a run has sent. With `--skip-added`, which leaves those out, only where no run is
 * known at all.
 */
export function whyChanged(
  { source, baseUrl, skipAdded, skipCommand }: BulkOptions,
  { own, others, shared }: Comparison,
): CliError | undefined {
  const { name } = source;
  if (skipAdded) {
    if (own !== undefined || others.length > 0) return undefined;
    return usageError(
      `no earlier run of ${name} is known for ${baseUrl}: which rows it has added cannot be told`,
      'give it the path that it had then; or, where nothing of it was added yet, leave out --skip-added',
    );
  }
  const last = others.find(({ isLast }) => isLast)?.progress;
  const hint = skipHint(skipCommand, shared.length);
  if (last && last.states.touched > 0 && last.states.counts().left > 0) {
    const done = last.header.rows - last.states.counts().left;
    return fileChangedError(
      `${name} has changed since the run of ${dateOf(last.header.startedAt)}, which stopped after ${done} of ` +
        `${rowsText(last.header.rows)}`,
      hint,
    );
  }
  const [first] = others.filter((other) => shared.some((row) => row.other === other));
  if (first === undefined) return undefined;
  const { header, states } = first.progress;
  const common = shared.filter(({ other }) => other === first).length;
  const which = common === header.rows ? `all ${rowsText(common)}` : rowsText(common);
  return fileChangedError(
    `${name} holds ${which} of the run of ${dateOf(header.startedAt)}, which added ${states.counts().added} of ` +
      `${header.rows}`,
    hint,
  );
}

/** The jobs that count: a run with --restart goes on as it began, whatever was added before it, but not behind. */
export const regarded = <Other extends OtherJob>(
  others: readonly Other[],
  own: Known | undefined,
  { skipAdded }: Pick<BulkOptions, 'skipAdded'>,
): Other[] =>
  others.filter(
    ({ progress: { header, states } }) =>
      skipAdded || own?.header.disregards?.[header.nonce] !== states.touched,
  );

/** The same bytes, and other rows. */
export const whyOtherRows = (
  name: string,
  own: Known | undefined,
  rowsSha256: string,
): CliError | undefined =>
  own && own.header.rowsSha256 !== rowsSha256
    ? fileChangedError(
        `${name} was read as other rows in the run of ${dateOf(own.header.startedAt)}`,
        'give the --format that it had then',
      )
    : undefined;

export const dateOf = (instant: string): string => `${instant.slice(0, 16).replace('T', ' ')} UTC`;
