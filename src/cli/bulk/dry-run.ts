import { createHash } from 'node:crypto';
import { realFiles } from '../../store/files.ts';
import type { Runtime } from '../command.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import type { Console } from '../output/console.ts';
import { quoteBlank } from '../output/visible.ts';
import { type Connection, placeOf } from '../profiles/resolve.ts';
import type { CheckedInput } from './input.ts';
import { dateOf } from './job-changed.ts';
import { rowsText } from './job-errors.ts';
import type { BulkOptions, InputRow } from './job-types.ts';
import { lookAhead, type Outlook } from './outlook.ts';
import { writeJsonArray } from './results.ts';
import { animalHash, readRows, rowText, type SpoolFile } from './spool.ts';
import { tellNoRows } from './summary.ts';

/** So many rows tell whether the columns were understood. */
const ROWS_SHOWN = 5;

/** What a dry run keeps of the rows that it has checked. */
export type Preview = {
  take(row: InputRow): void;
  readonly first: readonly InputRow[];
  readonly hashes: readonly string[];
  rowsSha256(): string;
};

/** `hasRuns` tells whether there is any earlier run: without one, what the rows are is compared with nothing. */
export function createPreview(hasRuns: boolean): Preview {
  const first: InputRow[] = [];
  const hashes: string[] = [];
  const hash = createHash('sha256');
  return {
    take(row) {
      if (first.length < ROWS_SHOWN) first.push(row);
      if (!hasRuns) return;
      hashes.push(animalHash(row.pet));
      hash.update(rowText(row));
    },
    first,
    hashes,
    rowsSha256: () => hash.digest('hex'),
  };
}

export type DryRun = {
  input: CheckedInput;
  /** Where a program reads: every row. */
  spool: SpoolFile | undefined;
  preview: Preview;
  options: BulkOptions;
  connection: Connection;
};

/** Sends nothing, and tells what the same command would do without `--dry-run`. */
export async function showDryRun(
  { input, spool, preview, options, connection }: DryRun,
  { console }: Runtime,
): Promise<number> {
  const { sha256, rows, source } = input;
  if (spool !== undefined) {
    try {
      await spool.complete();
      await writeJsonArray(console, readRows(realFiles, spool.path, rows), ({ pet }) => pet);
    } finally {
      await spool.discard();
    }
  }
  if (rows === 0) return tellNoRows(console, source.name);
  const looked = { sha256, rowsSha256: preview.rowsSha256(), hashes: preview.hashes };
  const outlook = await lookAhead(looked, options);
  // Where some rows are known the first ones are mostly not those that would be sent.
  const isNew = !outlook.refusal && outlook.added + outlook.unknown === 0;
  if (console.isTerminal && !console.json && isNew) await writeFirst(console, preview.first, rows);
  const words = { name: source.name, rows, place: placeOf(connection), restart: options.restart };
  console.notice(outlookText(outlook, words));
  return exitCodes.ok;
}

async function writeFirst(console: Console, first: readonly InputRow[], rows: number): Promise<void> {
  const { renderRows } = await import('../output/table.ts');
  const columns = [
    { head: 'LINE', align: 'right' as const },
    { head: 'NAME', wide: true },
    { head: 'CATEGORY', align: 'right' as const },
    { head: 'STATUS' },
  ];
  const cells = first.map(({ line, pet: { name, categoryId, status = '' } }) => [
    line.toString(),
    quoteBlank(name),
    categoryId.toString(),
    status,
  ]);
  const more = rows - first.length;
  const rest = more === 0 ? '' : `${console.colours.dim(`… and ${rowsText(more)} more`)}\n`;
  await console.write(renderRows(console, columns, cells) + rest);
}

type Words = { name: string; rows: number; place: string; restart: boolean };

function outlookText(outlook: Outlook, { name, rows, place, restart }: Words): string {
  if (outlook.refusal) {
    const { message, hint } = outlook.refusal;
    return `this would be refused: ${message}${hint === undefined ? '' : `. What helps: ${hint}`}`;
  }
  const { added, unknown, since } = outlook;
  const all = rows === 1 ? `the row of ${name}` : `the ${rows} rows of ${name}`;
  if (restart) {
    const again = added === 0 ? '' : `; ${added} of them a second time: so many are added already`;
    return `nothing is sent: ${all} would be added at ${place}${again}`;
  }
  const left = rows - added - unknown;
  const doubtful = unknown === 0 ? '' : `; ${unknown} may have been added, and would not be sent again`;
  const run = since === undefined ? 'by earlier runs' : `run of ${dateOf(since)}`;
  if (left === 0) {
    const which = unknown === 0 ? `all ${rowsText(rows)}` : `${added} of ${rowsText(rows)}`;
    const when = since === undefined ? 'by earlier runs' : `on ${dateOf(since)}`;
    return `nothing would be sent: ${which} ${rows === 1 ? 'was' : 'were'} added ${when}${doubtful}`;
  }
  if (added + unknown === 0) return `nothing is sent: ${all} would be added at ${place}`;
  const already = `${added} ${added === 1 ? 'is' : 'are'} added already (${run})`;
  return `nothing is sent: ${left} of ${all} would be added at ${place}; ${already}${doubtful}`;
}
