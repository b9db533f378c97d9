import { CliError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import type { Console } from '../output/console.ts';
import type { Outcome } from './add-rows.ts';
import { dateOf } from './job-changed.ts';
import { rowsText } from './job-errors.ts';
import type { Job } from './job-types.ts';

/** The last line of a run. @throws CliError exit 8 where rows are not added, or perhaps not */
export function summarize(console: Console, job: Job, { nothingSince }: Outcome): number {
  const { added, failed, unknown } = job.counts();
  const parts = [nothingSince ? nothingText(job, nothingSince) : `${added} of ${job.rows} rows are added`];
  const hints: string[] = [];
  if (failed > 0) {
    parts.push(`${failed} failed`);
    hints.push('the same command tries the failed ones again');
  }
  if (unknown > 0) {
    parts.push(`${unknown} may have been added`);
    hints.push('look for those that may have been added: pets list --all');
  }
  const message = parts.join('; ');
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

function nothingText(job: Job, since: Date): string {
  const { added } = job.counts();
  const which = added === job.rows ? `all ${rowsText(added)}` : `${added} of ${rowsText(job.rows)}`;
  const when = job.taken > 0 ? 'added by earlier runs' : `added on ${dateOf(since.toISOString())}`;
  return `nothing was sent now: ${which} ${job.rows === 1 ? 'was' : 'were'} ${when}`;
}

/** An input without rows is none that anything could be said of later. `name` is what the user called it. */
export async function tellNoRows(console: Console, name: string): Promise<number> {
  if (console.json) await console.writeJson([]);
  console.notice(`nothing is sent: ${name} has no rows`);
  return exitCodes.ok;
}
