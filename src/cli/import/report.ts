import { basename } from 'node:path';
import { stringifyJson } from '../../contract/json.ts';
import type { NewPet, ReceivedPet } from '../../contract/schemas.ts';
import { createTimeFormatter } from '../../system/time-text.ts';
import { followUpCommand, targetLabel } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { isClosedPipe } from '../output/console.ts';
import { type Column, printRows } from '../output/printer.ts';
import { formatCount, listNames, shellQuote } from '../output/text.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { groupErrors, type PetFile, type PetRow } from '../rows/read-file.ts';
import type { LedgerRow } from './ledger.ts';
import { type Choice, canBeSettled, ledgerRowAt, type Plan, type RowsByPosition } from './plan.ts';

/** What every step of an import needs. */
export type ImportTask = { input: PetFile; connection: Connection; context: CommandContext; choice: Choice };

/** The typed command with `option` as its choice, or else without `--add-again`. Starts with `… |` if it reads a pipe. */
export function commandToRepeat({ argv, platform }: CommandContext, option?: string): string {
  const dropped = ['--add-again', ...(option ? ['--skip-added'] : [])];
  // What follows `--` is no option, but may look like one.
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const options = argv.slice(0, end).filter((word) => !dropped.includes(word));
  const command = shellQuote(['pets', ...options, ...(option ? [option] : []), ...argv.slice(end)], platform);
  return argv.includes('-') ? `… | ${command}` : command;
}

const hasIds = ({ rows }: PetFile): boolean => rows.some(({ id }) => id !== undefined);

/** The command that continues an import. Rows with ids need `--add-again`, which repeats none while a row can be settled. */
export const repetitionOf = ({ context, input }: ImportTask): string =>
  commandToRepeat(context, hasIds(input) ? '--add-again' : undefined);

/** A table on a terminal has at most this many rows. */
const ROWS_SHOWN = 100;
/** The maximum number of new rows that are named if the user must choose. */
const NEW_ROWS_NAMED = 10;

/** The result of a row, as `--json` prints it. `before` means that an earlier run added the animal. */
type Result = {
  line: number;
  result: 'added' | 'failed' | 'unknown';
  /** The animal that the service added, which has an id, or the one in the file. */
  pet: NewPet | ReceivedPet;
  before?: true;
  error?: { message: string };
  idempotencyKey?: string;
};

function resultAt(plan: Plan, position: number): Result {
  const { line, pet } = plan.rows[position] as PetRow;
  const error = plan.rejected.get(position);
  if (error) return { line, result: 'failed', pet, error };
  const row = ledgerRowAt(plan, position) as LedgerRow;
  if (row.kind === 'added') {
    const isEarlier = plan.known.get(position)?.kind === 'added';
    return { line, result: 'added', pet: row.pet, ...(isEarlier && { before: true }) };
  }
  const { message = '', idempotencyKey, candidates } = row;
  const unknown = { code: 'outcome_unknown', message, mayHaveBeenAdded: true };
  return { line, result: 'unknown', pet, error: unknown, idempotencyKey, ...(candidates && { candidates }) };
}

/** Writes the result of each row. For more than `ROWS_SHOWN` rows, a table on a terminal has only rows that were not added. */
export async function writeResults(
  { context: { console }, input: { rows, unit } }: ImportTask,
  plan: Plan,
): Promise<void> {
  // Keep the positions of rows instead of their results, which would take about 100 MB for a million rows.
  const positions = [...rows.keys()];
  const resultOf = (position: number) => resultAt(plan, position);
  const notAdded = positions.filter((position) => resultOf(position).result !== 'added');
  const isShort = console.isTerminal && console.format === 'table';
  const isLong = isShort && rows.length > ROWS_SHOWN;
  const columns: Column<number>[] = [
    { name: 'line', head: unit.toUpperCase(), value: (position) => resultOf(position).line },
    {
      name: 'result',
      value: (position) => (resultOf(position).before ? 'added before' : resultOf(position).result),
      color: (result) => (result.startsWith('added') ? 'green' : 'red'),
      isFlexible: false,
    },
    { name: 'id', value: (position) => (resultOf(position).pet as Partial<ReceivedPet>).id },
    { name: 'name', value: (position) => rows[position]?.pet.name },
    // A table would cut long messages.
    { name: 'message', value: (position) => resultOf(position).error?.message, only: 'data' },
  ];
  const json = (position: number) => stringifyJson(resultOf(position));
  try {
    await printRows(console, { columns, json }, isLong ? notAdded.slice(0, ROWS_SHOWN) : positions);
  } catch (error) {
    // A closed output pipe does not change the result of the run.
    if (!isClosedPipe(error)) throw error;
  }
  if (!console.isForPeople) return;
  const errors = notAdded.map((i) => ({ line: resultOf(i).line, message: resultOf(i).error?.message ?? '' }));
  for (const text of groupErrors(errors, unit)) console.notice(text);
}

/** How many rows are added, and how many may have been added. */
function countRows(plan: Plan): { added: number; sent: number } {
  const counts = { added: 0, sent: 0 };
  for (const position of plan.rows.keys()) {
    const row = ledgerRowAt(plan, position);
    if (row) counts[row.kind]++;
  }
  return counts;
}

/**
 * Prints the totals of a complete run.
 *
 * @throws CliError with exit code 8 if a row failed or its outcome is unknown
 */
export function reportResults(task: ImportTask, plan: Plan, hasNothingToDo: boolean): void {
  const { context, input } = task;
  const unknown = countRows(plan).sent;
  const failed = plan.rejected.size;
  const texts = [hasNothingToDo ? nothingToDoText(task, plan) : totalsText(plan)];
  const hints: string[] = [];
  const again = hasIds(input) ? undefined : `run ${commandToRepeat(context, '--skip-added')}`;
  if (failed > 0) {
    texts.push(`${failed} failed`);
    hints.push(`fix the cause of the failed rows, then ${again ?? 'import them from a file of their own'}`);
  }
  if (unknown > 0) {
    const isSettled = ![...plan.rows.keys()].some((position) => canBeSettled(ledgerRowAt(plan, position)));
    const look = `to find out which rows were added: ${followUpCommand(context, 'list')} --all; to add a row that is missing, import it from a file of its own with --add-again`;
    const settle = `to let pets find out which rows were added, run ${repetitionOf(task)}`;
    hints.push(isSettled ? look : settle);
  }
  if (hints.length > 0) throw new CliError(texts.join('; '), { code: 'some_failed', hint: hints.join('; ') });
  context.console.notice(texts.join('; '));
}

const wereOrWas = (count: number): string => (count === 1 ? 'was' : 'were');

/** The end of a text: how many rows may have been added. Empty if none. */
export function openText(plan: Plan): string {
  const { sent } = countRows(plan);
  return sent === 0 ? '' : `; ${sent} may have been added`;
}

/** How many rows this run and earlier ones have added, such as `added 1 of 3 rows; 2 were added before`. */
export function totalsText(plan: Plan): string {
  const earlier = [...plan.known.values()].filter(({ kind }) => kind === 'added').length;
  const already = earlier === 0 ? '' : `; ${earlier} ${wereOrWas(earlier)} added before`;
  return `added ${countRows(plan).added - earlier} of ${formatCount(plan.rows.length, 'row')}${already}${openText(plan)}`;
}

export function nothingToDoText({ context, connection }: ImportTask, plan: Plan): string {
  const nothing = `nothing to do at ${targetLabel(connection)}`;
  if (plan.known.size === 0) return `${nothing}: there are no rows to add`;
  const again = `if these are other animals, or the service was emptied: ${commandToRepeat(context, '--add-again')}`;
  return `${nothing}: ${knownText(context, plan, plan.known)}${openText(plan)}; ${again}`;
}

/** How many rows are known, as in `2 of 9 rows were sent before, last on 2026-11-20 12:00:00 UTC from v1.csv`. */
function knownText({ console }: CommandContext, { ledger, rows }: Plan, known: RowsByPosition): string {
  const last = Math.max(...new Set(Array.from(known.values(), (row) => row.import)));
  const { at = ledger.at, file = 'standard input or a pipe' } = ledger.imports.get(last) ?? {};
  const count = `${known.size} of ${formatCount(rows.length, 'row')} ${wereOrWas(known.size)} sent before`;
  return `${count}, last on ${createTimeFormatter(console.messageTimeZone())(Date.parse(at))} from ${basename(file)}`;
}

/** What is known about another version of an earlier file, and which of its rows are new. */
export function fileVersionText({ context, input }: ImportTask, plan: Plan): string {
  const fresh = [...plan.rows.keys()].filter((position) => !plan.known.has(position));
  return `${knownText(context, plan, plan.known)}; new: ${listRows(input, fresh, NEW_ROWS_NAMED)}`;
}

/** The error if nothing is sent until the user chooses. `add` describes which rows each of the two options adds. */
export function stopError(
  { input, context }: ImportTask,
  reason: string,
  add: { few: string; all: string },
): CliError {
  const skip = `for only the ${add.few}: ${commandToRepeat(context, '--skip-added')}`;
  const again = `for ${add.all}: ${commandToRepeat(context, '--add-again')}`;
  const message = `${input.name}: nothing was sent, because ${reason}`;
  return new CliError(message, { code: 'already_imported', hint: `${skip}; ${again}` });
}

/** Some rows as a message names them, such as `line 2 Rex, line 5 Bella`. */
function listRows({ rows, unit }: PetFile, positions: readonly number[], most?: number): string {
  const found = positions.map((position) => rows[position] as PetRow);
  const names = found.map(({ line, pet }) => `${unit} ${line} ${pet.name}`);
  return listNames(names, most);
}

/** Reports if an earlier import continues, how many rows were sent before, and which ones are added again by default. */
export function announceKnownRows({ input, context, choice }: ImportTask, plan: Plan): void {
  const { console } = context;
  const { known, repeated } = plan;
  const isContinued = plan.ledger.imports.has(plan.current.seq);
  const texts = isContinued ? ['continuing an earlier import'] : [];
  if (known.size > 0) texts.push(knownText(context, plan, known));
  if (isContinued && choice === 'add-again')
    texts.push('to add every row again, run the command once more when this import has ended');
  if (texts.length > 0) console.notice(texts.join('; '));
  if (repeated.size === 0 || choice !== undefined || context.globals.quiet) return;
  const positions = [...repeated.keys()];
  const addedAgain = positions.map((i) => ({ line: input.rows[i]?.line, name: input.rows[i]?.pet.name }));
  const again = `${knownText(context, plan, repeated)} (${listRows(input, positions)}), and will be added again`;
  const text = `${again}; for only the others: ${commandToRepeat(context, '--skip-added')}`;
  if (console.hasJsonEvents) console.event({ addedAgain }, '');
  else console.notice(text);
}

/** Prints the rows that an import would send or settle. A table on a terminal has only the first, to check the columns. */
export function writePreview(
  { context: { console }, input: { rows, unit } }: ImportTask,
  pending: readonly number[],
): Promise<void> {
  const columns: Column<PetRow>[] = [
    { name: 'line', head: unit.toUpperCase(), value: ({ line }) => line },
    { name: 'name', value: ({ pet }) => pet.name },
    { name: 'categoryId', head: 'CATEGORY', value: ({ pet }) => pet.categoryId },
    { name: 'status', value: ({ pet }) => pet.status, isFlexible: false },
  ];
  const isShort = console.isTerminal && console.format === 'table';
  const shown = (isShort ? pending.slice(0, ROWS_SHOWN) : pending).map((i) => rows[i] as PetRow);
  return printRows(console, { columns, json: ({ pet }) => stringifyJson(pet) }, shown);
}
