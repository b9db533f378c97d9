import { stringifyJson } from '../../contract/json.ts';
import type { Runtime } from '../command.ts';
import { tabSeparated, visibleJson } from '../output/visible.ts';
import type { InputRow, Job, RowResult } from './job-types.ts';

type Row = InputRow & { result: RowResult | undefined };

/** So many rows a person still reads; of more only those that were not added. */
const ROWS_SHOWN = 100;

/** Writes what became of every row, in the input's order and in constant memory. */
export async function writeResults(runtime: Runtime, job: Job): Promise<void> {
  const { console } = runtime;
  if (console.json) await writeJson(runtime, job);
  else if (console.isTerminal) await writeTable(runtime, job);
  else for await (const row of job.results()) await console.write(`${cells(row).map(tabSeparated).join('\t')}\n`);
}

/** One document, element by element. */
async function writeJson({ console }: Runtime, job: Job): Promise<void> {
  const show = console.isTerminal ? visibleJson : (text: string) => text;
  let separator = '[';
  for await (const row of job.results()) {
    await console.write(separator + show(stringifyJson(jsonOf(row))));
    separator = ',\n';
  }
  await console.write(separator === '[' ? '[]\n' : ']\n');
}

async function writeTable({ console }: Runtime, job: Job): Promise<void> {
  const { renderRows } = await import('../output/table.ts');
  const isShort = job.rows <= ROWS_SHOWN;
  const rows: string[][] = [];
  for await (const row of job.results()) {
    if ((isShort || row.result?.status !== 'added') && rows.length < ROWS_SHOWN) rows.push(cells(row));
  }
  if (rows.length === 0) return;
  const { green, red } = console.colours;
  const columns = [
    { head: 'LINE', align: 'right' as const },
    { head: 'RESULT', paint: (result: string) => (result === 'added' ? green : red)(result) },
    { head: 'ID', align: 'right' as const },
    { head: 'NAME', wide: true },
    { head: 'MESSAGE', wide: true },
  ];
  await console.write(renderRows(console, columns, rows));
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
