import { join } from 'node:path';
import { realFiles } from '../../store/files.ts';
import { CliError } from '../errors/cli-error.ts';
import { regarded, whyChanged, whyOtherRows } from './job-changed.ts';
import { placeError } from './job-errors.ts';
import { jobIdOf } from './job-index.ts';
import { isForgotten } from './job-prune.ts';
import type { BulkOptions } from './job-types.ts';
import { lookAtOthers } from './other-jobs.ts';
import { PROGRESS } from './progress-file.ts';
import { type Known, lookAtProgress } from './progress-replay.ts';
import { rowStates } from './row-states.ts';
import { sharedRows } from './shared-rows.ts';

/** An input as it would be opened: the hashes of its bytes, of its rows, and of each animal. */
export type Looked = { sha256: string; rowsSha256: string; hashes: readonly string[] };

/** What a run would find: why it would be refused, or what earlier runs have made of its rows. */
export type Outlook =
  | { refusal: CliError }
  | { refusal?: undefined; added: number; unknown: number; since: string | undefined };

/** Looks at what is known of an input, and changes, makes and locks nothing. `since` is when its own run began. */
export async function lookAhead(input: Looked, options: BulkOptions): Promise<Outlook> {
  const { directory, baseUrl, restart } = options;
  try {
    const id = jobIdOf(baseUrl, input.sha256);
    const now = options.clock.now();
    const remembered = (known: Known | undefined) =>
      known?.finishedAt !== undefined && isForgotten(known.finishedAt, now) ? undefined : known;
    const own = remembered(await lookAtProgress(realFiles, join(directory, id, PROGRESS)));
    const all = await lookAtOthers(options, id);
    const others = regarded(all, own, options).filter(({ progress }) => remembered(progress));
    const { added = 0, unknown = 0, left = 0, failed = 0 } = own?.states.counts() ?? {};
    const mayAdd = own === undefined || left + failed > 0;
    const shared = mayAdd ? await sharedRows(realFiles, input.hashes, own, others) : [];
    const refusal = restart
      ? undefined
      : (whyOtherRows(options.source.name, own, input.rowsSha256) ??
        (mayAdd ? whyChanged(options, { own, others, shared }) : undefined));
    if (refusal) return { refusal };
    const states = shared.map(({ other, otherRow }) => other.progress.states.state(otherRow));
    const count = (state: number) => states.filter((each) => each === state).length;
    return {
      added: added + count(rowStates.added),
      unknown: unknown + count(rowStates.unknown),
      since: own?.finishedAt ?? own?.header.startedAt,
    };
  } catch (error) {
    const refusal = placeError(directory, error);
    if (!(refusal instanceof CliError)) throw error;
    return { refusal };
  }
}
