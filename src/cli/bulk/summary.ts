import { exitCodes } from '../errors/exit-codes.ts';
import type { Console } from '../output/console.ts';
import type { Outcome } from './add-rows.ts';
import { dateOf } from './job-changed.ts';
import { rowsText } from './job-errors.ts';
import type { Job } from './job-types.ts';

/** The last line of a run, and its exit code. */
export function summarize(console: Console, job: Job, { nothingSince }: Outcome): number {
  const { added, failed, unknown } = job.counts();
  const parts = [nothingSince ? nothingText(job, nothingSince) : `${added} of ${job.rows} rows are added`];
  if (failed > 0) parts.push(`${failed} failed: the same command tries those again`);
  if (unknown > 0) parts.push(`${unknown} may have been added: look with pets list --all`);
  console.notice(parts.join('; '));
  return failed + unknown > 0 ? exitCodes.someFailed : exitCodes.ok;
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
