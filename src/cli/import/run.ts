import { realpath } from 'node:fs/promises';
import type { Client } from '../../client/client.ts';
import { OutcomeUnknownError } from '../../client/errors.ts';
import { serviceOf } from '../../client/service-state.ts';
import { formatDuration } from '../../system/time-text.ts';
import { connectionFor, reportTarget, targetLabel, withClient } from '../connection/connect.ts';
import { wait } from '../connection/reports.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { drawBar, formatCount } from '../output/text.ts';
import { type Connection, readProfile } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { canConfirm, confirm, promptText } from '../prompts/prompt.ts';
import { readPetFile } from '../rows/read-file.ts';
import { chooseLedger, type Ledger, type LedgerFile, openLedger, readLedger } from './ledger.ts';
import { type Choice, openAt, type Plan, pendingOf, plan } from './plan.ts';
import {
  announce,
  commandToRepeat,
  nothingToDo,
  type Setting,
  stopError,
  summarize,
  totalsText,
  versionText,
  writePreview,
  writeResults,
} from './report.ts';
import { carryOut, finish } from './send.ts';

export type ImportRequest = {
  /** A path, or `-` for standard input. */
  file: string;
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
  const input = await readPetFile(request.file, context, MAX_ROWS);
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
  const rows = input.rows.filter(({ id }) => id === undefined);
  const withId = input.rows.length - rows.length;
  if (withId > 0 && choice !== 'add-again') {
    const reason = `${formatCount(withId, 'row')} ${withId === 1 ? 'has' : 'have'} an id, and the service cannot change animals`;
    if (choice === undefined)
      throw stopError(setting, reason, { few: 'rows without an id', all: 'every row as a new animal' });
    console.notice(`skipping rows, because ${reason}; to add a new animal, leave its id empty`);
    input.rows = rows;
  }
  const place = chooseLedger(context, connection.baseUrl, isDryRun);
  if (isDryRun) return importRows(setting, await readLedger(place), yes);
  const file = await openLedger(place);
  try {
    return await importRows(setting, file.ledger, yes, file);
  } finally {
    await file.close();
  }
}

/** Sends the rows that may be sent, and reports the result of each row. Without `file`, only prints what it would send. */
async function importRows(
  setting: Setting,
  ledger: Ledger,
  yes: boolean,
  file?: LedgerFile,
): Promise<number> {
  const { input, context, connection } = setting;
  const { console, clock } = context;
  const planFor = (choice: Choice) =>
    plan(input.rows, ledger, { choice, file: input.path, now: clock.now() });
  let planned = planFor(setting.choice);
  const { mustAsk } = planned;
  if (mustAsk) {
    const choice = yes || !file ? undefined : await askForChoice(setting, planned);
    const add = { few: 'new rows', all: 'every row again' };
    if (choice === undefined) throw stopError(setting, versionText(setting, planned), add);
    planned = planFor(choice);
  }
  const pending = pendingOf(planned);
  const target = targetLabel(connection);
  if (!file) {
    await writePreview(setting, pending);
    const rows = `${atMost(planned)}${pending.length} of ${formatCount(input.rows.length, 'row')}`;
    if (pending.length === 0) console.notice(nothingToDo(setting, planned));
    else console.notice(`dry run: would add ${rows} from ${input.name} at ${target}`);
    if (pending.length > 0) announce(setting, planned);
    return exitCodes.ok;
  }
  let stop: CliError | undefined;
  if (pending.length === 0) await finish(planned, file.append, clock.now());
  else {
    announce(setting, planned);
    const again = planned.repeated.size > 0 ? `, ${planned.repeated.size} of them again,` : '';
    const rows = `${atMost(planned)}${formatCount(pending.length, 'row')}${again}`;
    const wasAsked = mustAsk || (!yes && (await confirmProduction(setting, rows)));
    if (!wasAsked) reportTarget(context, connection, `adding ${rows} at`);
    stop = await send(setting, planned, file);
  }
  await writeResults(setting, planned);
  await console.finish();
  if (stop) throw stop;
  return summarize(setting, planned, pending.length === 0);
}

/** Returns `at most ` if the run may find that some rows were added before, and then does not send them; else empty. */
const atMost = (planned: Plan): string =>
  planned.seqs.some((_, position) => openAt(planned, position)) ? 'at most ' : '';

/** Asks what to do with the known rows. Returns undefined without a terminal. @throws CliError if the answer is to stop */
async function askForChoice(setting: Setting, planned: Plan): Promise<Choice | undefined> {
  const { context, connection } = setting;
  if (!canConfirm(context)) return undefined;
  context.console.notice(
    `${versionText(setting, planned)}; what is added at ${targetLabel(connection)} stays`,
  );
  const question = 'Skip the known rows, add them again, or stop? [skip/again/stop]';
  const isAnswer = (line: string) => /^\s*(?:skip|again|stop)?\s*$/i.test(line);
  const answer = await promptText(context, question, (line) =>
    isAnswer(line) ? undefined : 'type skip, again or stop',
  );
  if (/skip/i.test(answer)) return 'skip-added';
  if (/again/i.test(answer)) return 'add-again';
  throw declinedError();
}

const declinedError = (): CliError =>
  new CliError('not confirmed; no row was sent', {
    code: 'declined',
    hint: 'to see what would be added, use --dry-run',
  });

/** Asks at a terminal before rows are sent to prod. Returns whether the user was asked. @throws CliError if the answer is no */
async function confirmProduction(setting: Setting, rows: string): Promise<boolean> {
  const { context, connection } = setting;
  if (!isProduction(context, connection) || !canConfirm(context)) return false;
  const question = `This cannot be undone. Add ${rows} at ${targetLabel(connection)}?`;
  if (await confirm(context, question)) return true;
  throw declinedError();
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
    console.notice(`${totalsText(planned)}; ${resume}`);
  };
  const work = (client: Client, signal: AbortSignal) =>
    carryOut({
      ...{ plan: planned, file, client, clock, apiKey: connection.key, timeout: globals.timeout * 1_000 },
      showStatus: console.status,
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
    if (!(error instanceof CliError && error.cause instanceof OutcomeUnknownError)) throw error;
    // The usual hint is about --idempotency-key, but the next run uses the idempotency key of the ledger.
    const hint = `no row is added twice; ${resume}`;
    if (error.code !== 'interrupted') throw error.withHint(hint);
    const message = 'interrupted; the rows that were being sent may have been added';
    throw new CliError(message, { code: 'interrupted', mayHaveBeenAdded: true, hint });
  }
}

/** The minimum time between two progress lines, which are written if there is no bar. */
const LINE_EVERY_MS = 15_000;
const MINUTE_MS = 60_000;

/**
 * Shows the progress as a bar if the console has a status line, and otherwise as a line at most every 15 seconds. Shows
 * nothing with `--quiet`.
 */
export function createProgressBar(
  { console, clock, globals }: Pick<CommandContext, 'console' | 'clock' | 'globals'>,
  rows: number,
) {
  /** When the first row was sent, and the number of rows that were done before. */
  let start = { at: clock.now(), done: 0 };
  let { at: writtenAt, done } = start;
  let reason: string | undefined;

  function speedText(): string | undefined {
    const minutes = (clock.now() - start.at) / MINUTE_MS;
    // Rate limits are usually per minute, so the speed of less than a minute shows too little.
    if (minutes < 1 || done === start.done) return undefined;
    const rate = (done - start.done) / minutes;
    return `${Math.round(rate)} rows/min, ${formatDuration(((rows - done) / rate) * MINUTE_MS)} left`;
  }
  const text = () => [`${done}/${rows}`, reason, speedText()].filter(Boolean).join('; ');
  /** Draws `[####----] 120/500; waiting 12 s …; 58 rows/min, 6 min 33 s left`. */
  const draw = () => console.status(`${drawBar(done, rows)} ${text()}`);

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
      else if (!globals.quiet && clock.now() - writtenAt >= LINE_EVERY_MS) {
        writtenAt = clock.now();
        console.event({ progress: { done, rows } }, console.errorColors.dim(text()));
      }
    },
    /** Shows why the run waits. `line` is undefined when the run continues. */
    pause(line: string | undefined): void {
      reason = line;
      draw();
    },
    end: () => console.status(undefined),
  };
}
