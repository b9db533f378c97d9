import { stringifyJson } from '../../contract/json.ts';
import type { Console } from '../output/console.ts';
import type { Column } from '../output/table.ts';
import { quoteBlank, tabSeparatedLine, visibleJson } from '../output/visible.ts';
import type { Outcome } from './add-rows.ts';
import type { InputRow, Job, RowResult } from './job-types.ts';

type Row = InputRow & { result: RowResult | undefined };

/** So many rows a person still reads; of more only those that were not added. */
const ROWS_SHOWN = 100;

/** So many messages are told in whole. */
const MESSAGES_TOLD = 20;

const PART_CHARACTERS = 65_536;

/**
 * Writes what became of every row, in the input's order and in constant memory. On a terminal, where a run has sent
 * nothing, no more than what is to be done.
 */
export async function writeResults(console: Console, job: Job, outcome: Outcome): Promise<void> {
  if (console.json) await writeJsonArray(console, job.results(), jsonOf);
  else if (console.isTerminal) await writeTable(console, job, outcome);
  else await writeInParts(console, job.results(), (row) => tabSeparatedLine(cells(row)));
}

/** Writes one JSON document, element by element. */
export async function writeJsonArray<Item>(
  console: Console,
  items: AsyncIterable<Item>,
  toJson: (item: Item) => unknown,
): Promise<void> {
  const show = console.isTerminal ? visibleJson : (text: string) => text;
  let separator = '[';
  await writeInParts(console, items, (item) => {
    const text = separator + show(stringifyJson(toJson(item)));
    separator = ',\n';
    return text;
  });
  await console.write(separator === '[' ? '[]\n' : ']\n');
}

async function writeInParts<Item>(
  console: Console,
  items: AsyncIterable<Item>,
  toText: (item: Item) => string,
): Promise<void> {
  let part = '';
  for await (const item of items) {
    part += toText(item);
    if (part.length < PART_CHARACTERS) continue;
    await console.write(part);
    part = '';
  }
  await console.write(part);
}

async function writeTable(console: Console, job: Job, { nothingSince }: Outcome): Promise<void> {
  const { renderRows } = await import('../output/table.ts');
  const isWhole = job.rows <= ROWS_SHOWN && nothingSince === undefined;
  const rows: string[][] = [];
  const messages: string[] = [];
  let untold = 0;
  for await (const row of job.results()) {
    if ((isWhole || row.result?.status !== 'added') && rows.length < ROWS_SHOWN)
      rows.push(cells({ ...row, pet: { ...row.pet, name: quoteBlank(row.pet.name) } }));
    const message = messageOf(row.result);
    if (message === '') continue;
    if (messages.length < MESSAGES_TOLD) messages.push(`line ${row.line}: ${message}`);
    else untold++;
  }
  if (rows.length === 0) return;
  const { green, red } = console.colours;
  const columns: Column[] = [
    { head: 'LINE', align: 'right' },
    { head: 'RESULT', paint: (shown: string, result: string) => (result === 'added' ? green : red)(shown) },
    { head: 'ID', align: 'right' },
    { head: 'NAME', wide: true },
  ];
  // Without its heading the message is not shown.
  if (messages.length > 0) columns.push({ head: 'MESSAGE', wide: true });
  await console.write(renderRows(console, columns, rows));
  // In the table they are cut.
  for (const message of messages) console.notice(message);
  if (untold > 0) console.notice(`… and ${untold} more: --json has every message`);
}

function jsonOf({ line, pet, result }: Row): Record<string, unknown> {
  const row = { line, result: result?.status ?? 'not tried' };
  if (result?.status === 'added') return { ...row, pet: result.pet };
  if (result?.status === 'failed') return { ...row, pet, error: result.error };
  const { idempotencyKey, message } = result ?? {};
  return { ...row, pet, error: { code: 'outcome_unknown', message }, idempotencyKey };
}

function cells({ line, pet, result }: Row): string[] {
  const id = result?.status === 'added' ? result.pet.id.toString() : '';
  return [line.toString(), result?.status ?? 'not tried', id, pet.name, messageOf(result)];
}

function messageOf(result: RowResult | undefined): string {
  if (result?.status === 'failed') return result.error.message;
  return result?.status === 'unknown' ? result.message : '';
}
