import { basename } from 'node:path';
import { stringifyJson } from '../../contract/json.ts';
import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { type Console, isClosedPipe } from '../output/console.ts';
import { type Column, print } from '../output/printer.ts';
import { quoteIfBlank } from '../output/sanitize.ts';
import { formatCount, listNames } from '../output/text.ts';
import { formatMinute } from '../output/time.ts';
import type { PetFile, PetRow } from '../rows/read-file.ts';
import {
  idempotencyKeyOf,
  isUnknown,
  type LedgerHeader,
  type RowPosition,
  type RowRecord,
} from './ledger.ts';
import {
  type Choice,
  countByImport,
  type EarlierImports,
  isKnown,
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
/** The maximum number of earlier imports that an error names. */
const IMPORTS_NAMED = 3;

/** Whether a table is printed at a terminal. If there are many rows, it lists only those that were not added. */
const isAtTerminal = ({ isTerminal, format }: Console): boolean => isTerminal && format === 'table';

/**
 * Writes the result of each row that has one. All rows have one unless the run has stopped, or the row has an id. `before` has
 * the rows that earlier runs added.
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

/** How many rows this run has added, and how many an earlier one, such as `added 1 of 3 rows; 2 were added before`. */
export function totalsText({ rows }: Plan, before: RowGroups, after: RowGroups): string {
  const earlier = before.added.length;
  const already = earlier === 0 ? '' : `; ${earlier} ${wereOrWas(earlier)} added before`;
  return `added ${after.added.length - earlier} of ${formatCount(rows.length, 'row')}${already}${skippedText(after)}`;
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
    hints.push('run the command again to try the failed rows again');
  }
  if (unknown > 0) {
    message += `; ${unknown} may have been added`;
    hints.push(unknownHint);
  }
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

/** How many rows of the file were added, when, and from which files, such as `2 of 3 rows were added on … from …`. */
export function addedText(console: Console, plan: Plan, groups: RowGroups): string {
  const places = groups.added.map((position) => locateRow(plan, position));
  const when = whenText(console, places);
  const unknown = unknownText(groups.open.length + groups.answered.length);
  return `${countText(places.length, plan.rows.length)} added${when && ` ${when}`}${unknown}${skippedText(groups)}`;
}

const wereOrWas = (count: number): string => (count === 1 ? 'was' : 'were');

/** `all 3 rows were`, or `1 of 3 rows was`. */
const countText = (count: number, total: number): string =>
  count === total && total > 1
    ? `all ${total} rows were`
    : `${count} of ${formatCount(total, 'row')} ${wereOrWas(count)}`;

const unknownText = (count: number): string =>
  count === 0 ? '' : `, and ${formatCount(count, 'row')} may have been added`;

/** Every count is of all rows of the file, so each message also says how many of them are not sent because of their ids. */
const skippedText = ({ withId }: RowGroups): string =>
  withId.length === 0 ? '' : `; ${formatCount(withId.length, 'row')} with an id skipped`;

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
  { known, earlier }: Stop,
  file: PetFile,
  console: Console,
  commandWith: (option: string) => string,
): CliError {
  const { rows, name } = file;
  const withId = rows.filter(({ id }) => id !== undefined).length;
  const reasons: string[] = [];
  if (withId > 0)
    reasons.push(
      `${formatCount(withId, 'row')} ${withId === 1 ? 'has' : 'have'} an id, and the service cannot change animals`,
    );
  if (known.size > 0) {
    const unknown = [...known.values()].filter(({ its, index }) => isUnknown(its.rows[index])).length;
    const when = whenText(console, known.values());
    reasons.push(`${countText(known.size - unknown, rows.length)} added${unknownText(unknown)} ${when}`);
  }
  for (const [{ at, source, finishedAt }, common] of [...earlier].slice(0, IMPORTS_NAMED)) {
    const which = `the import of ${fileName(source)} on ${formatMinute(at, console.timeZone())}`;
    if (known.size === 0) reasons.push(`${common.size} of its rows ${wereOrWas(common.size)} in ${which}`);
    if (finishedAt === undefined) reasons.push(`${which} was interrupted`);
  }
  reasons.push(...changesText(file, earlier, (position) => !known.has(position)));
  const again = `to add all ${rows.length}${withId > 0 ? ' as new animals' : ''}: ${commandWith('--add-again')}`;
  const others = withId > 0 ? 'new rows without an id' : 'others';
  const skip = `to add only the ${others}: ${commandWith('--skip-added')}`;
  return new CliError(`${name}: nothing was sent, because ${reasons.join('; ')}`, {
    code: 'already_imported',
    hint: `${withId === rows.length ? 'to add a new animal, leave its id empty, and remove the other rows' : skip}; ${again}`,
  });
}

/**
 * Names what has changed since earlier versions of the file were imported: rows that have the name of an animal that was
 * added, or may have been, but another category or status; and animals whose names are not in the file. `isNew` tells whether
 * the row at a position is not known.
 */
export function changesText(
  { rows, unit }: { rows: readonly PetRow[]; unit: PetFile['unit'] },
  earlier: EarlierImports,
  isNew: (position: number) => boolean,
): string[] {
  return [...earlier].slice(0, IMPORTS_NAMED).flatMap(([{ source, rows: all }, common]) => {
    if (2 * common.size < all.length) return [];
    const left = all.filter((row, i) => isKnown(row) && !common.has(i));
    const added = left.flatMap((row) => (row?.kind === 'added' ? row.pet : []));
    const unknown = left.filter(isUnknown);
    const names = new Set(added.map(({ name }) => name));
    const others = new Set(unknown.flatMap(({ name }) => (names.has(name) ? [] : name)));
    const changed = rows.filter(({ pet }, position) => names.has(pet.name) && isNew(position));
    const uncertain = rows.filter(({ pet }, position) => others.has(pet.name) && isNew(position));
    const present = new Set([...changed, ...uncertain].map(({ pet }) => pet.name));
    const missing = [
      ...added.map(({ name, id }) => ({ name, note: `id ${id}` })),
      ...unknown.map(({ name }) => ({ name, note: 'maybe added' })),
    ].filter(({ name }) => !present.has(name));
    const [have, each] = changed.length === 1 ? ['has', 'it'] : ['have', 'each'];
    const [are, stay] = missing.length === 1 ? ['is', 'stays'] : ['are', 'stay'];
    return [
      changed.length > 0 &&
        `${formatCount(changed.length, 'row')} ${have} another category or status than when ${fileName(source)} was imported: ${namesOf(changed, unit)}; ${each} becomes a second animal unless you remove the row`,
      uncertain.length > 0 &&
        `${formatCount(uncertain.length, 'row')} may have been added with another category or status: ${namesOf(uncertain, unit)}; to see whether that happened: pets find <name>`,
      missing.length > 0 &&
        `${formatCount(missing.length, 'animal')} of ${fileName(source)} ${are} not in this file, and ${stay} as before: ${listNames(missing.map(({ name, note }) => `${name} (${note})`))}`,
    ].filter((text) => text !== false);
  });
}

/** Some rows as a message names them, such as `line 2 Rex, line 5 Bella`. */
export const namesOf = (rows: readonly PetRow[], unit: PetFile['unit']): string =>
  listNames(rows.map(({ line, pet }) => `${unit} ${line} ${quoteIfBlank(pet.name)}`));

/** Names what a user should know about a plan: rows that are added a second time, and rows that have changed. */
export function reportRepeatedAndChanged(
  console: Console,
  { plan, choice, unit }: { plan: Plan; choice: Choice; unit: PetFile['unit'] },
  commandWith: (option: string) => string,
): void {
  const { rows, again, earlier } = plan;
  if (again.size > 0 && choice === undefined) {
    const named = [...again.keys()].sort((a, b) => a - b).map((position) => rows[position] as PetRow);
    const addedAgain = named.map(({ line, pet }) => ({ line, name: pet.name }));
    const when = whenText(console, again.values());
    const text = `${countText(again.size, rows.length)} added ${when}, and will be added a second time: `;
    const skip = `; to add only the others: ${commandWith('--skip-added')}`;
    if (console.hasJsonEvents) console.event({ addedAgain }, '');
    else console.notice(`${text}${namesOf(named, unit)}${skip}`);
  }
  const isNew = (position: number) => recordOf(plan, position) === undefined;
  for (const text of changesText({ rows, unit }, earlier, isNew)) console.notice(text);
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
