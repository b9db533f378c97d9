import { isLosslessNumber } from 'lossless-json';
import { stringifyJson } from '../../contract/json.ts';
import type { Console } from './console.ts';
import { formatCount } from './format-count.ts';
import { quoteIfBlank, sanitizeForTerminal, tsvLine } from './sanitize.ts';
import type { Column } from './table.ts';
import { cutToWidth } from './width.ts';

type Row = Readonly<Record<string, unknown>>;

/**
 * Prints orders, whose fields the service does not define (docs/service.md, D6). An array of objects becomes rows
 * with a column per field. If the output is a table, one flat object becomes a table of its fields. Any other value becomes JSON.
 */
export async function writeOrders(console: Console, orders: unknown): Promise<void> {
  if (console.json) return console.writeJson(orders);
  if (isList(orders)) return writeRows(console, orders);
  if (console.isTable && isRecord(orders) && isFlat(orders)) return writeFields(console, orders);
  await console.writeJson(orders);
}

async function writeRows(console: Console, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const { renderTable } = await import('./table.ts');
  const fields = [...new Set(rows.flatMap(Object.keys))];
  const cells = rows.map((row) => fields.map((field) => cellOf(console, row, field)));
  if (!console.isTable) return console.write(cells.map(tsvLine).join(''));
  if (fields.length === 0) return console.writeJson(rows);
  const columns = fields.map((field) => columnOf(field, rows));
  const { text, shown } = renderTable(console, columns, cells);
  await console.write(text);
  printCount(console, rows.length, fields.slice(shown));
}

async function writeFields(console: Console, order: Row): Promise<void> {
  const { renderRows } = await import('./table.ts');
  const columns: Column[] = [{ head: 'FIELD' }, { head: 'VALUE', flexible: true }];
  const cells = Object.keys(order).map((field) => [quoteIfBlank(field), cellOf(console, order, field)]);
  await console.write(renderRows(console, columns, cells));
}

/** The minimum width of a column of text, in terminal columns. Most texts can be distinguished at this width. */
const TEXT_MIN_WIDTH = 8;
/** The minimum width of a column of numbers, in terminal columns. Any int64 fits, because a number must not be cut. */
const NUMBER_MIN_WIDTH = 20;

function columnOf(field: string, rows: readonly Row[]): Column {
  const isNumeric = rows.every((row) => !Object.hasOwn(row, field) || isNumber(row[field]));
  return {
    head: quoteIfBlank(field).toUpperCase(),
    align: isNumeric ? 'right' : 'left',
    flexible: !isNumeric,
    minWidth: isNumeric ? NUMBER_MIN_WIDTH : TEXT_MIN_WIDTH,
  };
}

/** The maximum number of hidden fields that the notice names, and the maximum width of a name in terminal columns. */
const MAX_FIELDS_NAMED = 8;
const MAX_NAME_WIDTH = 24;

function printCount(console: Console, count: number, hidden: readonly string[]): void {
  const total = formatCount(count, 'order');
  const names = hidden
    .slice(0, MAX_FIELDS_NAMED)
    .map((field) => cutToWidth(sanitizeForTerminal(field), MAX_NAME_WIDTH));
  const others = hidden.length > names.length ? ` and ${hidden.length - names.length} more` : '';
  const rest = `; fields not shown: ${names.join(', ')}${others}. For all fields: pets orders --json`;
  console.notice(hidden.length === 0 ? total : total + rest);
}

const isList = (value: unknown): value is Row[] => Array.isArray(value) && value.every(isRecord);

const isRecord = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

/** Whether an object has fields, and none of them is an object or an array. */
function isFlat(order: Row): boolean {
  const values = Object.values(order);
  return values.length > 0 && !values.some((value) => Array.isArray(value) || isRecord(value));
}

const isNumber = (value: unknown): boolean =>
  typeof value === 'number' || typeof value === 'bigint' || isLosslessNumber(value);

/** The text of a field; empty if the order does not have the field. A table shows blank text in quotes. */
function cellOf(console: Console, row: Row, field: string): string {
  if (!Object.hasOwn(row, field)) return '';
  const value = row[field];
  if (typeof value !== 'string') return stringifyJson(value);
  return console.isTable ? quoteIfBlank(value) : value;
}
