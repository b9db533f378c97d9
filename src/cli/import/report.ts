import { basename } from 'node:path';
import { stringifyJson } from '../../contract/json.ts';
import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { type Console, isClosedPipe } from '../output/console.ts';
import { type Column, print } from '../output/printer.ts';
import { quoteIfBlank } from '../output/sanitize.ts';
import { formatCount } from '../output/text.ts';
import { formatMinute } from '../output/time.ts';
import type { PetRow } from '../rows/read-file.ts';
import {
  type Import,
  idempotencyKeyOf,
  isUnknown,
  type LedgerHeader,
  type Place,
  type RowRecord,
} from './ledger.ts';
import { countByImport, groupRows, isKnown, type Plan, placeOf, recordOf, type Stop } from './plan.ts';
import { LOST_IN_A_ROW, SAME_REJECTIONS, type StoppedEarly } from './send.ts';

/** A terminal lists at most this many rows. If the input has more, only rows that were not added are listed. */
const ROWS_SHOWN = 100;
/** The maximum number of messages that a terminal shows in full. */
const MESSAGES_SHOWN = 20;
/** The maximum number of rows and of earlier imports that a notice names. With `--json`, all rows are named. */
const NAMED = { rows: 10, imports: 3 };
/** The number of rows that a dry run shows on a terminal, so that the user can check the columns. */
const PREVIEW_ROWS = 5;

/**
 * Writes the result of each row that has one. All rows have one unless the run has stopped, or the row has an id. If
 * nothing was sent (`isRerun`), a terminal shows only rows that were not added.
 */
export async function writeResults(
  console: Console,
  header: LedgerHeader,
  { plan, isRerun }: { plan: Plan; isRerun: boolean },
): Promise<void> {
  const rowAt = (position: number) => plan.rows[position] as PetRow;
  // Positions in the file instead of objects, of which a million would take hundreds of megabytes.
  const hasResult = (position: number) => {
    const record = recordOf(plan, position);
    return record !== undefined && !(record.kind === 'open' && record.message === undefined);
  };
  const results = [...plan.rows.keys()].filter(hasResult);
  const isShort = console.isTerminal && !console.json;
  const isWhole = !isShort || (results.length <= ROWS_SHOWN && !isRerun);
  const listed = isWhole ? results : results.filter((each) => recordOf(plan, each)?.kind !== 'added');
  if (listed.length === 0 && !console.json) return;
  const messageAt = (position: number) => messageOf(recordOf(plan, position));
  const withMessage = listed.filter((each) => messageAt(each) !== '');
  const columns: Column<number>[] = [
    { name: 'line', value: (each) => rowAt(each).line },
    {
      name: 'result',
      value: (each) => resultOf(recordOf(plan, each)),
      color: (result) => (result === 'added' ? 'green' : 'red'),
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
  const json = (each: number) => stringifyJson(jsonOf(header, rowAt(each), recordOf(plan, each)));
  try {
    await print(console, { columns, json }, isShort ? listed.slice(0, ROWS_SHOWN) : listed);
  } catch (error) {
    // A closed output pipe does not change the result of the run.
    if (!isClosedPipe(error)) throw error;
  }
  if (!console.isForPeople) return;
  // The table cuts long messages, so they are repeated below it.
  for (const each of withMessage.slice(0, MESSAGES_SHOWN))
    console.notice(`line ${rowAt(each).line}: ${messageAt(each)}`);
  const more = withMessage.length - MESSAGES_SHOWN;
  if (more > 0) console.notice(`… and ${more} more; for all messages, add --json`);
}

const resultOf = (record: RowRecord | undefined) => (isUnknown(record) ? 'unknown' : record?.kind);

function jsonOf(
  header: LedgerHeader,
  { line, pet }: PetRow,
  record: RowRecord | undefined,
): Record<string, unknown> {
  const result = resultOf(record);
  if (record?.kind === 'added') return { line, result, pet: record.pet };
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
 * Prints the totals of a run. `target` is the name of the service. If nothing was sent, `isRerun` is set.
 *
 * @throws CliError with exit code 8 if a row failed or its outcome is unknown
 */
export function summarize(
  console: Console,
  { plan, isRerun, hint, target }: { plan: Plan; isRerun: boolean; hint: string; target: string },
): number {
  const { added, failed, open, answered } = groupRows(plan);
  const unknown = open.length + answered.length;
  let message = isRerun
    ? `nothing to do at ${target}: ${addedText(console, plan)}`
    : `added ${added.length} of ${formatCount(plan.rows.length, 'row')}${skippedText(plan)}`;
  const hints: string[] = [];
  if (failed.length > 0) {
    message += `; ${failed.length} failed`;
    hints.push('run the command again to try the failed rows again');
  }
  if (unknown > 0) {
    message += `; ${unknown} may have been added`;
    hints.push(hint);
  }
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

/** How many rows of the file were added, when, and from which files, such as `2 of 3 rows were added on … from …`. */
export function addedText(console: Console, plan: Plan): string {
  const total = plan.rows.length;
  const places = groupRows(plan).added.map((position) => placeOf(plan, position));
  const count = places.length;
  const all = total === 1 ? 'the row was' : `all ${total} rows were`;
  const which = count < total ? `${count} of ${formatCount(total, 'row')} were` : all;
  const when = count === 0 ? '' : ` ${whenText(console, places)}`;
  return `${which} added${when}${skippedText(plan)}`;
}

/** Every count is of all rows of the file, so each message also says how many of them are not sent because of their ids. */
export function skippedText(plan: Plan): string {
  const { withId } = groupRows(plan);
  return withId.length === 0 ? '' : `; ${formatCount(withId.length, 'row')} with an id skipped`;
}

/** When and from which files rows were added, such as `on 2026-11-20 13:00 CET from v1.csv`. */
export function whenText({ timeZone }: Console, places: Iterable<Place>): string {
  const counts = [...countByImport(places)].sort(([, a], [, b]) => b - a);
  const texts = counts.map(([its]) => `on ${formatMinute(its.at, timeZone())} from ${sourceOf(its)}`);
  if (texts.length < 2) return texts.join('');
  const counted = texts.slice(0, NAMED.imports).map((text, i) => `${counts[i]?.[1]} ${text}`);
  const more = texts.length - counted.length;
  return `before (${counted.join(', ')}${more > 0 ? `, and others from ${formatCount(more, 'file')}` : ''})`;
}

const sourceOf = ({ source }: Import): string => (source === undefined ? 'standard input' : basename(source));

/** Why the import stops, and how to go on. `commandWith` returns the command line of this run with one more option. */
export function stopError(
  { known, earlier }: Stop,
  { rows, name }: { rows: readonly PetRow[]; name: string },
  console: Console,
  commandWith: (option: string) => string,
): CliError {
  const ids = rows.flatMap(({ id }) => (id === undefined ? [] : [id]));
  const reasons: string[] = [];
  if (ids.length > 0) reasons.push(`import adds new animals; ${idsText(ids)} not changed`);
  const counts = countByImport(known.values());
  const sentBy = ({ rows }: Import) => rows.filter(isKnown).length;
  if (known.size > 0) {
    const isOpen = [...known.values()].some(({ its, index }) => isUnknown(its.rows[index]));
    const were = isOpen ? 'were, or may have been, added' : 'were added';
    const when = whenText(console, known.values());
    reasons.push(`${known.size} of ${formatCount(rows.length, 'row')} ${were} ${when}`);
    const other = [...counts].reduce((sum, [its, count]) => sum + sentBy(its) - count, 0);
    if (other > 0)
      reasons.push(
        `so ${other === 1 ? 'was' : 'were'} ${formatCount(other, 'row')} that this file does not have`,
      );
  }
  for (const [its, common] of [...earlier].filter(([each]) => !counts.has(each)).slice(0, NAMED.imports)) {
    const sent = sentBy(its);
    reasons.push(
      `${formatCount(sent, 'other row')} of ${sourceOf(its)} ${sent === 1 ? 'was' : 'were'} added on ${formatMinute(its.at, console.timeZone())}, and ${common} of its ${formatCount(its.rows.length, 'row')} are in this file`,
    );
  }
  const unfinished = [...earlier.keys()].find(({ finishedAt }) => finishedAt === undefined);
  if (unfinished) {
    const sent = unfinished.rows.filter(Boolean).length;
    reasons.push(
      `the import from ${sourceOf(unfinished)} was interrupted after ${sent} of ${formatCount(unfinished.rows.length, 'row')}`,
    );
  }
  const again = `to add all ${rows.length}: ${commandWith('--add-again')}`;
  const skip = `to add only the others: ${commandWith('--skip-added')}`;
  return new CliError(`${name}: ${reasons.join('; ')}`, {
    code: 'already_imported',
    hint: rows.every(({ id }) => id !== undefined) ? again : `${skip}; ${again}`,
  });
}

/** Which animals a file does not change, such as `those with the ids 17 to 316 are`. */
function idsText(ids: readonly unknown[]): string {
  if (ids.length === 1) return `the one with the id ${ids[0]} is`;
  const numbers = ids.filter((id) => typeof id === 'bigint').sort((a, b) => (a < b ? -1 : Number(a > b)));
  if (numbers.length < ids.length) return `the ${ids.length} with an id are`;
  return `those with the ids ${numbers[0]} to ${numbers.at(-1)} are`;
}

/** Names the rows that are sent although an equal row was added before. */
export function reportAgain(console: Console, { rows, again }: Plan): void {
  if (again.size === 0) return;
  const named = [...again.keys()]
    .sort((a, b) => a - b)
    .map((position) => ({ line: rows[position]?.line, name: rows[position]?.pet.name ?? '' }));
  const list = named.slice(0, NAMED.rows).map(({ line, name }) => `line ${line} ${quoteIfBlank(name)}`);
  const more = again.size > NAMED.rows ? `, and ${again.size - NAMED.rows} more` : '';
  const [count, are] = again.size === 1 ? ['one row', 'is'] : [`${again.size} rows`, 'are'];
  const when = whenText(console, again.values());
  if (console.hasJsonEvents) console.event({ addedAgain: named }, '');
  else
    console.notice(
      `${count} equal to rows that were added ${when} ${are} added again: ${list.join(', ')}${more}`,
    );
}

export function toStopError({ reason, text }: StoppedEarly): CliError {
  if (reason === 'rejected') {
    return new CliError(
      `stopped, because the first ${SAME_REJECTIONS} rows were rejected with the same error: ${text}`,
      {
        code: 'some_failed',
        hint: 'fix the problem and run the command again; it begins with the rows that were not sent yet',
      },
    );
  }
  return new CliError(
    `stopped, because the outcome of the last ${LOST_IN_A_ROW} rows is unknown; they may or may not have been added: ${text}`,
    {
      code: 'outcome_unknown',
      mayHaveBeenAdded: true,
      hint: 'when the service works again, run the command again: it compares these rows with the inventory, and sends the others',
    },
  );
}

/** Prints the rows that an import would send as JSON, or the first ones, so that the user can check the columns. */
export function writePreview(console: Console, rows: readonly PetRow[]): Promise<void> {
  const columns: Column<PetRow>[] = [
    { name: 'line', value: ({ line }) => line },
    { name: 'name', value: ({ pet }) => pet.name },
    { name: 'categoryId', head: 'CATEGORY', value: ({ pet }) => pet.categoryId },
    { name: 'status', value: ({ pet }) => pet.status, isFlexible: false },
  ];
  const more = rows.length - PREVIEW_ROWS;
  const footer = more <= 0 ? undefined : { summary: `… and ${formatCount(more, 'row')} more` };
  const view = { columns, json: ({ pet }: PetRow) => stringifyJson(pet) };
  return print(console, view, console.json ? rows : rows.slice(0, PREVIEW_ROWS), footer);
}
