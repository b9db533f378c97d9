import { realpath } from 'node:fs/promises';
import type { Client } from '../../client/client.ts';
import { OutcomeUnknownError } from '../../client/errors.ts';
import { serviceOf } from '../../client/service-state.ts';
import { formatDuration } from '../../system/time-text.ts';
import { createProgress } from '../animals/reading.ts';
import { connectionFor, reportTarget, targetLabel, withClient } from '../connection/connect.ts';
import { wait } from '../connection/waits.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import type { StatusVariants } from '../output/console.ts';
import { drawBar, formatCount, MAX_LISTED_NAMES } from '../output/text.ts';
import { type Connection, readProfile } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { canConfirm, confirm } from '../prompts/prompt.ts';
import { type InputOptions, readPetFile } from '../rows/read-file.ts';
import { chooseLedger, type Ledger, type LedgerFile, openLedger, readLedger } from './ledger.ts';
import { type Plan, plan } from './plan.ts';
import {
  addedText,
  commandToRepeat,
  namesOf,
  nothingToDo,
  reportRepeatedAndChanged,
  type Setting,
  stopError,
  summarize,
  totalsText,
  writePreview,
  writeResults,
} from './report.ts';
import { carryOut, finish } from './send.ts';

export type ImportRequest = InputOptions & {
  dryRun?: boolean;
  addAgain?: boolean;
  skipAdded?: boolean;
  output?: string;
  /** Does not ask before rows are sent to the service of profile prod. */
  yes?: boolean;
};

/** The maximum number of rows in a file, because all of them are kept in memory. */
const MAX_ROWS = 1_000_000;

/** `pets import`: checks every row, adds the rows that may be sent (not in a dry run), and reports each result. */
export async function importFile(request: ImportRequest, context: CommandContext): Promise<number> {
  const { console } = context;
  const connection = connectionFor(context);
  const input = await readPetFile(request, context, MAX_ROWS);
  const output = await realpath(request.output ?? '').catch(() => undefined);
  if (output !== undefined && output === input.path)
    throw usageError(`--output would replace ${input.name}, the file to import`, 'choose another file');
  if (input.rows.length === 0) {
    if (console.json) await console.writeJson([]);
    console.notice(`nothing to do: ${input.name} has no rows`);
    return exitCodes.ok;
  }
  const { dryRun: isDryRun = false, yes = false, addAgain, skipAdded } = request;
  const choice = addAgain ? 'add-again' : skipAdded ? 'skip-added' : undefined;
  const setting: Setting = { input, connection, context, choice };
  const place = chooseLedger(context, connection.baseUrl, isDryRun);
  if (isDryRun) return dryRun(setting, await readLedger(place));
  const file = await openLedger(place);
  try {
    return await importRows(setting, file, yes);
  } finally {
    await file.close();
  }
}

/** The plan for the file. @throws CliError if the import stops */
function planFor(setting: Setting, ledger: Ledger): Plan {
  const { input, context, choice } = setting;
  const planned = plan(input.rows, ledger, { choice, source: input.path, now: context.clock.now() });
  if (planned.mode === 'ask') throw stopError(setting, planned);
  return planned;
}

/** Sends the rows that may be sent, and reports the result of each row. */
async function importRows(setting: Setting, file: LedgerFile, yes: boolean): Promise<number> {
  const { input, connection, context, choice } = setting;
  const { console, clock } = context;
  const { ledger } = file;
  const planned = planFor(setting, ledger);
  const { groups, known, mode, changes } = planned;
  const { pending } = groups;
  let stop: CliError | undefined;
  if (pending.length === 0) await finish(planned, file, clock.now());
  else {
    const isContinued = ledger.imports.has(planned.its.seq);
    if (isContinued || groups.added.length + groups.withId.length > 0) {
      const start = isContinued ? 'continuing an earlier import: ' : '';
      const left = pending.length > MAX_LISTED_NAMES ? '' : `; to add: ${namesOf(input, pending)}`;
      console.notice(`${start}${addedText(setting, planned)}${left}`);
    }
    if (isContinued && choice === 'add-again')
      console.notice(
        'this run only completes the earlier import; to add every row again, run the command once more after it',
      );
    reportRepeatedAndChanged(setting, planned);
    const sentAgain = mode === 'again' ? known.size : 0;
    const again = changes.reduce((sum, { changed }) => sum + changed.size, sentAgain);
    const rows = `${atMost(planned)}${formatCount(pending.length, 'row')}${again > 0 ? `, ${again} of them again,` : ''}`;
    const wasAsked = !yes && (await confirmProduction(setting, rows));
    if (!wasAsked) reportTarget(context, connection, `adding ${rows} at`);
    stop = await send(setting, planned, file);
  }
  await writeResults(setting, ledger, planned);
  await console.finish();
  if (stop) throw stop;
  return summarize(setting, planned);
}

/** Returns `at most ` if the run may find that some rows were added before, and then does not send them; else empty. */
const atMost = ({ groups }: Plan): string => (groups.open.length > 0 ? 'at most ' : '');

/** Prints the rows that the command would send without `--dry-run`, and sends nothing. */
async function dryRun(setting: Setting, ledger: Ledger): Promise<number> {
  const { input, connection, context } = setting;
  const planned = planFor(setting, ledger);
  const { pending, open } = planned.groups;
  await writePreview(setting, pending);
  if (pending.length === 0) context.console.notice(nothingToDo(setting, planned));
  else {
    const isAllNew = pending.length - open.length === input.rows.length;
    const already = isAllNew ? '' : `; ${addedText(setting, planned)}`;
    context.console.notice(
      `dry run: would add ${atMost(planned)}${pending.length} of ${formatCount(input.rows.length, 'row')} from ${input.name} at ${targetLabel(connection)}${already}`,
    );
    reportRepeatedAndChanged(setting, planned);
  }
  return exitCodes.ok;
}

/**
 * Asks at a terminal before rows are sent to the service of profile prod, because animals cannot be removed again. `rows`
 * says how many. Returns whether the user was asked.
 *
 * @throws CliError if the answer is no; the errors of `promptText`
 */
async function confirmProduction({ context, connection, input }: Setting, rows: string): Promise<boolean> {
  if (!isProduction(context, connection)) return false;
  // If the rows came from a pipe, standard input cannot be used for the answer.
  const terminal = input.path === undefined ? context.openTerminal() : undefined;
  try {
    const asking = { ...context, stdin: terminal ?? context.stdin };
    if (!canConfirm(asking)) return false;
    const question = `This cannot be undone. Add ${rows} at ${targetLabel(connection)}?`;
    if (await confirm(asking, question)) return true;
  } finally {
    terminal?.destroy();
  }
  throw new CliError('not confirmed; no row was sent', {
    code: 'declined',
    hint: 'to see what would be added, use --dry-run',
  });
}

/** Whether the rows go to the service of profile prod, whichever profile or variable names it. */
function isProduction(context: CommandContext, { keySource, baseUrl }: Connection): boolean {
  if (keySource === 'profile prod') return true;
  try {
    const prod = readProfile(context, 'prod');
    return prod !== undefined && serviceOf(prod.baseUrl) === serviceOf(baseUrl);
  } catch {
    // The command does not need the profile, so a damaged one does not matter.
    return false;
  }
}

/** Carries out the plan, shows the progress, and says how to continue if the run ends early. */
async function send(setting: Setting, planned: Plan, file: LedgerFile): Promise<CliError | undefined> {
  const { input, connection, context } = setting;
  const { console, clock, globals } = context;
  const bar = createProgressBar(context, input.rows.length);
  const resume = `to continue: ${commandToRepeat(context)}`;
  const reportStopped = () => {
    bar.end();
    console.notice(`${totalsText(setting, planned)}; ${resume}`);
  };
  const work = (client: Client, signal: AbortSignal) =>
    carryOut({
      ...{ plan: planned, file, client, clock, apiKey: connection.key, timeout: globals.timeout * 1_000 },
      progress: createProgress(context),
      notice: console.notice,
      wait(milliseconds) {
        const until = clock.now() + milliseconds;
        return wait(context, { reason: 'earlier requests', milliseconds, until }, signal);
      },
      onSending: (rows) => bar.begin(input.rows.length - rows),
      onResult: bar.advance,
    });
  try {
    const stop = await withClient(context, connection, work, { showWait: bar.pause });
    if (stop) reportStopped();
    else bar.end();
    return stop;
  } catch (error) {
    reportStopped();
    throw toRunError(error, resume);
  }
}

/** Replaces the hint of an error after which rows may have been added. Returns any other error unchanged. */
function toRunError(error: unknown, resume: string): unknown {
  if (!(error instanceof CliError && error.cause instanceof OutcomeUnknownError)) return error;
  // The usual hint is about --idempotency-key, but the next run derives the idempotency key from the ledger.
  const hint = `no row is added twice; ${resume}`;
  if (error.code !== 'interrupted') return error.withHint(hint);
  const message = 'interrupted; the rows that were being sent may have been added';
  return new CliError(message, { code: 'interrupted', mayHaveBeenAdded: true, hint });
}

/** The minimum time between two progress lines, which are written if there is no bar. */
const LINE_EVERY_MS = 15_000;
const MINUTE_MS = 60_000;

/** Shows the progress as a bar if the console has a status line, and otherwise as a line at most every 15 seconds. */
export function createProgressBar(
  { console, clock }: Pick<CommandContext, 'console' | 'clock'>,
  rows: number,
) {
  /** When the first row was sent, and the number of rows that were done before. */
  let start = { at: clock.now(), done: 0 };
  let { at: writtenAt, done } = start;
  let reason: StatusVariants | undefined;

  function speedText(): string | undefined {
    const minutes = (clock.now() - start.at) / MINUTE_MS;
    // Rate limits are usually per minute, so the speed of less than a minute shows too little.
    if (minutes < 1 || done === start.done) return undefined;
    const rate = (done - start.done) / minutes;
    return `${Math.round(rate)} rows/min, ${formatDuration(((rows - done) / rate) * MINUTE_MS)} left`;
  }
  const text = () => [`${done}/${rows}`, reason?.[0], speedText()].filter(Boolean).join('; ');
  /** Draws `[####----] 120/500; waiting 12 s …; 58 rows/min, 6 min 33 s left`, or less on a narrow terminal. */
  function draw(): void {
    const count = `${done}/${rows}`;
    const reasons = (reason ?? []).map((each) => `${count}; ${each}`);
    const bar = drawBar(done, rows);
    const withBar = reasons.slice(0, 1).map((each) => `${bar} ${each}`);
    console.status([`${bar} ${text()}`, ...withBar, ...reasons, `${bar} ${count}`, count]);
  }

  return {
    /** Begins to measure the speed, when the first of the rows is sent. `already` rows are done. */
    begin(already: number): void {
      start = { at: clock.now(), done: already };
      ({ at: writtenAt, done } = start);
    },
    /** Counts one more row as done. */
    advance(): void {
      done++;
      if (console.hasStatus) draw();
      else if (clock.now() - writtenAt >= LINE_EVERY_MS) {
        writtenAt = clock.now();
        console.event({ progress: { done, rows } }, console.errorColors.dim(text()), 2);
      }
    },
    /** Shows why the run waits. `line` is undefined when the run continues. */
    pause(line: StatusVariants | undefined): void {
      reason = line;
      draw();
    },
    end: () => console.status(undefined),
  };
}
