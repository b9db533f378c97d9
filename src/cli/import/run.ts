import { randomBytes } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import type { Client } from '../../client/client.ts';
import { InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { connectionFor, reportTarget, targetLabel, withClient } from '../connection/connect.ts';
import { createWaitReporter } from '../connection/reporting.ts';
import type { Context } from '../core/context.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { shellQuote } from '../core/shell-words.ts';
import { CallError } from '../errors/call-error.ts';
import { formatCount } from '../output/text.ts';
import { formatMinute } from '../output/time.ts';
import { type Connection, listAllCommand } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { type InputOptions, type PetFile, readPetFile } from '../rows/read-file.ts';
import { confirmProduction } from './confirm-production.ts';
import type { Comparison } from './inventory.ts';
import { applyRecord, type Import, type Ledger, openRecord } from './ledger.ts';
import { chooseDirectory, type LedgerFile, type LedgerPlace, openLedger, readLedger } from './ledger-file.ts';
import { type Carried, type Choice, isToSend, plan, stateOf } from './plan.ts';
import { createProgressBar } from './progress-bar.ts';
import {
  countKind,
  countText,
  type Result,
  reportAgain,
  stopError,
  summarize,
  toStopError,
  whenText,
  writePreview,
  writeResults,
} from './report.ts';
import { begin, carryOut, finish, type Stop } from './send.ts';

export type ImportRequest = InputOptions & {
  dryRun?: boolean;
  addAgain?: boolean;
  skipAdded?: boolean;
  output?: string;
  /** Does not ask before rows are sent to prod's service. */
  yes?: boolean;
};

/** All rows are kept in memory. */
const MAX_ROWS = 1_000_000;

/** What every step of an import needs. */
type Setting = { input: PetFile; connection: Connection; context: CommandContext; choice: Choice };

/** `pets import`: checks every row, adds the rows that may be sent, and reports the result of each row. */
export async function importFile(request: ImportRequest, context: CommandContext): Promise<number> {
  const { console } = context;
  const connection = connectionFor(context);
  const input = await readPetFile(request, context, MAX_ROWS);
  if (input.path !== undefined && input.path === (await realPathOf(request.output)))
    throw usageError(`--output would replace ${input.name}, the file to import`, 'choose another file');
  if (input.rows.length === 0) {
    if (console.json) await console.writeJson([]);
    console.notice(`nothing to do: ${input.name} has no rows`);
    return exitCodes.ok;
  }
  const { dryRun: isDryRun = false, yes = false } = request;
  const choice = request.addAgain ? 'add-again' : request.skipAdded ? 'skip-added' : undefined;
  const setting = { input, connection, context, choice } satisfies Setting;
  const place: LedgerPlace = {
    directory: chooseDirectory(context, connection.baseUrl, isDryRun),
    service: connection.baseUrl,
    files: realFileSystem,
    now: context.clock.now,
    random: randomBytes,
  };
  if (isDryRun) return dryRun(setting, place);
  const file = await openLedger(place);
  try {
    return await importRows(setting, file, yes);
  } finally {
    await file.close();
  }
}

const realPathOf = async (path = ''): Promise<string | undefined> => realpath(path).catch(() => undefined);

/** The plan for the file. @throws CliError if the import stops */
function planFor({ input, context, choice }: Setting, ledger: Ledger): Carried {
  const { console, clock } = context;
  const decided = plan(input.rows, { ledger, choice, source: input.path, now: clock.now() });
  if (decided.kind !== 'stop') return decided;
  throw stopError(decided, input.rows, input.name, {
    zone: console.timeZone,
    commandWith: (option) => commandWith(context, option),
  });
}

/** Sends the rows that may be sent, and reports the result of each row. */
async function importRows(setting: Setting, file: LedgerFile, yes: boolean): Promise<number> {
  const { input, connection, context } = setting;
  const { console, clock } = context;
  const { ledger } = file;
  const planned = planFor(setting, ledger);
  const preview = overview(planned, ledger);
  const isRerun = preview.pending === 0;
  if (!isRerun) {
    const isPiped = input.path === undefined;
    const wasAsked =
      !yes && (await confirmProduction(context, connection, { rows: preview.pending, isPiped }));
    reportBeginning(setting, planned, preview);
    if (!wasAsked) reportTarget(context, connection, `adding ${formatCount(preview.pending, 'row')} at`);
  }
  await begin(planned, file);
  const stop = isRerun ? undefined : await send(setting, planned, file);
  if (!stop) await finish(planned, file, clock.now());
  const results = resultsOf(planned, ledger);
  const its = ledger.imports.get(planned.import);
  await writeResults(console, ledger.header, { results, isRerun });
  if (stop) throw toStopError(stop);
  await console.finish();
  return summarize(console, results, {
    isRerun,
    before: beforeText(planned, its, console.timeZone),
    hint: `to see the animals: ${listAllCommand(connection, context.platform)}; the next run of the command compares these rows with the inventory`,
    target: targetLabel(connection),
  });
}

/** What a run will do, before anything is recorded. */
type Overview = Record<'pending' | 'open' | 'added' | 'skipped' | 'withId', number>;

/** Applies the plan to the ledger in memory, and counts what it means. */
function overview(planned: Carried, ledger: Ledger): Overview {
  for (const record of planned.records) applyRecord(ledger, record);
  const counts: Overview = { pending: 0, open: 0, added: 0, skipped: 0, withId: 0 };
  for (const record of planned.records) if (record.kind === 'skipped' && record.to) counts.skipped++;
  const its = ledger.imports.get(planned.import);
  for (const index of planned.indexes) {
    const record = its && stateOf(ledger, its, index);
    if (isToSend(record)) counts.pending++;
    else if (openRecord(record)) counts.open++;
    else if (record?.kind === 'added') counts.added++;
    else if (record?.kind === 'skipped') counts.withId++;
  }
  counts.pending += counts.open;
  return counts;
}

function resultsOf({ rows, indexes, import: seq }: Carried, ledger: Ledger): Result[] {
  const its = ledger.imports.get(seq);
  return rows.map((row, i) => ({ row, record: its && stateOf(ledger, its, indexes[i] ?? i) }));
}

/** Says what the user may not expect: an earlier import, and rows that are skipped or sent again. */
function reportBeginning(
  { context: { console }, choice }: Setting,
  planned: Carried,
  { added, skipped, withId }: Overview,
): void {
  const total = formatCount(planned.rows.length, 'row');
  const rows = formatCount(skipped, 'row');
  if (planned.kind === 'resume') {
    console.notice(`continuing an earlier import: ${added} of ${total} already added`);
    if (choice === 'add-again')
      console.notice('--add-again adds every row again only after this import is complete');
    if (skipped > 0) console.notice(`skipping ${rows}, which other imports have sent since it began`);
  } else if (skipped > 0)
    console.notice(`skipping ${rows}, added ${whenText(planned.matches, console.timeZone)}`);
  if (withId > 0) console.notice(`skipping ${formatCount(withId, 'row')} with an id`);
  reportAgain(console, planned.again, whenText(planned.matches, console.timeZone));
}

/** When the rows of a file were added, for a run that has nothing to do. */
function beforeText({ matches }: Carried, its: Import | undefined, zone: () => string): string {
  if (matches.length > 0) return ` ${whenText(matches, zone)}`;
  return its ? ` on ${formatMinute(its.at, zone())}` : '';
}

/** The command line that the user typed, without --dry-run and the choice, and with `more` at its end. */
function commandWith({ argv, platform }: Pick<Context, 'argv' | 'platform'>, ...more: string[]): string {
  const dropped = ['--add-again', '--skip-added', '--dry-run'];
  return shellQuote(['pets', ...argv.filter((word) => !dropped.includes(word)), ...more], platform);
}

/** Carries out the plan, shows the progress, and says how to continue if the run ends early. */
async function send(
  { input, connection, context }: Setting,
  planned: Carried,
  file: LedgerFile,
): Promise<Stop | undefined> {
  const { console, clock, globals } = context;
  const { ledger } = file;
  const bar = createProgressBar(context, { rows: input.rows.length });
  const resume = `to continue: ${commandWith(context)}`;
  const reportStopped = () => {
    const added = countKind(resultsOf(planned, ledger), 'added');
    bar.end();
    console.notice(`added ${added} of ${formatCount(input.rows.length, 'row')}; ${resume}`);
  };
  const reporting = {
    onPage: (animals: number) => console.status([`reading the inventory: ${formatCount(animals, 'animal')}`]),
    onCompared({ rows, animals, notAdded, whyIncomplete }: Comparison) {
      const result = `${notAdded} not added, ${rows - notAdded} may have been added`;
      console.notice(
        whyIncomplete === undefined
          ? `compared ${formatCount(rows, 'row')} with ${formatCount(animals, 'animal')}: ${result}`
          : `the rows stay unknown, because the list of animals may be incomplete: ${whyIncomplete}`,
      );
    },
    onSending: (rows: number) => bar.start(input.rows.length - rows),
    onResult: bar.advance,
  };
  const settings = { apiKey: connection.key, clock, timeout: globals.timeout * 1_000, ...reporting };
  const work = (client: Client, signal: AbortSignal) => {
    const beforeComparing = async (rows: number, wait: number) => {
      console.notice(`comparing ${formatCount(rows, 'row')} that may have been added with the inventory`);
      if (wait === 0) return;
      const reporter = createWaitReporter(context, console.status);
      reporter.onWait({ reason: 'earlier requests', milliseconds: wait, until: clock.now() + wait });
      await reporter.sleep(wait, signal);
    };
    return carryOut(planned, file, { client, beforeComparing, ...settings });
  };
  try {
    const stop = await withClient(context, connection, work, { showWait: bar.pause });
    if (stop) reportStopped();
    else bar.end();
    return stop;
  } catch (error) {
    reportStopped();
    throw toRunError(error, resume, countKind(resultsOf(planned, ledger), 'intent'));
  }
}

/**
 * Replaces the hint of an error after which rows may have been added. `resume` is the hint that shows how to continue.
 * `open` is the number of rows that were being sent, so their outcome is ambiguous. Returns any other error unchanged.
 */
function toRunError(error: unknown, resume: string, open: number): unknown {
  if (!(error instanceof CallError && error.cause instanceof OutcomeUnknownError)) return error;
  const { cause, connection } = error;
  // The usual hint is about --idempotency-key, but the next run derives the idempotency key from the ledger.
  if (!(cause.cause instanceof InterruptedError)) return new CallError(cause, connection, { hint: resume });
  const [rows, it, row] =
    open === 1 ? ['one row was', 'it', 'row is'] : [`${open} rows were`, 'they', 'rows are'];
  return new CliError(`interrupted; ${rows} being sent; ${it} may or may not have been added`, {
    code: 'interrupted',
    mayHaveBeenAdded: true,
    hint: cause.supportsIdempotency
      ? `run the command again to continue; the ${row} not added twice`
      : `run the command again to continue; it first compares the ${row.split(' ')[0]} with the inventory`,
  });
}

/** Reports what the command would do without `--dry-run`, and sends nothing. */
async function dryRun(setting: Setting, place: LedgerPlace): Promise<number> {
  const { input, connection, context } = setting;
  const { console } = context;
  if (console.json) await writePreview(console, input.rows);
  try {
    const ledger = await readLedger(place);
    const planned = planFor(setting, ledger);
    const { pending, open, added, withId } = overview(planned, ledger);
    const total = formatCount(input.rows.length, 'row');
    // After an earlier import, show no preview, because the first rows of the file are probably not sent again.
    if (console.isTerminal && !console.json && added === 0) await writePreview(console, input.rows);
    const its = ledger.imports.get(planned.import);
    const before = beforeText(planned, planned.kind === 'resume' ? its : undefined, console.timeZone);
    if (pending === 0)
      console.notice(`dry run: nothing to add; ${countText(added, input.rows.length)} added${before}`);
    else {
      const which = `${open > 0 ? 'at most ' : ''}${pending === input.rows.length ? total : `${pending} of ${total}`}`;
      const already = added === 0 ? '' : `; ${added} already added${before}`;
      const ids = withId === 0 ? '' : `; ${formatCount(withId, 'row')} with an id skipped`;
      console.notice(
        `dry run: would add ${which} from ${input.name} at ${targetLabel(connection)}${already}${ids}`,
      );
    }
    reportAgain(console, planned.again, whenText(planned.matches, console.timeZone));
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    const hint = error.hint === undefined ? '' : `; ${error.hint}`;
    console.notice(`dry run: pets would stop. ${error.message}${hint}`);
  }
  return exitCodes.ok;
}
