import { basename } from 'node:path';
import { stringifyJson } from '../../contract/json.ts';
import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { type Console, isClosedPipe } from '../output/console.ts';
import { type Column, print } from '../output/printer.ts';
import { quoteIfBlank } from '../output/sanitize.ts';
import { formatCount, listNames, MAX_LISTED_NAMES } from '../output/text.ts';
import { formatMinute } from '../output/time.ts';
import type { PetFile, PetRow } from '../rows/read-file.ts';
import {
  type Import,
  idempotencyKeyOf,
  isUnknown,
  type LedgerHeader,
  type RowPosition,
  type RowRecord,
} from './ledger.ts';
import {
  type Changes,
  type Choice,
  countByImport,
  hasHalf,
  locateRow,
  type Plan,
  type RowGroups,
  recordOf,
  type Stop,
} from './plan.ts';

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
 * row was settled, or if the row is skipped because of its id. `before` has the rows that earlier runs added.
 */
export async function writeResults(
  console: Console,
  header: LedgerHeader,
  plan: Plan,
  before: RowGroups,
  unit: PetFile['unit'],
): Promise<void> {
  const earlier = new Set(before.added);
  const rowAt = (position: number) => plan.rows[position] as PetRow;
  // Positions in the file instead of objects, of which a million would take hundreds of megabytes.
  const results = [...plan.rows.keys()].filter((position) => {
    const record = recordOf(plan, position);
    return record !== undefined && !(record.kind === 'open' && record.message === undefined);
  });
  const isShort = isAtTerminal(console);
  const isOther = (position: number) => recordOf(plan, position)?.kind !== 'added';
  const listed = isShort && results.length > ROWS_SHOWN ? results.filter(isOther) : results;
  const messageAt = (position: number) => messageOf(recordOf(plan, position));
  const withMessage = listed.filter((each) => messageAt(each) !== '');
  const columns: Column<number>[] = [
    { name: 'line', head: unit.toUpperCase(), value: (each) => rowAt(each).line },
    { name: 'result', value: (each) => resultOf(recordOf(plan, each)), only: 'data' },
    {
      name: 'result',
      value: (each) => (earlier.has(each) ? 'added before' : resultOf(recordOf(plan, each))),
      only: 'table',
      color: (result) => (result.startsWith('added') ? 'green' : 'red'),
      isFlexible: false,
    },
    {
      name: 'id',
      value(each) {
        const record = recordOf(plan, each);
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
    stringifyJson(jsonOf(header, rowAt(each), recordOf(plan, each), earlier.has(each)));
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
  header: LedgerHeader,
  { line, pet }: PetRow,
  record: RowRecord | undefined,
  isEarlier: boolean,
): Record<string, unknown> {
  const result = resultOf(record);
  if (record?.kind === 'added') return { line, result, pet: record.pet, ...(isEarlier && { before: true }) };
  if (record?.kind === 'failed') return { line, result, pet, error: record.error };
  const error = { code: 'outcome_unknown', message: messageOf(record), mayHaveBeenAdded: true };
  const idempotencyKey = record && idempotencyKeyOf(header, record.seq);
  const candidates = record?.kind === 'open' ? record.candidates : undefined;
  return { line, result, pet, error, idempotencyKey, ...(candidates && { candidates }) };
}

function messageOf(record: RowRecord | undefined): string {
  if (record?.kind === 'failed') return record.error.message;
  return isUnknown(record) ? (record.message ?? '') : '';
}

/**
 * How many rows this run and earlier ones have added, such as `added 1 of 3 rows; 2 were added before`. If this run repeated
 * a request of an earlier run, which of them has added the row is unknown. `header` has the last number of earlier attempts.
 */
export function totalsText(
  { seq }: LedgerHeader,
  plan: Plan,
  before: RowGroups,
  after: RowGroups,
  unit: PetFile['unit'],
): string {
  const earlier = before.added.length;
  const repeated = before.open.filter((position) => {
    const record = recordOf(plan, position);
    return record?.kind === 'added' && record.seq <= seq;
  }).length;
  const perhaps = repeated === 0 ? '' : `, ${repeated} of them perhaps in an earlier run`;
  const already = earlier === 0 ? '' : `; ${earlier} ${wereOrWas(earlier)} added before`;
  const count = formatCount(plan.rows.length, 'row');
  return `added ${after.added.length - earlier} of ${count}${perhaps}${already}${skippedText(plan, after, unit)}`;
}

/**
 * Prints the totals of a run. `total` begins the message. `unknownHint` says what to do about unknown rows.
 *
 * @throws CliError with exit code 8 if a row failed or its outcome is unknown
 */
export function summarize(
  console: Console,
  total: string,
  { failed, open, answered }: RowGroups,
  unknownHint: string,
): number {
  const unknown = open.length + answered.length;
  let message = total;
  const hints: string[] = [];
  if (failed.length > 0) {
    message += `; ${failed.length} failed`;
    hints.push('fix the cause of the failed rows, then run the command again');
  }
  if (unknown > 0) {
    message += `; ${unknown} may have been added`;
    hints.push(unknownHint);
  }
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

/** How many rows were added, such as `2 of 3 rows were added on … from …`, may have been added, or are skipped. */
export function addedText(
  console: Console,
  plan: Plan,
  groups: RowGroups,
  { unit, isNamed = false }: { unit: PetFile['unit']; isNamed?: boolean },
): string {
  const places = groups.added.map((position) => locateRow(plan, position));
  const when = whenText(console, places);
  const names =
    isNamed && 2 * places.length < plan.rows.length ? namesIfFew(plan.rows, groups.added, unit) : '';
  const unknown = unknownText(groups.open.length + groups.answered.length);
  const skipped = skippedText(plan, groups, unit);
  return `${countText(places.length, plan.rows.length)} added${names}${when && ` ${when}`}${unknown}${skipped}`;
}

const wereOrWas = (count: number): string => (count <= 1 ? 'was' : 'were');

/** `all 3 rows were`, `1 of 3 rows was`, or `none of 3 rows was`. */
const countText = (count: number, total: number): string =>
  count === total && total > 1
    ? `all ${total} rows were`
    : `${count || 'none'} of ${formatCount(total, 'row')} ${wereOrWas(count)}`;

const unknownText = (count: number): string =>
  count === 0 ? '' : `, and ${formatCount(count, 'row')} may have been added`;

/** Every count is of all rows of the file, so each message also says how many of them are not sent because of their ids. */
const skippedText = ({ rows }: Plan, { withId }: RowGroups, unit: PetFile['unit']): string =>
  withId.length === 0
    ? ''
    : `; ${formatCount(withId.length, 'row')} with an id ${wereOrWas(withId.length)} skipped${namesIfFew(rows, withId, unit)}`;

/** When and from which file rows were added, such as `on 2026-11-20 13:00 CET from v1.csv`. */
function whenText({ timeZone }: Console, places: Iterable<RowPosition>): string {
  const imports = [...countByImport(places).keys()].sort((a, b) => a.seq - b.seq);
  const last = imports.at(-1);
  const several = imports.length > 1 ? `in ${imports.length} imports, the last ` : '';
  return last ? `${several}on ${formatMinute(last.at, timeZone())} from ${fileName(last.source)}` : '';
}

const fileName = (source: string | undefined): string =>
  source === undefined ? 'standard input' : basename(source);

/** Why the import stops, and how to go on. `commandWith` returns the command line of this run with one more option. */
export function stopError(
  { known, changes }: Stop,
  file: PetFile,
  console: Console,
  commandWith: (option: string) => string,
): CliError {
  const { rows, name, unit } = file;
  const withId = [...rows.keys()].filter((position) => rows[position]?.id !== undefined);
  const reasons: string[] = [];
  if (withId.length > 0) {
    const have = withId.length === 1 ? 'has' : 'have';
    const other = withId.filter((position) => !known.has(position));
    const isKnown = other.length > 0 && other.length < withId.length;
    const differing = isKnown
      ? ` (not known to have been added with these values: ${namesOf(rowsAt(rows, other), unit)})`
      : '';
    reasons.push(
      `${formatCount(withId.length, 'row')} ${have} an id, and the service cannot change animals${differing}`,
    );
  }
  if (known.size > 0) {
    const places = [...known].filter(([, { its, index }]) => its.rows[index]?.kind === 'added');
    const names =
      2 * known.size < rows.length
        ? namesIfFew(
            rows,
            places.map(([position]) => position),
            unit,
          )
        : '';
    const unknown = unknownText(known.size - places.length);
    reasons.push(
      `${countText(places.length, rows.length)} added${names}${unknown} ${whenText(console, known.values())}`,
    );
  }
  const nameOf = ({ at, source }: Import) =>
    `the import of ${fileName(source)} on ${formatMinute(at, console.timeZone())}`;
  const versions = changes.filter(hasHalf);
  if (known.size === 0)
    for (const { its, common } of versions.slice(0, IMPORTS_NAMED))
      reasons.push(`${common} of its rows ${wereOrWas(common)} in ${nameOf(its)}`);
  const earlier = new Set([...countByImport(known.values()).keys(), ...versions.map(({ its }) => its)]);
  const interrupted = [...earlier].filter(({ finishedAt }) => finishedAt === undefined);
  for (const its of interrupted.slice(0, IMPORTS_NAMED)) reasons.push(`${nameOf(its)} was interrupted`);
  const texts = changesText(file, changes);
  const also = texts.length === 0 ? '' : `. Also: ${texts.join('; ')}`;
  const again = `to add all ${rows.length}${withId.length > 0 ? ' as new animals' : ''}: ${commandWith('--add-again')}`;
  const others = withId.length > 0 ? 'new rows without an id' : 'others';
  const first = changes.some(({ changed }) => changed.size > 0) ? 'remove the changed rows, then ' : '';
  const skip = `to add only the ${others}: ${first}${commandWith('--skip-added')}`;
  return new CliError(`${name}: nothing was sent, because ${reasons.join('; ')}${also}`, {
    code: 'already_imported',
    hint: `${withId.length === rows.length ? 'to add a new animal, leave its id empty, and remove the other rows' : skip}; ${again}`,
  });
}

/** Describes the changes since earlier versions of the file were imported, one text for each kind of change. */
function changesText(
  { rows, unit }: { rows: readonly PetRow[]; unit: PetFile['unit'] },
  changes: readonly Changes[],
): string[] {
  return changes.slice(0, IMPORTS_NAMED).flatMap(({ its, changed, missing }) => {
    const source = fileName(its.source);
    const changedRows = rowsAt(rows, [...changed.keys()]);
    const missingNames = missing.map((record) =>
      isUnknown(record) ? record.name : `id ${record.pet.id} ${record.pet.name}`,
    );
    const [has, each] = changed.size === 1 ? ['has', 'it'] : ['have', 'each of them'];
    const [is, stays] = missing.length === 1 ? ['is', 'stays'] : ['are', 'stay'];
    return [
      changed.size > 0 &&
        `${formatCount(changed.size, 'row')} ${has} another category or status than when ${source} was imported: ${namesOf(changedRows, unit)}${perhapsText([...changed.values()])}; the service cannot change animals, so ${each} adds a second animal unless you remove the row`,
      missing.length > 0 &&
        `${formatCount(missing.length, 'animal')} imported from ${source} ${is} not in this file, and ${stays} as before: ${listNames(missingNames)}${perhapsText(missing)}`,
    ].filter((text) => text !== false);
  });
}

/** Says how many of these rows may have been added or not. */
function perhapsText(records: readonly RowRecord[]): string {
  const unknown = records.filter(isUnknown).length;
  if (unknown === 0) return '';
  return unknown === records.length
    ? ' (may not have been added)'
    : ` (${unknown} of them may not have been added)`;
}

const rowsAt = (rows: readonly PetRow[], positions: readonly number[]): PetRow[] =>
  positions.map((position) => rows[position] as PetRow);

/** Names rows in parentheses if they are few enough for a message; otherwise empty. */
const namesIfFew = (rows: readonly PetRow[], positions: readonly number[], unit: PetFile['unit']): string =>
  positions.length === 0 || positions.length > MAX_LISTED_NAMES
    ? ''
    : ` (${namesOf(rowsAt(rows, positions), unit)})`;

/** Some rows as a message names them, such as `line 2 Rex, line 5 Bella`. */
export const namesOf = (rows: readonly PetRow[], unit: PetFile['unit']): string =>
  listNames(rows.map(({ line, pet }) => `${unit} ${line} ${quoteIfBlank(pet.name)}`));

/** Reports which rows are added again without `--add-again`, and what has changed since another version of the file. */
export function reportRepeatedAndChanged(
  console: Console,
  { plan, choice, unit }: { plan: Plan; choice: Choice; unit: PetFile['unit'] },
  commandWith: (option: string) => string,
): void {
  const { rows, again, changes } = plan;
  if (again.size > 0 && choice === undefined) {
    const named = rowsAt(
      rows,
      [...again.keys()].sort((a, b) => a - b),
    );
    const addedAgain = named.map(({ line, pet }) => ({ line, name: pet.name }));
    const when = whenText(console, again.values());
    const text = `${countText(again.size, rows.length)} added ${when}, and will be added again: `;
    const skip = `; to add only the others: ${commandWith('--skip-added')}`;
    if (console.hasJsonEvents) console.event({ addedAgain }, '');
    else console.notice(`${text}${namesOf(named, unit)}${skip}`);
  }
  for (const text of changesText({ rows, unit }, changes)) console.notice(text);
}

/** Prints the rows that an import would send; a terminal only shows the first ones, so that the user can check the columns. */
export function writePreview(
  console: Console,
  rows: readonly PetRow[],
  unit: PetFile['unit'],
): Promise<void> {
  const columns: Column<PetRow>[] = [
    { name: 'line', head: unit.toUpperCase(), value: ({ line }) => line },
    { name: 'name', value: ({ pet }) => pet.name },
    { name: 'categoryId', head: 'CATEGORY', value: ({ pet }) => pet.categoryId },
    { name: 'status', value: ({ pet }) => pet.status, isFlexible: false },
  ];
  const view = { columns, json: ({ pet }: PetRow) => stringifyJson(pet) };
  const shown = isAtTerminal(console) ? rows.slice(0, ROWS_SHOWN) : rows;
  const more = rows.length - shown.length;
  const footer = more > 0 ? { summary: `… and ${formatCount(more, 'row')} more` } : undefined;
  return print(console, view, shown, footer);
}
