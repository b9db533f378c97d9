import { basename } from 'node:path';
import { stringifyJson } from '../../contract/json.ts';
import { targetLabel } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { shellQuote } from '../core/shell-words.ts';
import { type Console, isClosedPipe } from '../output/console.ts';
import { type Column, print } from '../output/printer.ts';
import { quoteIfBlank } from '../output/sanitize.ts';
import { formatCount, listNames } from '../output/text.ts';
import { formatMinute } from '../output/time.ts';
import { type Connection, listAllCommand } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import type { PetFile, PetRow } from '../rows/read-file.ts';
import { type Import, idempotencyKeyOf, isUnknown, type Ledger, type RowRecord } from './ledger.ts';
import { type Choice, groupRows, hasHalf, importsOf, locateRow, type Plan, recordOf } from './plan.ts';

/** What every step of an import needs. */
export type Setting = {
  input: PetFile;
  connection: Connection;
  context: CommandContext;
  choice: Choice;
};

/** The command line that the user typed, without `--add-again` and `--dry-run`. `option` replaces `--skip-added`. */
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
/** The maximum number of earlier imports that a message names. */
const IMPORTS_NAMED = 3;

/** Whether a table is printed at a terminal, where it has at most `ROWS_SHOWN` rows. */
const isAtTerminal = ({ isTerminal, format }: Console): boolean => isTerminal && format === 'table';

/**
 * Writes the results of rows; at a terminal, of at most `ROWS_SHOWN` rows. A row has none if the run stopped before the
 * row was settled, or if the row is skipped because of its id.
 */
export async function writeResults(
  { context: { console }, input: { rows, unit } }: Setting,
  ledger: Ledger,
  plan: Plan,
): Promise<void> {
  const earlier = new Set(plan.groups.added);
  const rowAt = (position: number) => rows[position] as PetRow;
  const recordAt = (position: number) => recordOf(plan, position);
  // Positions in the file instead of objects, of which a million would take hundreds of megabytes.
  const results = [...rows.keys()].filter((position) => {
    const record = recordAt(position);
    return record !== undefined && !(record.kind === 'open' && record.message === undefined);
  });
  const isShort = isAtTerminal(console);
  const isOther = (position: number) => recordAt(position)?.kind !== 'added';
  const listed = isShort && results.length > ROWS_SHOWN ? results.filter(isOther) : results;
  const messageAt = (position: number) => messageOf(recordAt(position));
  const withMessage = listed.filter((each) => messageAt(each) !== '');
  const columns: Column<number>[] = [
    { name: 'line', head: unit.toUpperCase(), value: (each) => rowAt(each).line },
    {
      name: 'result',
      value: (each) => (earlier.has(each) ? 'added before' : resultOf(recordAt(each))),
      color: (result) => (result.startsWith('added') ? 'green' : 'red'),
      isFlexible: false,
    },
    {
      name: 'id',
      value(each) {
        const record = recordAt(each);
        return record?.kind === 'added' ? record.pet.id : undefined;
      },
    },
    { name: 'name', value: (each) => rowAt(each).pet.name },
    {
      name: 'message',
      value: (each) => messageAt(each) || undefined,
      ...(withMessage.length === 0 && { only: 'data' }),
    },
  ];
  const json = (each: number) =>
    stringifyJson(jsonOf(ledger, rowAt(each), recordAt(each), earlier.has(each)));
  try {
    await print(console, { columns, json }, isShort ? listed.slice(0, ROWS_SHOWN) : listed);
  } catch (error) {
    // A closed output pipe does not change the result of the run.
    if (!isClosedPipe(error)) throw error;
  }
  if (!console.isForPeople) return;
  // The table cuts long messages, so they are repeated below it.
  for (const each of withMessage.slice(0, MESSAGES_SHOWN))
    console.notice(`${unit} ${rowAt(each).line}: ${messageAt(each)}`);
  const more = withMessage.length - MESSAGES_SHOWN;
  if (more > 0) console.notice(`… and ${more} more; for all messages, add --json`);
}

const resultOf = (record: RowRecord | undefined) => (isUnknown(record) ? 'unknown' : record?.kind);

function jsonOf(
  ledger: Ledger,
  { line, pet }: PetRow,
  record: RowRecord | undefined,
  isEarlier: boolean,
): Record<string, unknown> {
  const result = resultOf(record);
  if (record?.kind === 'added') return { line, result, pet: record.pet, ...(isEarlier && { before: true }) };
  if (record?.kind === 'failed') return { line, result, pet, error: record.error };
  const error = { code: 'outcome_unknown', message: messageOf(record), mayHaveBeenAdded: true };
  const idempotencyKey = record && idempotencyKeyOf(ledger, record.seq);
  const candidates = record?.kind === 'open' ? record.candidates : undefined;
  return { line, result, pet, error, idempotencyKey, ...(candidates && { candidates }) };
}

function messageOf(record: RowRecord | undefined): string {
  if (record?.kind === 'failed') return record.error.message;
  return isUnknown(record) ? (record.message ?? '') : '';
}

/**
 * Prints the totals of a complete run.
 *
 * @throws CliError with exit code 8 if a row failed or its outcome is unknown
 */
export function summarize(setting: Setting, plan: Plan): number {
  const { console, platform } = setting.context;
  const after = groupRows(plan);
  const { failed, open, answered } = after;
  const unknown = open.length + answered.length;
  let message =
    plan.groups.pending.length === 0 ? nothingToDo(setting, plan) : totalsText(setting, plan, after);
  const hints: string[] = [];
  if (failed.length > 0) {
    message += `; ${failed.length} failed`;
    hints.push('fix the cause of the failed rows, then run the command again');
  }
  if (unknown > 0) {
    if (plan.groups.pending.length > 0) message += `; ${unknown} may have been added`;
    const list = listAllCommand(setting.connection, platform);
    const compare = open.length > 0 ? '; to let pets compare them, run the command again' : '';
    hints.push(
      `to see whether the rows that may have been added are in the inventory: ${list}${compare}; to add one that is missing, import it from a file of its own with --add-again`,
    );
  }
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

/** How many rows this run and earlier ones have added, such as `added 1 of 3 rows; 2 were added before`. */
export function totalsText({ input }: Setting, plan: Plan, after = groupRows(plan)): string {
  const earlier = plan.groups.added.length;
  const already = earlier === 0 ? '' : `; ${earlier} ${wereOrWas(earlier)} added before`;
  const added = after.added.length - earlier;
  return `added ${added} of ${formatCount(input.rows.length, 'row')}${already}${skippedText(input, plan)}`;
}

export function nothingToDo(setting: Setting, plan: Plan): string {
  const { withId, answered } = plan.groups;
  let next = `; to add every row again, for example after a reset: ${commandToRepeat(setting.context, '--add-again')}`;
  if (withId.length > 0) next = '; to add a new animal, leave its id empty';
  // The hint of `summarize` says what to do about rows that may have been added.
  else if (answered.length > 0) next = '';
  return `nothing to do at ${targetLabel(setting.connection)}: ${addedText(setting, plan)}${next}`;
}

/** How many rows were added before this run, may have been added, or are skipped. */
export function addedText(setting: Setting, plan: Plan): string {
  const { added, open, answered } = plan.groups;
  const known = added.concat(open, answered).map((each) => [each, locateRow(plan, each)] as const);
  return `${knownText(setting, new Map(known))}${skippedText(setting.input, plan)}`;
}

/**
 * What is known about rows, such as `2 of 9 rows were added, and 1 row may have been added on … from v1.csv`. Names those
 * that may have been added, or else all, unless they are the larger part of the file.
 */
function knownText({ context: { console }, input }: Setting, known: Plan['known']): string {
  const total = input.rows.length;
  const imports = importsOf(known.values());
  const unknown: number[] = [];
  for (const [position, { its, index }] of known) if (isUnknown(its.rows[index])) unknown.push(position);
  const added = known.size - unknown.length;
  const isAll = added === total && total > 1;
  const count = isAll ? `all ${total} rows` : `${added || 'none'} of ${formatCount(total, 'row')}`;
  const certain = `${count} ${wereOrWas(added)} added`;
  const perhaps = `${formatCount(unknown.length, 'row')} may have been added`;
  const [last] = [...imports].sort((a, b) => b.seq - a.seq);
  const several = imports.size > 1 ? ` in ${imports.size} imports, the last` : '';
  const when = last ? `${several} on ${timeOf(last, console)} from ${fileName(last)}` : '';
  const named = unknown.length > 0 ? unknown : [...known.keys()];
  const label = added > 0 && unknown.length > 0 ? 'unknown: ' : '';
  const names = named.length > 0 && 2 * named.length < total ? ` (${label}${namesOf(input, named)})` : '';
  const texts = unknown.length === 0 ? certain : added === 0 ? perhaps : `${certain}, and ${perhaps}`;
  return `${texts}${when}${names}`;
}

const wereOrWas = (count: number): string => (count <= 1 ? 'was' : 'were');

/** Every count is of all rows of the file, so each message also says how many of them are not sent because of their ids. */
const skippedText = (input: PetFile, { groups: { withId } }: Plan): string =>
  withId.length === 0
    ? ''
    : `; ${formatCount(withId.length, 'row')} with an id ${wereOrWas(withId.length)} skipped (${namesOf(input, withId)})`;

const fileName = ({ source }: Import): string => (source === undefined ? 'standard input' : basename(source));

const timeOf = ({ at }: Import, { timeZone }: Console): string => formatMinute(at, timeZone());

/** Why the import stops until the user chooses, and the two ways on. */
export function stopError(setting: Setting, { known, changes }: Plan): CliError {
  const { context, input } = setting;
  const { rows, name } = input;
  const withId = rows.filter(({ id }) => id !== undefined).length;
  const reasons: string[] = [];
  if (withId > 0) {
    const have = withId === 1 ? 'has' : 'have';
    reasons.push(`${formatCount(withId, 'row')} ${have} an id, and the service cannot change animals`);
  }
  if (known.size > 0) reasons.push(knownText(setting, known));
  const nameOf = (its: Import) => `the import of ${fileName(its)} on ${timeOf(its, context.console)}`;
  const versions = changes.filter(hasHalf);
  if (known.size === 0)
    for (const { its, common } of versions.slice(0, IMPORTS_NAMED))
      reasons.push(`${common} of its rows ${wereOrWas(common)} in ${nameOf(its)}`);
  const earlier = new Set([...importsOf(known.values()), ...versions.map(({ its }) => its)]);
  const interrupted = [...earlier].filter(({ finishedAt }) => finishedAt === undefined);
  for (const its of interrupted.slice(0, IMPORTS_NAMED)) reasons.push(`${nameOf(its)} was interrupted`);
  const texts = changesText(input, changes);
  const also = texts.length === 0 ? '' : `. Also: ${texts.join('; ')}`;
  const again = `to add every row${withId > 0 ? ' as a new animal' : ''}: ${commandToRepeat(context, '--add-again')}`;
  const others = withId > 0 ? 'new rows without an id' : 'rows not added before';
  const first = changes.some(({ changed }) => changed.size > 0)
    ? 'remove the changed rows from the file, then '
    : '';
  const skip = `to add only the ${others}: ${first}${commandToRepeat(context, '--skip-added')}`;
  return new CliError(`${name}: nothing was sent, because ${reasons.join('; ')}${also}`, {
    code: 'already_imported',
    hint: `${withId === rows.length ? 'to add a new animal, leave its id empty, and remove the other rows' : skip}; ${again}`,
  });
}

/** Describes the changes since earlier versions of the file were imported, one text for each kind of change. */
function changesText(input: PetFile, changes: Plan['changes']): string[] {
  return changes.slice(0, IMPORTS_NAMED).flatMap(({ its, changed, missing }) => {
    const missingNames = missing.map((record) =>
      isUnknown(record) ? record.name : `id ${record.pet.id} ${record.pet.name}`,
    );
    const [has, each] = changed.size === 1 ? ['has', 'it'] : ['have', 'each of them'];
    const [is, stays] = missing.length === 1 ? ['is', 'stays'] : ['are', 'stay'];
    return [
      changed.size > 0 &&
        `${formatCount(changed.size, 'row')} ${has} another category or status than when ${fileName(its)} was imported: ${namesOf(input, [...changed.keys()])}${perhapsText([...changed.values()])}; the service cannot change animals, so ${each} adds a second animal unless you remove the row`,
      missing.length > 0 &&
        `${formatCount(missing.length, 'animal')} imported from ${fileName(its)} ${is} not in this file, and ${stays} as before: ${listNames(missingNames)}${perhapsText(missing)}`,
    ].filter((text) => text !== false);
  });
}

/** Says how many of these rows may have been added or not. */
function perhapsText(records: readonly RowRecord[]): string {
  const unknown = records.filter(isUnknown).length;
  return unknown === 0 ? '' : ` (${unknown} may not have been added)`;
}

/** Some rows as a message names them, such as `line 2 Rex, line 5 Bella`. */
export const namesOf = ({ rows, unit }: PetFile, positions: readonly number[]): string =>
  listNames(
    positions.map((position) => {
      const { line, pet } = rows[position] as PetRow;
      return `${unit} ${line} ${quoteIfBlank(pet.name)}`;
    }),
  );

/** Reports which rows are added again without `--add-again`, and what has changed since another version of the file. */
export function reportRepeatedAndChanged(setting: Setting, { known, mode, changes }: Plan): void {
  const { input, choice, context } = setting;
  const { console } = context;
  if (mode === 'again' && known.size > 0 && choice === undefined) {
    const positions = [...known.keys()].sort((a, b) => a - b);
    const addedAgain = positions.map((i) => ({ line: input.rows[i]?.line, name: input.rows[i]?.pet.name }));
    const skip = `to add only the others: ${commandToRepeat(context, '--skip-added')}`;
    if (console.hasJsonEvents) console.event({ addedAgain }, '');
    else console.notice(`${knownText(setting, known)}, and will be added again; ${skip}`);
  }
  for (const text of changesText(input, changes)) console.notice(text);
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
