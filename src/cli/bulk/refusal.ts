import { CliError, usageError } from '../errors/errors.ts';
import { allEntries, isSettled, type Ledger } from './ledger.ts';
import { countSent, countToSend, type Plan } from './plan.ts';

/** What decides whether a run may begin. */
export type Decision = {
  /** What the user calls the input. */
  name: string;
  sha256: string;
  baseUrl: string;
  skipAdded: boolean;
  /** The command of this run, with `--skip-added`. */
  skipCommand: string;
  plan: Plan;
  known: Ledger | undefined;
  /** Another ledger that knows the same content. */
  other: Ledger | undefined;
};

/** Why a run without `--restart` is refused; undefined if it may begin. */
export function refusalOf(decision: Decision): CliError | undefined {
  const { name, sha256, baseUrl, skipAdded, skipCommand, plan, known, other } = decision;
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
    const runOf = ({ header }: Ledger) => `${header.source} (${formatInstant(header.startedAt)})`;
    return changedError(
      `${name} matches two earlier runs: ${runOf(known)} by its path, and ${runOf(other)} by its content`,
      `--skip-added continues the first run and would add ${formatRows(toSend)}; --restart would add all ${formatRows(plan.rows.length)}`,
    );
  }
  const change = known.header.sha256 === sha256 ? undefined : describeChange(plan, known);
  if (change === undefined) return undefined;
  const sent = countSent(plan);
  const restart = sent === 0 ? '' : ` (--restart would add ${formatRows(sent)} a second time)`;
  return changedError(
    `${name} has changed${change}`,
    `to add only the rows that were not added yet: ${skipCommand}${restart}`,
  );
}

const changedError = (message: string, hint: string) => new CliError(message, { code: 'file_changed', hint });

/** Undefined if the last run was complete, and the input has none of the rows that were sent. */
function describeChange(plan: Plan, ledger: Ledger): string | undefined {
  const { startedAt, rows } = ledger.header;
  const date = formatInstant(startedAt);
  const sent = countSent(plan);
  const wereSent = sent > 0 || plan.gone.some(({ kind }) => kind !== 'failed' && kind !== 'notSent');
  if (ledger.finishedAt === undefined && wereSent) {
    const done = [...allEntries(ledger)].filter(
      (entry) => isSettled(entry) && entry.kind !== 'notSent',
    ).length;
    return ` since the run of ${date}, which stopped after ${done} of ${formatRows(rows)}`;
  }
  if (sent === 0) return undefined;
  const which = sent === 1 ? 'one of its rows was' : `${sent} of its rows were`;
  return `; ${which} already ${plan.counts.added === sent ? 'added' : 'sent'} on ${date}`;
}

/** Formats an ISO 8601 time as `2026-11-20 12:00 UTC`. */
export const formatInstant = (instant: string): string => `${instant.slice(0, 16).replace('T', ' ')} UTC`;

export const formatRows = (count: number): string => `${count} ${count === 1 ? 'row' : 'rows'}`;
