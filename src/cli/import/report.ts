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
import { type Import, idempotencyKeyOf, isOpen, type LedgerHeader, type RowRecord } from './ledger.ts';
import type { Match, Plan } from './plan.ts';
import { LOST_IN_A_ROW, SAME_REJECTIONS, type Stop } from './send.ts';

/** A row of the file with its latest record. */
export type Result = { row: PetRow; record: RowRecord | undefined };

/** A terminal lists at most this many rows. If the input has more, only rows that were not added are listed. */
const ROWS_SHOWN = 100;
/** The maximum number of messages that a terminal shows in full. */
const MESSAGES_SHOWN = 20;
/** The maximum number of rows and of earlier imports that a notice names. With `--json`, all rows are named. */
const NAMED = { rows: 10, imports: 3 };
/** The number of rows that a dry run shows on a terminal, so that the user can check the columns. */
const PREVIEW_ROWS = 5;
export const countKind = (results: readonly Result[], kind: RowRecord['kind']): number =>
  results.filter(({ record }) => record?.kind === kind).length;

/**
 * Writes the result of each row that has one. All rows have one unless the run has stopped, or the row has an id. If
 * nothing was sent (`isRerun`), a terminal shows only rows that were not added.
 */
export async function writeResults(
  console: Console,
  header: LedgerHeader,
  { results: all, isRerun }: { results: readonly Result[]; isRerun: boolean },
): Promise<void> {
  const results = all.filter(
    ({ record }) => record && !['notSent', 'intent', 'skipped'].includes(record.kind),
  );
  const isShort = console.isTerminal && !console.json;
  const isWhole = !isShort || (results.length <= ROWS_SHOWN && !isRerun);
  const listed = isWhole ? results : results.filter(({ record }) => record?.kind !== 'added');
  if (listed.length === 0 && !console.json) return;
  const withMessage = listed.filter(({ record }) => messageOf(record) !== '');
  const columns: Column<Result>[] = [
    { name: 'line', value: ({ row }) => row.line },
    {
      name: 'result',
      value: ({ record }) => (isOpen(record) ? 'unknown' : record?.kind),
      color: (result) => (result === 'added' ? 'green' : 'red'),
      isFlexible: false,
    },
    { name: 'id', value: ({ record }) => (record?.kind === 'added' ? record.pet.id : undefined) },
    { name: 'name', value: ({ row }) => row.pet.name },
    {
      name: 'message',
      value: ({ record }) => messageOf(record) || undefined,
      ...(withMessage.length === 0 && { only: 'data' }),
    },
  ];
  const json = (result: Result) => stringifyJson(jsonOf(header, result));
  try {
    await print(console, { noun: 'a row', columns, json }, isShort ? listed.slice(0, ROWS_SHOWN) : listed);
  } catch (error) {
    // A closed output pipe does not change the result of the run.
    if (!isClosedPipe(error)) throw error;
  }
  if (!console.isForPeople) return;
  // The table cuts long messages, so they are repeated below it.
  for (const { row, record } of withMessage.slice(0, MESSAGES_SHOWN))
    console.notice(`line ${row.line}: ${messageOf(record)}`);
  const more = withMessage.length - MESSAGES_SHOWN;
  if (more > 0) console.notice(`… and ${more} more; for all messages, add --json`);
}

function jsonOf(header: LedgerHeader, { row: { line, pet }, record }: Result): Record<string, unknown> {
  if (record?.kind === 'added') return { line, result: 'added', pet: record.pet };
  if (record?.kind === 'failed') return { line, result: 'failed', pet, error: record.error };
  const error = { code: 'outcome_unknown', message: messageOf(record), mayHaveBeenAdded: true };
  const idempotencyKey = record && 'seq' in record ? idempotencyKeyOf(header, record.seq) : undefined;
  const candidates = record?.kind === 'unknown' ? record.candidates : undefined;
  return { line, result: 'unknown', pet, error, idempotencyKey, ...(candidates && { candidates }) };
}

function messageOf(record: RowRecord | undefined): string {
  if (record?.kind === 'failed') return record.error.message;
  return record?.kind === 'unknown' || record?.kind === 'answered' ? record.message : '';
}

/**
 * Prints the totals of a run. `target` is the name of the service. If nothing was sent, `before` shows when the rows were
 * added.
 *
 * @throws CliError with exit code 8 if a row failed or its outcome is unknown
 */
export function summarize(
  console: Console,
  results: readonly Result[],
  { isRerun, before, hint, target }: { isRerun: boolean; before: string; hint: string; target: string },
): number {
  const counted = results.filter(({ record }) => record?.kind !== 'skipped');
  const added = countKind(counted, 'added');
  const failed = countKind(counted, 'failed');
  const unknown = counted.filter(({ record }) => isOpen(record)).length;
  const total = formatCount(counted.length, 'row');
  let message = isRerun
    ? `nothing to do at ${target}: ${countText(added, counted.length)} added${before}`
    : `added ${added} of ${total}`;
  const hints: string[] = [];
  if (failed > 0) {
    message += `; ${failed} failed`;
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

/** A text such as `all 3 rows were` or `2 of 3 rows were`. */
export function countText(count: number, total: number): string {
  if (count < total) return `${count} of ${formatCount(total, 'row')} were`;
  return total === 1 ? 'the row was' : `all ${total} rows were`;
}

/** When and from which files rows were added, such as `on 2026-11-20 13:00 CET from v1.csv`. */
export function whenText(matches: readonly Match[], zone: () => string): string {
  const found = matches.filter(({ known }) => known > 0).sort((a, b) => b.known - a.known);
  const texts = found.map(({ its }) => `on ${formatMinute(its.at, zone())} from ${sourceOf(its)}`);
  if (found.length < 2) return texts.join('');
  const counted = texts.slice(0, NAMED.imports).map((text, i) => `${found[i]?.known} ${text}`);
  const more = found.length - counted.length;
  return `before (${counted.join(', ')}${more > 0 ? `, and others from ${formatCount(more, 'file')}` : ''})`;
}

const sourceOf = ({ source }: Import): string => (source === undefined ? 'standard input' : basename(source));

/** Why the import stops, and how to go on. `commandWith` returns the command line of this run with one more option. */
export function stopError(
  { known, open, matches, ids }: Extract<Plan, { kind: 'stop' }>,
  rows: readonly PetRow[],
  name: string,
  { zone, commandWith }: { zone: () => string; commandWith: (option: string) => string },
): CliError {
  const total = formatCount(rows.length, 'row');
  const reasons: string[] = [];
  if (ids.length > 0) reasons.push(`import adds new animals; ${idsText(ids)} not changed`);
  if (known > 0) {
    const were = open === 0 ? 'were added' : 'were, or may have been, added';
    reasons.push(`${known} of ${total} ${were} ${whenText(matches, zone)}`);
    const other = matches.reduce((sum, each) => sum + (each.known > 0 ? each.sent - each.known : 0), 0);
    if (other > 0)
      reasons.push(
        `so ${other === 1 ? 'was' : 'were'} ${formatCount(other, 'row')} that this file does not have`,
      );
  }
  for (const { its, common, sent } of matches.filter((each) => each.known === 0).slice(0, NAMED.imports))
    reasons.push(
      `${formatCount(sent, 'other row')} of ${sourceOf(its)} ${sent === 1 ? 'was' : 'were'} added on ${formatMinute(its.at, zone())}, and ${common} of its ${formatCount(its.rows.length, 'row')} are in this file`,
    );
  const unfinished = matches.find(({ its }) => its.finishedAt === undefined)?.its;
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
export function reportAgain(console: Console, again: readonly PetRow[], when: string): void {
  if (again.length === 0) return;
  const named = again.map(({ line, pet }) => ({ line, name: pet.name }));
  const list = named.slice(0, NAMED.rows).map(({ line, name }) => `line ${line} ${quoteIfBlank(name)}`);
  const more = again.length > NAMED.rows ? `, and ${again.length - NAMED.rows} more` : '';
  const [rows, are] = again.length === 1 ? ['one row', 'is'] : [`${again.length} rows`, 'are'];
  if (console.hasJsonEvents) console.event({ addedAgain: named }, '');
  else
    console.notice(
      `${rows} equal to rows that were added ${when} ${are} added again: ${list.join(', ')}${more}`,
    );
}

export function toStopError({ reason, text }: Stop): CliError {
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
  const view = { noun: 'a row', columns, json: ({ pet }: PetRow) => stringifyJson(pet) };
  return print(console, view, console.json ? rows : rows.slice(0, PREVIEW_ROWS), footer);
}
