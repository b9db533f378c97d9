import { stringifyJson } from '../../contract/json.ts';
import { exitCodes } from '../errors/codes.ts';
import { CliError } from '../errors/errors.ts';
import { type Console, OutputError } from '../output/console.ts';
import { joinTexts } from '../output/join-texts.ts';
import { quoteIfBlank, sanitizeJson, tsvLine } from '../output/sanitize.ts';
import type { Column } from '../output/table.ts';
import { countKinds, entryOf, idempotencyKeyOf, type Ledger, type LedgerEntry } from './ledger.ts';
import type { PlannedRow } from './plan.ts';
import { formatInstant, formatRows } from './refusal.ts';

/** If there are more rows than this, a terminal lists only those that were not added. */
const ROWS_SHOWN = 100;
/** The maximum number of messages that a terminal shows in full. */
const MESSAGES_SHOWN = 20;
/** Without `--json`, the maximum number of listed rows that are no longer in the file. */
const GONE_SHOWN = 10;

/** Writes the result of each of the rows. `isRerun`: nothing was sent, so a terminal shows only what is not added. */
export async function writeResults(
  console: Console,
  ledger: Ledger,
  { rows, isRerun }: { rows: readonly PlannedRow[]; isRerun: boolean },
): Promise<void> {
  try {
    if (console.json) await writeJsonArray(console, rows, (row) => jsonOf(ledger, row));
    else if (console.isTerminal) await writeTable(console, ledger, rows, isRerun);
    else await writeTexts(console, rows, (row) => tsvLine(cellsOf(ledger, row)));
  } catch (error) {
    // A closed output pipe does not change the result of the run.
    if (!(error instanceof OutputError) || error.code !== 'EPIPE') throw error;
  }
}

/** Writes one JSON document, element by element. */
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
  function* texts() {
    for (const [i, item] of items.entries()) yield toText(item, i);
  }
  for (const part of joinTexts(texts())) await console.write(part);
}

async function writeTable(
  console: Console,
  ledger: Ledger,
  rows: readonly PlannedRow[],
  isRerun: boolean,
): Promise<void> {
  const { renderRows } = await import('../output/table.ts');
  const isWhole = rows.length <= ROWS_SHOWN && !isRerun;
  const listed = isWhole ? rows : rows.filter((row) => entryOf(ledger, row)?.kind !== 'added');
  if (listed.length === 0) return;
  const messages = listed
    .map((row) => ({ line: row.line, message: messageOf(entryOf(ledger, row)) }))
    .filter(({ message }) => message !== '');
  const { green, red } = console.colours;
  const columns: Column[] = [
    { head: 'LINE', align: 'right' },
    { head: 'RESULT', format: (shown: string, result: string) => (result === 'added' ? green : red)(shown) },
    { head: 'ID', align: 'right' },
    { head: 'NAME', flexible: true },
  ];
  if (messages.length > 0) columns.push({ head: 'MESSAGE', flexible: true });
  const cells = listed.slice(0, ROWS_SHOWN).map((row) => cellsOf(ledger, row, quoteIfBlank));
  await console.write(renderRows(console, columns, cells));
  // The table cuts them off.
  for (const { line, message } of messages.slice(0, MESSAGES_SHOWN))
    console.notice(`line ${line}: ${message}`);
  const more = messages.length - MESSAGES_SHOWN;
  if (more > 0) console.notice(`… and ${more} more; for all messages, add --json`);
}

function jsonOf(ledger: Ledger, row: PlannedRow): Record<string, unknown> {
  const entry = entryOf(ledger, row);
  const { line, pet } = row;
  if (entry?.kind === 'added') return { line, result: 'added', pet: entry.pet };
  if (entry?.kind === 'failed') return { line, result: 'failed', pet, error: entry.error };
  const error = { code: 'outcome_unknown', message: messageOf(entry) };
  return { line, result: 'unknown', pet, error, idempotencyKey: idempotencyKeyOf(ledger.header, row, entry) };
}

function cellsOf(ledger: Ledger, row: PlannedRow, showName = (name: string) => name): string[] {
  const entry = entryOf(ledger, row);
  const id = entry?.kind === 'added' ? entry.pet.id.toString() : '';
  return [row.line.toString(), entry?.kind ?? '', id, showName(row.pet.name), messageOf(entry)];
}

function messageOf(entry: LedgerEntry | undefined): string {
  if (entry?.kind === 'failed') return entry.error.message;
  return entry?.kind === 'unknown' ? entry.message : '';
}

/**
 * Reports animals that were added from rows which are no longer in the file, because they still exist: the first ones, or
 * with `--json` all.
 */
export function reportGone(console: Console, name: string, gone: readonly LedgerEntry[]): void {
  const rows = gone
    .flatMap((entry) => (entry.kind === 'added' ? [entry] : []))
    .map(({ line, pet }) => ({ line, name: pet.name, id: pet.id }))
    .sort((a, b) => a.line - b.line);
  if (rows.length === 0) return;
  const shown = rows.slice(0, GONE_SHOWN);
  const list = shown.map((row) => `line ${row.line} ${quoteIfBlank(row.name)} (id ${row.id})`).join(', ');
  const more = rows.length > shown.length ? `, and ${rows.length - shown.length} more` : '';
  const isOne = rows.length === 1;
  const what = isOne ? '1 row is' : `${rows.length} rows are`;
  const still = isOne ? 'its animal still exists' : 'their animals still exist';
  if (console.json) console.event({ formerRows: rows }, '');
  else console.notice(`${what} no longer in ${name}, but ${still}: ${list}${more}`);
}

/** The last line of a run. @throws CliError, exit code 8, unless all rows are added */
export function summarize(
  console: Console,
  ledger: Ledger,
  rows: readonly PlannedRow[],
  isRerun: boolean,
): number {
  const { added, failed, unknown } = countKinds(ledger, rows);
  let message = isRerun
    ? `nothing to do: ${addedText(ledger, rows)}`
    : `added ${added} of ${formatRows(rows.length)}`;
  const hints: string[] = [];
  if (failed > 0) {
    message += `; ${failed} failed`;
    hints.push('rerun the command to try the failed rows again');
  }
  if (unknown > 0) {
    message += `; ${unknown} may have been added`;
    hints.push('check the rows that may have been added: pets list --all');
  }
  if (hints.length > 0) throw new CliError(message, { code: 'some_failed', hint: hints.join('; ') });
  console.notice(message);
  return exitCodes.ok;
}

/** `all 3 rows were added on 2026-11-20 12:00 UTC` */
export function addedText(ledger: Ledger, rows: readonly PlannedRow[]): string {
  const added = rows.map((row) => entryOf(ledger, row)).filter((entry) => entry?.kind === 'added');
  const last = added.reduce((latest, entry) => (entry && entry.at > latest ? entry.at : latest), '');
  const all = rows.length === 1 ? 'the row' : `all ${formatRows(rows.length)}`;
  const which = added.length === rows.length ? all : `${added.length} of ${formatRows(rows.length)}`;
  const on = last === '' ? '' : ` on ${formatInstant(last)}`;
  return `${which} ${rows.length === 1 ? 'was' : 'were'} added${on}`;
}
