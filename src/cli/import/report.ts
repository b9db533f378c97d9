import { basename } from 'node:path';
import { stringifyJson } from '../../contract/json.ts';
import { followUpCommand, targetLabel } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { shellQuote } from '../core/shell-words.ts';
import { type Console, isClosedPipe } from '../output/console.ts';
import { type Column, print } from '../output/printer.ts';
import { formatCount, listNames } from '../output/text.ts';
import { formatMinute } from '../output/time.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import type { PetFile, PetRow } from '../rows/read-file.ts';
import type { LedgerRow } from './ledger.ts';
import { type Choice, type KnownRows, type Plan, rowAt } from './plan.ts';

/** What every step of an import needs. */
export type Setting = { input: PetFile; connection: Connection; context: CommandContext; choice: Choice };

/** The command line that the user typed, without `--dry-run`, and with `option` instead of the choice that it has. */
export function commandToRepeat({ argv, platform }: CommandContext, option?: string): string {
  const dropped = ['--add-again', '--dry-run', ...(option ? ['--skip-added'] : [])];
  // What follows `--` is no option, but may look like one.
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const options = argv.slice(0, end).filter((word) => !dropped.includes(word));
  return shellQuote(['pets', ...options, ...(option ? [option] : []), ...argv.slice(end)], platform);
}

/** A terminal lists at most this many rows. If more have results, only rows that were not added are listed. */
const ROWS_SHOWN = 100;
/** The maximum number of messages that a terminal shows in full. */
const MESSAGES_SHOWN = 20;
/** The maximum number of new rows that are named if the user must choose. */
const NEW_ROWS_NAMED = 10;

/** Whether a table is printed at a terminal, where it has at most `ROWS_SHOWN` rows. */
const isAtTerminal = ({ isTerminal, format }: Console): boolean => isTerminal && format === 'table';

/** The result of a row. `id` is that of its animal. */
type Result = { kind: 'added' | 'added before' | 'failed' | 'unknown'; id?: unknown; message?: string };

/** Undefined if the run stopped before the row was settled. */
function resultAt(plan: Plan, position: number): Result | undefined {
  const message = plan.rejected.get(position)?.message;
  if (message !== undefined) return { kind: 'failed', message };
  const row = rowAt(plan, position);
  if (row?.kind !== 'added')
    return row?.message === undefined ? undefined : { kind: 'unknown', message: row.message };
  const isEarlier = plan.known.get(position)?.kind === 'added';
  return { kind: isEarlier ? 'added before' : 'added', id: row.pet.id };
}

/** Writes the results of rows; at a terminal, of at most `ROWS_SHOWN` rows. */
export async function writeResults(
  { context: { console }, input: { rows, unit } }: Setting,
  plan: Plan,
): Promise<void> {
  const lineOf = (position: number) => rows[position]?.line;
  const resultOf = (position: number) => resultAt(plan, position) as Result;
  // Positions in the file instead of objects, of which a million would take hundreds of megabytes.
  const settled = [...rows.keys()].filter((position) => resultAt(plan, position) !== undefined);
  const isShort = isAtTerminal(console);
  const isLong = isShort && settled.length > ROWS_SHOWN;
  const listed = isLong ? settled.filter((each) => resultOf(each).id === undefined) : settled;
  const withMessage = listed.filter((each) => resultOf(each).message !== undefined);
  const columns: Column<number>[] = [
    { name: 'line', head: unit.toUpperCase(), value: lineOf },
    {
      name: 'result',
      value: (each) => resultOf(each).kind,
      color: (result) => (result.startsWith('added') ? 'green' : 'red'),
      isFlexible: false,
    },
    { name: 'id', value: (each) => resultOf(each).id },
    { name: 'name', value: (each) => rows[each]?.pet.name },
    {
      name: 'message',
      value: (each) => resultOf(each).message,
      ...(withMessage.length === 0 && { only: 'data' }),
    },
  ];
  const json = (each: number) => stringifyJson(jsonOf(plan, each));
  try {
    await print(console, { columns, json }, isShort ? listed.slice(0, ROWS_SHOWN) : listed);
  } catch (error) {
    // A closed output pipe does not change the result of the run.
    if (!isClosedPipe(error)) throw error;
  }
  if (!console.isForPeople) return;
  // The table cuts long messages, so they are repeated below it.
  for (const each of withMessage.slice(0, MESSAGES_SHOWN))
    console.notice(`${unit} ${lineOf(each)}: ${resultOf(each).message}`);
  const more = withMessage.length - MESSAGES_SHOWN;
  if (more > 0) console.notice(`… and ${more} more; for all messages, add --json`);
}

function jsonOf(plan: Plan, position: number): Record<string, unknown> {
  const { line, pet } = plan.rows[position] as PetRow;
  const { kind, message } = resultAt(plan, position) as Result;
  const row = rowAt(plan, position);
  const isEarlier = kind === 'added before';
  const result = isEarlier ? 'added' : kind;
  if (row?.kind === 'added') return { line, result, pet: row.pet, ...(isEarlier && { before: true }) };
  if (row === undefined) return { line, result, pet, error: plan.rejected.get(position) };
  const { idempotencyKey, candidates } = row;
  const error = { code: 'outcome_unknown', message, mayHaveBeenAdded: true };
  return { line, result, pet, error, idempotencyKey, ...(candidates && { candidates }) };
}

/** How many of the rows are added, and how many may have been added. */
function countRows(rows: Iterable<LedgerRow | undefined>): { added: number; sent: number } {
  const counts = { added: 0, sent: 0 };
  for (const row of rows) if (row) counts[row.kind]++;
  return counts;
}

const rowsAfter = (plan: Plan) => plan.rows.map((_, position) => rowAt(plan, position));

/**
 * Prints the totals of a complete run.
 *
 * @throws CliError with exit code 8 if a row failed or its outcome is unknown
 */
export function summarize(setting: Setting, plan: Plan, isNothing: boolean): number {
  const { console } = setting.context;
  const unknown = countRows(rowsAfter(plan)).sent;
  const failed = plan.rejected.size;
  let message = isNothing ? nothingToDo(setting, plan) : totalsText(plan);
  const hints: string[] = [];
  if (failed > 0) {
    message += `; ${failed} failed`;
    hints.push('fix the cause of the failed rows, then run the command again');
  }
  if (unknown > 0) {
    if (!isNothing) message += `; ${unknown} may have been added`;
    const list = `${followUpCommand(setting.context, 'list')} --all`;
    const compare = isNothing ? '' : '; to let pets compare them, run the command again';
    hints.push(
      `to see whether the rows that may have been added are in the inventory: ${list}${compare}; to add one that is missing, import it from a file of its own with --add-again`,
    );
  }
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

/** How many rows this run and earlier ones have added, such as `added 1 of 3 rows; 2 were added before`. */
export function totalsText(plan: Plan): string {
  const earlier = countRows(plan.known.values()).added;
  const already = earlier === 0 ? '' : `; ${earlier} ${wereOrWas(earlier)} added before`;
  return `added ${countRows(rowsAfter(plan)).added - earlier} of ${formatCount(plan.rows.length, 'row')}${already}`;
}

export function nothingToDo({ context, connection }: Setting, plan: Plan): string {
  const known = plan.known.size === 0 ? 'no row is left' : knownText(context, plan, plan.known);
  const again = `; to add every row again, for example after a reset: ${commandToRepeat(context, '--add-again')}`;
  // The hint of `summarize` says what to do about rows that may have been added.
  return `nothing to do at ${targetLabel(connection)}: ${known}${countRows(plan.known.values()).sent > 0 ? '' : again}`;
}

const wereOrWas = (count: number): string => (count <= 1 ? 'was' : 'were');

/** Such as `2 of 9 rows were added, and 1 row may have been added on 2026-11-20 12:00 UTC from v1.csv`. */
function knownText({ console }: CommandContext, { ledger, rows }: Plan, known: KnownRows): string {
  const { added, sent } = countRows(known.values());
  const total = formatCount(rows.length, 'row');
  const count = added === rows.length && added > 1 ? `all ${total}` : `${added} of ${total}`;
  const texts = added > 0 ? [`${count} ${wereOrWas(added)} added`] : [];
  if (sent > 0) texts.push(`${formatCount(sent, 'row')} may have been added`);
  const seqs = [...new Set(Array.from(known.values(), (row) => row.import))].sort((a, b) => a - b);
  const { at = '', file = 'standard input', finishedAt } = ledger.imports.get(seqs.at(-1) ?? 0) ?? {};
  const several = seqs.length > 1 ? ` in ${seqs.length} imports, the last` : '';
  const stopped = finishedAt === null ? ', in an import that did not finish' : '';
  return `${texts.join(', and ')}${several} on ${formatMinute(at, console.timeZone())} from ${basename(file)}${stopped}`;
}

/** What is known about another version of an earlier file, and which of its rows are new. */
export function versionText({ context, input }: Setting, plan: Plan): string {
  const fresh = [...plan.rows.keys()].filter((position) => !plan.known.has(position));
  return `${knownText(context, plan, plan.known)}; new: ${namesOf(input, fresh, NEW_ROWS_NAMED)}`;
}

/** Why nothing is imported until the user chooses, and the two ways on. `add` says what they add. */
export function stopError(
  { input, context }: Setting,
  reason: string,
  add: { few: string; all: string },
): CliError {
  const skip = `to add only the ${add.few}: ${commandToRepeat(context, '--skip-added')}`;
  const again = `to add ${add.all}: ${commandToRepeat(context, '--add-again')}`;
  const message = `${input.name}: nothing was sent, because ${reason}`;
  return new CliError(message, { code: 'already_imported', hint: `${skip}; ${again}` });
}

/** Some rows as a message names them, such as `line 2 Rex, line 5 Bella`. */
function namesOf({ rows, unit }: PetFile, positions: readonly number[], most?: number): string {
  const found = positions.map((position) => rows[position] as PetRow);
  const names = found.map(({ line, pet }) => `${unit} ${line} ${pet.name}`);
  return listNames(names, most);
}

/** Says which earlier import is continued, which rows were sent before, and which of them are added again unasked. */
export function announce({ input, context, choice }: Setting, plan: Plan): void {
  const { console } = context;
  const { known, repeated } = plan;
  const isContinued = plan.ledger.imports.has(plan.its.seq);
  const texts = isContinued ? ['continuing an earlier import'] : [];
  if (known.size > 0) texts.push(knownText(context, plan, known));
  if (texts.length > 0) console.notice(texts.join(': '));
  if (isContinued && choice === 'add-again')
    console.notice(
      'this run only completes the earlier import; to add every row again, run the command once more after it',
    );
  if (repeated.size === 0 || choice !== undefined || context.globals.quiet) return;
  const positions = [...repeated.keys()];
  const addedAgain = positions.map((i) => ({ line: input.rows[i]?.line, name: input.rows[i]?.pet.name }));
  const again = `${knownText(context, plan, repeated)} (${namesOf(input, positions)}), and will be added again`;
  const text = `${again}; to add only the others: ${commandToRepeat(context, '--skip-added')}`;
  if (console.hasJsonEvents) console.event({ addedAgain }, '');
  else console.notice(text);
}

/** Prints the rows that an import would send; a terminal only shows the first ones, so that the user can check the columns. */
export function writePreview(
  { context: { console }, input: { rows, unit } }: Setting,
  pending: readonly number[],
): Promise<void> {
  const petAt = (position: number) => (rows[position] as PetRow).pet;
  const columns: Column<number>[] = [
    { name: 'line', head: unit.toUpperCase(), value: (each) => rows[each]?.line },
    { name: 'name', value: (each) => petAt(each).name },
    { name: 'categoryId', head: 'CATEGORY', value: (each) => petAt(each).categoryId },
    { name: 'status', value: (each) => petAt(each).status, isFlexible: false },
  ];
  const view = { columns, json: (each: number) => stringifyJson(petAt(each)) };
  const shown = isAtTerminal(console) ? pending.slice(0, ROWS_SHOWN) : pending;
  const more = pending.length - shown.length;
  const footer = more > 0 ? { summary: `… and ${formatCount(more, 'row')} more` } : undefined;
  return print(console, view, shown, footer);
}
