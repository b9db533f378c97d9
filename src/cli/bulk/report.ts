import { stringifyJson } from '../../contract/json.ts';
import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { type Console, isClosedPipe } from '../output/console.ts';
import { formatCount } from '../output/format-count.ts';
import { quoteIfBlank, sanitizeJson, tsvLine } from '../output/sanitize.ts';
import type { Column } from '../output/table.ts';
import { formatMinute } from '../output/time.ts';
import { idempotencyKeyOf, type LedgerEntry, type LedgerHeader } from './ledger.ts';
import { countKind, type PlannedRow } from './plan.ts';

/** A terminal lists at most this many rows. If the input has more, only rows that were not added are listed. */
const ROWS_SHOWN = 100;
/** The maximum number of messages that a terminal shows in full. */
const MESSAGES_SHOWN = 20;
/** The maximum number of removed rows that are listed. With `--json`, all are listed. */
const GONE_SHOWN = 10;
/** Rows are written in parts, because few long writes take less time than many short ones. */
const ROWS_PER_WRITE = 100;

/**
 * Writes the result of each row that has one. All rows have one unless the run has stopped. If nothing was sent
 * (`isRerun`), a terminal shows only rows that were not added.
 */
export async function writeResults(
  console: Console,
  header: LedgerHeader,
  { rows: all, isRerun }: { rows: readonly PlannedRow[]; isRerun: boolean },
): Promise<void> {
  const rows = all.filter(({ entry }) => entry && entry.kind !== 'notSent' && entry.kind !== 'intent');
  try {
    if (console.json) await writeJsonArray(console, rows, (row) => jsonOf(header, row));
    else if (console.isTable) await writeTable(console, rows, isRerun);
    else await writeTexts(console, rows, (row) => tsvLine(cellsOf(row)));
  } catch (error) {
    // A closed output pipe does not change the result of the run.
    if (!isClosedPipe(error)) throw error;
  }
}

/** Writes a JSON array as one document, with one element per line. */
export function writeJsonArray<Item>(
  console: Console,
  items: readonly Item[],
  toJson: (item: Item) => unknown,
): Promise<void> {
  const show = console.isTerminal ? sanitizeJson : (text: string) => text;
  if (items.length === 0) return console.write('[]\n');
  return writeTexts(console, items, (item, i) => {
    const end = i === items.length - 1 ? ']' : ',';
    return `${i === 0 ? '[' : ''}${show(stringifyJson(toJson(item)))}${end}\n`;
  });
}

async function writeTexts<Item>(
  console: Console,
  items: readonly Item[],
  toText: (item: Item, i: number) => string,
): Promise<void> {
  for (let first = 0; first < items.length; first += ROWS_PER_WRITE) {
    const part = items.slice(first, first + ROWS_PER_WRITE);
    await console.write(part.map((item, i) => toText(item, first + i)).join(''));
  }
}

async function writeTable(console: Console, rows: readonly PlannedRow[], isRerun: boolean): Promise<void> {
  const isWhole = !console.isTerminal || (rows.length <= ROWS_SHOWN && !isRerun);
  const listed = isWhole ? rows : rows.filter(({ entry }) => entry?.kind !== 'added');
  if (listed.length === 0) return;
  const withMessage = listed.filter((row) => messageOf(row) !== '');
  const { green, red } = console.colours;
  const columns: Column[] = [
    { head: 'LINE', align: 'right' },
    { head: 'RESULT', format: (shown: string, result: string) => (result === 'added' ? green : red)(shown) },
    { head: 'ID', align: 'right' },
    { head: 'NAME', flexible: true },
  ];
  if (withMessage.length > 0) columns.push({ head: 'MESSAGE', flexible: true });
  const shown = console.isTerminal ? listed.slice(0, ROWS_SHOWN) : listed;
  const cells = shown.map((row) => cellsOf(row, quoteIfBlank));
  const { renderRows } = await import('../output/table.ts');
  await console.write(renderRows(console, columns, cells));
  // The table cuts long messages, so they are repeated below it.
  for (const row of withMessage.slice(0, MESSAGES_SHOWN))
    console.notice(`line ${row.line}: ${messageOf(row)}`);
  const more = withMessage.length - MESSAGES_SHOWN;
  if (more > 0) console.notice(`… and ${more} more; for all messages, add --json`);
}

function jsonOf(header: LedgerHeader, row: PlannedRow): Record<string, unknown> {
  const { line, pet, entry } = row;
  if (entry?.kind === 'added') return { line, result: 'added', pet: entry.pet };
  if (entry?.kind === 'failed') return { line, result: 'failed', pet, error: entry.error };
  const error = { code: 'outcome_unknown', message: messageOf(row), mayHaveBeenAdded: true };
  const candidates = entry?.kind === 'unknown' ? entry.candidates : undefined;
  const idempotencyKey = idempotencyKeyOf(header, row, entry);
  return { line, result: 'unknown', pet, error, idempotencyKey, ...(candidates && { candidates }) };
}

function cellsOf(row: PlannedRow, showName = (name: string) => name): string[] {
  const { line, pet, entry } = row;
  const id = entry?.kind === 'added' ? entry.pet.id.toString() : '';
  return [line.toString(), entry?.kind ?? '', id, showName(pet.name), messageOf(row)];
}

function messageOf({ entry }: PlannedRow): string {
  if (entry?.kind === 'failed') return entry.error.message;
  return entry?.kind === 'unknown' ? entry.message : '';
}

/**
 * Reports animals that still exist although their rows are no longer in the file. With `--json`, reports all of them,
 * otherwise at most `GONE_SHOWN`.
 */
export function reportGone(console: Console, name: string, gone: readonly LedgerEntry[]): void {
  const rows = gone
    .flatMap((entry) => (entry.kind === 'added' ? [entry] : []))
    .map(({ line, pet }) => ({ line, name: pet.name, id: pet.id }))
    .sort((a, b) => a.line - b.line);
  if (rows.length === 0) return;
  const list = rows
    .slice(0, GONE_SHOWN)
    .map((row) => `line ${row.line} ${quoteIfBlank(row.name)} (id ${row.id})`)
    .join(', ');
  const more = rows.length > GONE_SHOWN ? `, and ${rows.length - GONE_SHOWN} more` : '';
  const what =
    rows.length === 1
      ? `1 row is no longer in ${name}, but its animal still exists`
      : `${rows.length} rows are no longer in ${name}, but their animals still exist`;
  if (console.hasJsonEvents) console.event({ formerRows: rows }, '');
  else console.notice(`${what}: ${list}${more}`);
}

/**
 * Prints the totals of a run at a service, whose name is `target`. `unknownHint` is the next step if the outcome of a row
 * is unknown.
 *
 * @throws CliError with exit code 8 if a row failed or its outcome is unknown
 */
export function summarize(
  console: Console,
  rows: readonly PlannedRow[],
  { isRerun, unknownHint, target }: { isRerun: boolean; unknownHint: string; target: string },
): number {
  const failed = countKind(rows, 'failed');
  const unknown = countKind(rows, 'unknown');
  let message = isRerun
    ? `nothing to do at ${target}: ${addedText(rows, console.timeZone)}`
    : `added ${countKind(rows, 'added')} of ${formatCount(rows.length, 'row')}`;
  const hints: string[] = [];
  if (failed > 0) {
    message += `; ${failed} failed`;
    hints.push('rerun the command to try the failed rows again');
  }
  if (unknown > 0) {
    message += `; ${unknown} may have been added`;
    hints.push(unknownHint);
  }
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

/** A text such as `all 3 rows were added on 2026-11-20 13:00 CET`, with the time when the last row was added. */
export function addedText(rows: readonly PlannedRow[], timeZone: () => string): string {
  const added = rows.flatMap(({ entry }) => (entry?.kind === 'added' ? [entry.at] : []));
  const last = added.sort().at(-1);
  if (last === undefined) return 'no row is known to have been added';
  const on = `on ${formatMinute(last, timeZone())}`;
  if (rows.length === 1) return `the row was added ${on}`;
  const count = added.length === rows.length ? 'all' : `${added.length} of`;
  return `${count} ${formatCount(rows.length, 'row')} were added ${on}`;
}
