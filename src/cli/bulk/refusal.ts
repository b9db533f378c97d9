import { CliError, usageError } from '../core/errors.ts';
import { formatCount } from '../output/format-count.ts';
import { formatMinute } from '../output/time.ts';
import type { Ledger } from './ledger.ts';
import { countSent, countToSend, type Plan } from './plan.ts';

/**
 * `name` is the name of the input in messages. `skipCommand` is the command line of this run with `--skip-added`.
 * `timeZone` is the time zone of times in messages.
 */
type Request = {
  name: string;
  sha256: string;
  baseUrl: string;
  skipAdded: boolean;
  skipCommand: string;
  timeZone(): string;
};

/**
 * Why a run without `--add-again` is refused; undefined if the run may begin. `known` is the ledger that the run would
 * use. `other` is a different ledger that the same content used before.
 */
export function refusalOf(
  { name, sha256, baseUrl, skipAdded, skipCommand, timeZone }: Request,
  plan: Plan,
  known: Ledger | undefined,
  other: Ledger | undefined,
): CliError | undefined {
  if (skipAdded) {
    if (known) return undefined;
    return usageError(
      `--skip-added: found no earlier run of ${name} for ${baseUrl}, so no row can be skipped`,
      'use the path that the file had in the earlier run, or omit --skip-added if no row was added yet',
    );
  }
  const toSend = countToSend(plan);
  if (known === undefined || toSend === 0) return undefined;
  if (other) {
    const runOf = ({ header }: Ledger) => `${header.source} (${formatMinute(header.startedAt, timeZone())})`;
    return changedError(
      `${name} matches two earlier runs: ${runOf(known)} by its path, and ${runOf(other)} by its content`,
      `--skip-added continues the first run and would add ${formatCount(toSend, 'row')}; --add-again would add all ${formatCount(plan.rows.length, 'row')}`,
    );
  }
  const change = known.header.sha256 === sha256 ? undefined : describeChange(plan, known, timeZone());
  if (change === undefined) return undefined;
  const sent = countSent(plan);
  const restart = sent === 0 ? '' : ` (--add-again would add ${formatCount(sent, 'row')} a second time)`;
  return changedError(
    `${name} has changed${change}`,
    `to add only the rows that were not added yet: ${skipCommand}${restart}`,
  );
}

const changedError = (message: string, hint: string) => new CliError(message, { code: 'file_changed', hint });

/**
 * How the file has changed. Undefined if the change does not matter, because earlier runs certainly added no row of the
 * file, and the last run either finished or certainly added nothing.
 */
function describeChange(
  plan: Plan,
  { header, entries, finishedAt }: Ledger,
  zone: string,
): string | undefined {
  const date = formatMinute(header.startedAt, zone);
  const sent = countSent(plan);
  const wereSent = sent > 0 || plan.gone.some(({ kind }) => kind !== 'failed' && kind !== 'notSent');
  if (finishedAt === undefined && wereSent) {
    const done = [...entries.values()].filter(({ kind }) => kind !== 'intent' && kind !== 'notSent').length;
    return ` since the run of ${date}, which stopped after ${done} of ${formatCount(header.rows, 'row')}`;
  }
  if (sent === 0) return undefined;
  const which = sent === 1 ? 'one of its rows was' : `${sent} of its rows were`;
  return `; ${which} already ${plan.counts.added === sent ? 'added' : 'sent'} on ${date}`;
}
