import { randomBytes } from 'node:crypto';
import type { Client } from '../../client/client.ts';
import { InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { connectionFor, reportTarget, targetLabel, withClient } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { exitCodes } from '../errors/codes.ts';
import { CallError, CliError, usageError } from '../errors/errors.ts';
import { shellQuote } from '../output/shell-words.ts';
import { type Connection, listAllCommand } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { type InputOptions, readPetFile } from '../rows/read-pet-file.ts';
import { chooseBulkDirectory } from './choose-directory.ts';
import { dryRun } from './dry-run.ts';
import { type BulkRun, openRun } from './open-run.ts';
import { countKind, type PlannedRow } from './plan.ts';
import { createProgressBar } from './progress-bar.ts';
import { formatInstant, formatRows, reportGone, summarize, writeResults } from './report.ts';
import { type Stop, toStopError } from './schedule.ts';
import { pendingRows, type SendOptions, sendRows } from './send.ts';
import { type Settled, settleRows } from './settle-rows.ts';

export type BulkRequest = InputOptions & {
  dryRun?: boolean;
  restart?: boolean;
  skipAdded?: boolean;
  keepGoing?: boolean;
  settle?: boolean;
};

/** All rows are kept in memory. A million rows take about 0.6 GB, or 1.2 GB if the ledger has an entry for each row. */
const MAX_ROWS = 1_000_000;

/** `pets add --from`: checks every row, adds the rows that may be sent, and reports the result of each row. */
export async function addFrom(request: BulkRequest, context: CommandContext): Promise<number> {
  const { console, clock } = context;
  const { restart = false, skipAdded = false, keepGoing = false, settle = false } = request;
  if (restart && skipAdded) {
    throw usageError(
      '--restart and --skip-added cannot be combined',
      '--skip-added adds the rows that were not added before; --restart adds every row',
    );
  }
  if (restart && settle) {
    throw usageError(
      '--restart and --settle cannot be combined',
      '--settle compares the rows of earlier runs; --restart ignores earlier runs',
    );
  }
  const connection = connectionFor(context);
  const input = await readPetFile(request, context, MAX_ROWS);
  if (skipAdded && input.path === undefined) {
    throw usageError(
      `--skip-added needs a file path; it cannot recognize an earlier version of ${input.name}`,
      'write the input to a file, and use the same path each time',
    );
  }
  if (input.rows.length === 0) {
    if (console.json) await console.writeJson([]);
    console.notice(`nothing to do: ${input.name} has no rows`);
    return exitCodes.ok;
  }
  const options = {
    directory: chooseBulkDirectory(context, {
      baseUrl: connection.baseUrl,
      input,
      dryRun: request.dryRun === true,
    }),
    files: realFileSystem,
    now: clock.now(),
    random: randomBytes,
    baseUrl: connection.baseUrl,
    apiKeyHash: hashKey(connection.key),
    restart,
    skipAdded,
    skipCommand: commandWith(context, '--skip-added'),
  };
  if (request.dryRun) return dryRun(console, input, { ...options, settle }, targetLabel(connection));
  const run = await openRun(input, options);
  try {
    const settled: Settled = settle
      ? await settleRows(run, options, { connection, context })
      : { rows: [], highestId: undefined };
    const pending = pendingRows(run.plan.rows);
    const isRerun = pending.length === 0;
    const stop = isRerun
      ? undefined
      : await sendPending(run, pending, { connection, context, keepGoing, highestId: settled.highestId });
    if (!stop) await run.file.append({ kind: 'finished', at: new Date(clock.now()).toISOString() });
    // With --skip-added, print only rows of this run. If this run has no rows, JSON output is an empty array.
    const own = new Set([...settled.rows, ...pending]);
    const shown = skipAdded ? run.plan.rows.filter((row) => own.has(row)) : run.plan.rows;
    if (shown.length > 0 || console.json)
      await writeResults(console, run.file.header, { rows: shown, isRerun });
    reportGone(console, input.name, run.newlyGone);
    if (stop) throw toStopError(stop, (option) => commandWith(context, option));
    const unknownHint = settle
      ? `check the rows that may have been added: ${listAllCommand(connection, context.platform)}`
      : `to compare the rows that may have been added with the inventory: ${commandWith(context, '--settle')}`;
    return summarize(console, run.plan.rows, { isRerun, unknownHint });
  } finally {
    await run.close();
  }
}

/** The command line that the user typed, without --restart and --dry-run, and with `more` at its end. */
function commandWith({ argv, platform }: Pick<Context, 'argv' | 'platform'>, ...more: string[]): string {
  const dropped = ['--restart', '--dry-run', ...more];
  return shellQuote(['pets', ...argv.filter((word) => !dropped.includes(word)), ...more], platform);
}

async function sendPending(
  { plan, known, file }: BulkRun,
  pending: readonly PlannedRow[],
  {
    connection,
    context,
    ...options
  }: { connection: Connection; context: CommandContext } & Pick<SendOptions, 'keepGoing' | 'highestId'>,
): Promise<Stop | undefined> {
  const { console, clock } = context;
  const total = plan.rows.length;
  const { sha256, startedAt } = file.header;
  const added = countKind(plan.rows, 'added');
  const before = `${added} of ${formatRows(total)} already added`;
  if (known?.header.sha256 === sha256)
    console.notice(`resuming the run of ${formatInstant(startedAt)}: ${before}`);
  else if (added > 0) console.notice(`${before}; skipping them`);
  reportTarget(context, connection, `adding ${formatRows(pending.length)} at`);
  const bar = createProgressBar(context, { rows: total, done: total - pending.length });
  const settings = { apiKey: connection.key, clock, onSettled: bar.advance, ...options };
  const resume = `to resume: ${commandWith(context)}`;
  const reportStopped = () =>
    console.notice(`added ${countKind(plan.rows, 'added')} of ${formatRows(total)}; ${resume}`);
  try {
    const send = (client: Client) => sendRows(pending, file, { client, ...settings });
    const stop = await withClient(context, connection, send, { showWait: bar.pause });
    bar.end();
    if (stop) reportStopped();
    return stop;
  } catch (error) {
    bar.end();
    reportStopped();
    const open = countKind(plan.rows, 'intent');
    throw error instanceof CallError ? toRunError(error, resume, open) : error;
  }
}

/**
 * Converts the error of a request to an error of the run. `resume` is the hint that shows how to resume the run. `open`
 * is the number of rows that were being sent, so their outcome is ambiguous.
 */
function toRunError(error: CallError, resume: string, open: number): unknown {
  const { cause, connection } = error;
  if (cause instanceof OutcomeUnknownError) {
    // Replace the hint about --idempotency-key, because a rerun derives the idempotency key from the ledger.
    if (!(cause.cause instanceof InterruptedError)) return new CallError(cause, connection, { hint: resume });
    const [rows, it, row] =
      open === 1 ? ['one row was', 'it', 'row is'] : [`${open} rows were`, 'they', 'rows are'];
    return new CliError(`interrupted; ${rows} being sent; ${it} may or may not have been added`, {
      code: 'interrupted',
      mayHaveBeenAdded: true,
      hint: cause.supportsIdempotency
        ? `rerun the command to resume; the ${row} not added twice`
        : `rerun the command to resume; the ${row} not sent again but reported as unknown, because this service does not support idempotency keys`,
    });
  }
  return error;
}
