import { cellText } from '../fields/field.ts';
import type { Console } from '../output/console.ts';
import { writeNdjson } from '../output/ndjson.ts';
import { petColumn } from '../output/pets.ts';
import type { CountedAnimals, CountField } from './counter.ts';

/** The length of the longest bar. On a terminal that is too narrow for it, the table has no bars. */
const BAR_COLUMNS = 20;

/** The other columns are not cut to less than this, in terminal columns, to make room for the bars. */
const MIN_WIDTH = 'available'.length;

/** Prints the numbers of animals in the format of the console. A table also shows them as bars. */
export async function writeCounts(
  console: Console,
  counts: readonly CountedAnimals[],
  fields: readonly CountField[],
): Promise<void> {
  const cells = counts.map((count) => [...fields, 'animals' as const].map((field) => cellText(count[field])));
  switch (console.format) {
    case 'json':
      return console.writeJson(counts);
    case 'ndjson':
      return writeNdjson(console, counts);
    case 'csv': {
      const { writeCsv } = await import('../output/csv.ts');
      return writeCsv(console, [[...fields, 'animals'], ...cells], 'an animal');
    }
    default:
      return counts.length === 0 ? undefined : writeRows(console, cells, counts, fields);
  }
}

async function writeRows(
  console: Console,
  cells: string[][],
  counts: readonly CountedAnimals[],
  fields: readonly CountField[],
): Promise<void> {
  const { renderRows, renderTable } = await import('../output/table.ts');
  if (!console.isTable) return console.write(renderRows(console, [], cells));
  const largest = counts.reduce((most, { animals }) => Math.max(most, animals), 0);
  const barOf = ({ animals }: CountedAnimals) => '#'.repeat(Math.ceil((animals / largest) * BAR_COLUMNS));
  const fieldColumns = fields.map((field) => petColumn(console, field, []));
  const animalsColumn = { head: 'ANIMALS', align: 'right' as const, minWidth: MIN_WIDTH };
  const columns = [
    ...fieldColumns.map((column) => ({ ...column, minWidth: MIN_WIDTH })),
    animalsColumn,
    { head: '', minWidth: BAR_COLUMNS },
  ];
  const rows = counts.map((count, i) => [...(cells[i] ?? []), barOf(count)]);
  const table = renderTable(console, columns, rows);
  const isWhole = table.shown === columns.length;
  // Without the bars, cut the fields so that the numbers fit.
  await console.write(isWhole ? table.text : renderRows(console, [...fieldColumns, animalsColumn], cells));
}
