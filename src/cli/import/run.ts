import { statSync } from 'node:fs';
import { OutcomeUnknownError } from '../../client/errors.ts';
import { formatDuration } from '../../system/time-text.ts';
import { connectionFor, reportTarget, targetLabel, withClient } from '../connection/connect.ts';
import { wait } from '../connection/reports.ts';
import { CliError, usageError } from '../core/errors.ts';
import { formatCount } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';
import { ask, canAsk } from '../prompts/prompt.ts';
import { readPetFile } from '../rows/read-file.ts';
import { type Ledger, type LedgerFile, ledgerEnvironmentFor, openLedger, readLedger } from './ledger.ts';
import { type Choice, type Plan, pendingOf, planImport } from './plan.ts';
import {
  announceKnownRows,
  fileVersionText,
  type ImportTask,
  nothingToDoText,
  openText,
  repetitionOf,
  reportResults,
  stopError,
  totalsText,
  writePreview,
  writeResults,
} from './report.ts';
import { carryOut, finishImport } from './send.ts';

export type ImportRequest = {
  /** A path, or `-` for standard input. */
  file: string;
  dryRun?: boolean;
  addAgain?: boolean;
  skipAdded?: boolean;
  output?: string;
  /** Never asks: sends rows to profile prod without a confirmation, and fails if the user must choose. */
  yes?: boolean;
};

/** The maximum number of rows in a file, because all of them are kept in memory. */
const MAX_ROWS = 1_000_000;

/** `pets import`: checks every row, adds the rows that may be sent (not in a dry run), and reports each result. */
export async function importFile(request: ImportRequest, context: CommandContext): Promise<undefined> {
  const connection = connectionFor(context);
  const input = await readPetFile(request.file, context, MAX_ROWS);
  // Except on Windows, /dev/stdin is the file that the shell has opened as standard input.
  const files = [request.file === '-' ? '/dev/stdin' : request.file, request.output ?? ''];
  const [read, replaced] = files.map((path) => statSync(path, { throwIfNoEntry: false, bigint: true }));
  if (replaced && read?.ino === replaced.ino && read.dev === replaced.dev)
    throw usageError(`--output would replace ${input.name}, the file to import`, 'choose another file');
  const { dryRun = false, yes = false, addAgain, skipAdded } = request;
  const choice = addAgain ? 'add-again' : skipAdded ? 'skip-added' : undefined;
  const task: ImportTask = { input, connection, context, choice };
  if (choice !== 'add-again') leaveOutRowsWithId(task);
  const environment = ledgerEnvironmentFor(context, connection.baseUrl);
  if (dryRun) return previewRows(task, await readLedger(environment));
  const file = await openLedger(environment);
  try {
    return await importRows(task, file, yes);
  } finally {
    await file.close();
  }
}

/** Leaves out rows with an id, whose animals may exist already. @throws CliError if there are such rows, but no choice */
function leaveOutRowsWithId(task: ImportTask): void {
  const { input, choice, context } = task;
  const rows = input.rows.filter(({ id }) => id === undefined);
  const count = input.rows.length - rows.length;
  if (count === 0) return;
  const reason = `${formatCount(count, 'row')} ${count === 1 ? 'has' : 'have'} an id, and the service cannot change animals`;
  if (choice === undefined)
    throw stopError(task, reason, { few: 'rows without an id', all: 'every row as a new animal' });
  context.console.notice(`skipping rows, because ${reason}; to add a new animal, leave its id empty`);
  input.rows = rows;
}

const planFor = ({ input, context }: ImportTask, ledger: Ledger, choice: Choice): Plan =>
  planImport(input.rows, ledger, { choice, file: input.path, now: context.clock.now() });

const mustChooseError = (task: ImportTask, plan: Plan): CliError =>
  stopError(task, fileVersionText(task, plan), { few: 'new rows', all: 'every row again' });

/** Prints the rows that an import would send or settle. @throws CliError if the user must choose, or if a write fails */
async function previewRows(task: ImportTask, ledger: Ledger): Promise<undefined> {
  const { input, context, connection, choice } = task;
  const plan = planFor(task, ledger, choice);
  if (plan.mustAsk) throw mustChooseError(task, plan);
  const pending = pendingOf(plan);
  await writePreview(task, pending);
  if (pending.length === 0) context.console.notice(nothingToDoText(task, plan));
  else {
    const rows = `${pending.length} of ${formatCount(input.rows.length, 'row')}`;
    const place = `from ${input.name} at ${targetLabel(connection)}`;
    context.console.notice(`dry run: would add ${rows} ${place}${openText(plan)}`);
    announceKnownRows(task, plan);
  }
}

/** Asks the user if necessary, sends the rows that may be sent, and reports the result of each row. */
async function importRows(task: ImportTask, file: LedgerFile, yes: boolean): Promise<undefined> {
  const { context, connection } = task;
  let plan = planFor(task, file.ledger, task.choice);
  const { mustAsk } = plan;
  if (mustAsk) {
    if (yes || !canAsk(context)) throw mustChooseError(task, plan);
    plan = planFor(task, file.ledger, await askForChoice(task, plan));
  }
  const pending = pendingOf(plan);
  if (pending.length === 0) await finishImport(plan, file.append, context.clock.now());
  else {
    announceKnownRows(task, plan);
    const again = plan.repeated.size > 0 ? `, ${plan.repeated.size} of them again,` : '';
    const rows = `${formatCount(pending.length, 'row')}${again} at`;
    const isProduction = connection.keySource === 'profile prod';
    if (isProduction && !mustAsk && !yes && canAsk(context)) {
      const question = `This cannot be undone. Add ${rows} ${targetLabel(connection)}?`;
      if ((await ask(context, question, ['no', 'yes'])) === 'no') throw declinedError('--dry-run');
    } else if (!mustAsk) reportTarget(context, connection, `adding ${rows}`);
    await send(task, plan, file, pending.length);
  }
  try {
    await writeResults(task, plan);
    await context.console.finish();
  } catch (error) {
    throw error instanceof CliError ? error.withHint(`${totalsText(plan)}; do not add these again`) : error;
  }
  reportResults(task, plan, pending.length === 0);
}

/** Asks at a terminal what to do with the known rows. @throws CliError if the answer is `stop`, InterruptedError */
async function askForChoice(task: ImportTask, plan: Plan): Promise<Choice> {
  const { context, connection } = task;
  const stays = `animals added at ${targetLabel(connection)} cannot be removed`;
  context.console.notice(`${fileVersionText(task, plan)}; ${stays}`);
  const question = 'Skip the known rows, add them again, or stop?';
  const answer = await ask(context, question, ['stop', 'skip', 'again']);
  if (answer === 'stop') throw declinedError('--dry-run and --skip-added, or --dry-run and --add-again');
  return answer === 'skip' ? 'skip-added' : 'add-again';
}

const declinedError = (options: string): CliError =>
  new CliError('not confirmed; no row was sent', { code: 'declined', hint: `for a preview, add ${options}` });

/** Carries out the plan and shows the progress. If the run ends early, prints how to continue. */
async function send(task: ImportTask, plan: Plan, file: LedgerFile, rows: number): Promise<void> {
  const { connection, context } = task;
  const { console, clock, globals } = context;
  const bar = createProgressBar(context, rows);
  try {
    await withClient(
      context,
      connection,
      (client, signal) =>
        carryOut({
          ...{ plan, file, client, clock, apiKey: connection.key, timeout: globals.timeout * 1_000 },
          showStatus: console.showStatus,
          notice: console.notice,
          wait(milliseconds) {
            const until = clock.now() + milliseconds;
            return wait(context, { reason: 'earlier requests', milliseconds, until }, signal);
          },
          onResult: bar.advance,
        }),
      { showWait: bar.showWait },
    );
    console.showStatus(undefined);
  } catch (error) {
    const resume = `to continue: ${repetitionOf(task)}`;
    console.notice(`${totalsText(plan)}; ${resume}`);
    if (error instanceof CliError && openText(plan) !== '') error.fields.mayHaveBeenAdded = true;
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

/** Shows the progress as a bar on the status line, or else as a line every 15 seconds. With `--quiet`, shows nothing. */
function createProgressBar(
  { console, clock, globals }: Pick<CommandContext, 'console' | 'clock' | 'globals'>,
  rows: number,
) {
  const startedAt = clock.now();
  let writtenAt = startedAt;
  let done = 0;
  let reason: string | undefined;

  function speedText(): string | undefined {
    const minutes = (clock.now() - startedAt) / MINUTE_MS;
    // Rate limits are usually per minute, so the speed of less than a minute shows too little.
    if (minutes < 1 || done === 0) return undefined;
    const rate = done / minutes;
    return `${Math.round(rate)} rows/min, ${formatDuration(((rows - done) / rate) * MINUTE_MS)} left`;
  }
  const text = () => [`${done}/${rows}`, reason, speedText()].filter(Boolean).join('; ');
  /** Draws, for example, `[###-------------] 120/500; waiting 12 s …; 58 rows/min, 6 min 33 s left`. */
  const draw = () => console.showStatus(`${drawBar(done, rows)} ${text()}`);
  return {
    advance(): void {
      done++;
      if (console.hasStatus) draw();
      else if (!globals.quiet && clock.now() - writtenAt >= LINE_EVERY_MS) {
        writtenAt = clock.now();
        console.event({ progress: { done, rows } }, console.errorColors.dim(text()));
      }
    },
    /** Shows why the run waits. `line` is undefined when the run continues. */
    showWait(line: string | undefined): void {
      reason = line;
      draw();
    },
  };
}

const BAR_COLUMNS = 16;

const drawBar = (done: number, total: number): string =>
  `[${'#'.repeat(total === 0 ? BAR_COLUMNS : (done / total) * BAR_COLUMNS).padEnd(BAR_COLUMNS, '-')}]`;
