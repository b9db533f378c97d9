import { randomBytes } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import type { Client } from '../../client/client.ts';
import { InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { hashKey } from '../../store/keys/keys.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { connectionFor, reportTarget, targetLabel, withClient } from '../connection/connect.ts';
import type { Context } from '../core/context.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { shellQuote } from '../core/shell-words.ts';
import { CallError } from '../errors/call-error.ts';
import { formatCount } from '../output/format-count.ts';
import { formatMinute } from '../output/time.ts';
import { listAllCommand } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { type InputOptions, type PetFile, readPetFile } from '../rows/read-file.ts';
import { chooseBulkDirectory } from './choose-directory.ts';
import { confirmProduction } from './confirm-production.ts';
import { dryRun } from './dry-run.ts';
import { type BulkRun, openRun, type RunOptions } from './open-run.ts';
import { countKind, type PlannedRow } from './plan.ts';
import { createProgressBar } from './progress-bar.ts';
import { reportGone, summarize, writeResults } from './report.ts';
import { type Stop, toStopError } from './schedule.ts';
import { pendingRows, type SendOptions, sendRows } from './send.ts';
import { settleRows, type Target } from './settle-rows.ts';

export type BulkRequest = InputOptions & {
  dryRun?: boolean;
  addAgain?: boolean;
  skipAdded?: boolean;
  output?: string;
  /** Does not ask before rows are sent to profile prod. */
  yes?: boolean;
};

/** All rows are kept in memory. A million rows take about 0.6 GB, or 1.2 GB if the ledger has an entry for each row. */
const MAX_ROWS = 1_000_000;

/** Checks every row of a file, adds the rows that may be sent, and reports the result of each row. */
export async function importFile(request: BulkRequest, context: CommandContext): Promise<number> {
  const { console } = context;
  const { addAgain = false, skipAdded = false } = request;
  const connection = connectionFor(context);
  const input = await readPetFile(request, context, MAX_ROWS);
  if (input.path !== undefined && input.path === (await realPathOf(request.output))) {
    throw usageError(`--output would replace ${input.name}, the file to import`, 'choose another file');
  }
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
  const options: RunOptions = {
    directory: chooseBulkDirectory(context, {
      baseUrl: connection.baseUrl,
      input,
      dryRun: request.dryRun === true,
    }),
    files: realFileSystem,
    now: context.clock.now(),
    random: randomBytes,
    baseUrl: connection.baseUrl,
    apiKeyHash: hashKey(connection.key),
    addAgain,
    skipAdded,
    skipCommand: commandWith(context, '--skip-added'),
    timeZone: console.timeZone,
  };
  if (request.dryRun) return dryRun(console, input, options, targetLabel(connection));
  return addRows(input, request, options, { connection, context });
}

/** Settles and sends the rows of an input, and reports the result of each. */
async function addRows(
  input: PetFile,
  { skipAdded = false, yes = false }: BulkRequest,
  options: RunOptions,
  target: Target,
): Promise<number> {
  const { connection, context } = target;
  const { console, clock } = context;
  const run = await openRun(input, options);
  const { plan, file, newlyGone } = run;
  try {
    /** The rows that this run settles or sends. */
    const own = plan.rows.filter(({ entry }) => entry?.kind !== 'added');
    const highestId = await settleRows(run, options, target);
    const pending = pendingRows(own);
    const isRerun = pending.length === 0;
    const stop = isRerun
      ? undefined
      : await sendPending(run, pending, {
          ...target,
          highestId,
          yes,
          isPiped: input.path === undefined,
        });
    if (!stop) await file.append({ kind: 'finished', at: new Date(clock.now()).toISOString() });
    // With --skip-added, print only rows of this run. If this run has no rows, JSON output is an empty array.
    const shown = skipAdded ? own : plan.rows;
    if (shown.length > 0 || console.json) await writeResults(console, file.header, { rows: shown, isRerun });
    reportGone(console, input.name, newlyGone);
    if (stop) throw toStopError(stop);
    await console.finish();
    const unknownHint = `check the rows that may have been added: ${listAllCommand(connection, context.platform)}; the same command compares them with the inventory again`;
    return summarize(console, plan.rows, { isRerun, unknownHint, target: targetLabel(connection) });
  } finally {
    await run.close();
  }
}

const realPathOf = async (path = ''): Promise<string | undefined> => realpath(path).catch(() => undefined);

/** The command line that the user typed, without --add-again and --dry-run, and with `more` at its end. */
function commandWith({ argv, platform }: Pick<Context, 'argv' | 'platform'>, ...more: string[]): string {
  const dropped = ['--add-again', '--dry-run', ...more];
  return shellQuote(['pets', ...argv.filter((word) => !dropped.includes(word)), ...more], platform);
}

/** Sends rows, shows the progress, and reports how to resume the run if it ends early. */
async function sendPending(
  { plan, known, file }: BulkRun,
  pending: readonly PlannedRow[],
  {
    connection,
    context,
    yes,
    isPiped,
    ...options
  }: Target & Pick<SendOptions, 'highestId'> & { yes: boolean; isPiped: boolean },
): Promise<Stop | undefined> {
  const { console, clock } = context;
  const total = plan.rows.length;
  const { sha256, startedAt } = file.header;
  const added = () => countKind(plan.rows, 'added');
  const before = `${added()} of ${formatCount(total, 'row')} already added`;
  if (known && known.entries.size > 0 && known.header.sha256 === sha256)
    console.notice(`resuming the run of ${formatMinute(startedAt, console.timeZone())}: ${before}`);
  else if (added() > 0) console.notice(`${before}; skipping them`);
  const wasAsked = !yes && (await confirmProduction(context, connection, { rows: pending.length, isPiped }));
  if (!wasAsked) reportTarget(context, connection, `adding ${formatCount(pending.length, 'row')} at`);
  const bar = createProgressBar(context, { rows: total, done: total - pending.length });
  const settings = { apiKey: connection.key, clock, onResult: bar.advance, ...options };
  const resume = `to resume: ${commandWith(context)}`;
  const reportStopped = () => {
    bar.end();
    console.notice(`added ${added()} of ${formatCount(total, 'row')}; ${resume}`);
  };
  try {
    const send = (client: Client) => sendRows(pending, file, { client, ...settings });
    const stop = await withClient(context, connection, send, { showWait: bar.pause });
    if (stop) reportStopped();
    else bar.end();
    return stop;
  } catch (error) {
    reportStopped();
    throw toRunError(error, resume, countKind(plan.rows, 'intent'));
  }
}

/**
 * Replaces the hint of an error after which rows may have been added. `resume` is the hint that shows how to resume the
 * run. `open` is the number of rows that were being sent, so their outcome is ambiguous. Returns any other error
 * unchanged.
 */
function toRunError(error: unknown, resume: string, open: number): unknown {
  if (!(error instanceof CallError && error.cause instanceof OutcomeUnknownError)) return error;
  const { cause, connection } = error;
  // The usual hint is about --idempotency-key, but a rerun derives the idempotency key from the ledger.
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
