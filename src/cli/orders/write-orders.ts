import { parseJson, stringifyJson } from '../../contract/json.ts';
import { type Decimal, formatDecimal } from '../fields/decimal.ts';
import { type Fields, isNumber, isObject, pick } from '../fields/field.ts';
import type { Console } from '../output/console.ts';
import { listNames } from '../output/list-names.ts';
import { writeNdjson } from '../output/ndjson.ts';
import { quoteIfBlank, tsvLine } from '../output/sanitize.ts';
import type { Column } from '../output/table.ts';

/** Returns the text that a table shows for the text of a field. */
type ShowText = (text: string) => string;

/** How a list of orders is printed. */
export type OrderListOptions = {
  /** The fields to print, instead of all fields. */
  columns?: readonly string[] | undefined;
  /** All orders that the service sent, so that the columns do not depend on the selection. */
  all: readonly Fields[];
  /** The note below a table. */
  footer: string;
  showText: ShowText;
};

/**
 * Prints a list of orders in the format of the console, with a column per field, because the service does not define the
 * fields (docs/service.md, D6).
 */
export async function writeOrderList(
  console: Console,
  orders: readonly Fields[],
  { columns, all, footer, showText }: OrderListOptions,
): Promise<void> {
  const records = columns ? orders.map((order) => pick(order, columns)) : orders;
  const fields = columns ?? allFields(all);
  if (console.format === 'json') return console.writeJson(records);
  if (console.format !== 'rows') return writeLines(console, records, fields);
  if (records.length === 0) return;
  if (!console.isTable) {
    const lines = records.map((record) => tsvLine(fields.map((field) => cellOf(record, field))));
    return console.write(lines.join(''));
  }
  if (fields.length === 0) return console.writeJson(records);
  const { renderTable } = await import('../output/table.ts');
  const { text, shown } = renderTable(
    console,
    fields.map((field) => columnOf(field, records)),
    records.map((record) => fields.map((field) => shownCell(record, field, showText))),
  );
  await console.write(text);
  const hidden = fields.slice(shown);
  const rest = `; fields not shown: ${listNames(hidden)}. For all fields: pets orders --json`;
  console.notice(hidden.length === 0 ? footer : footer + rest);
}

/** Prints one record per line as NDJSON, or as CSV with these fields. */
async function writeLines(
  console: Console,
  records: readonly Fields[],
  fields: readonly string[],
): Promise<void> {
  if (console.format === 'ndjson') return writeNdjson(console, records);
  // A list without orders has no known fields, and so no header.
  if (fields.length === 0) return;
  const { writeCsv } = await import('../output/csv.ts');
  await writeCsv(console, csvRows(records, fields), 'an order');
}

function* csvRows(records: readonly Fields[], fields: readonly string[]): Generator<readonly unknown[]> {
  yield fields;
  for (const record of records) yield fields.map((field) => ownValue(record, field));
}

/** The fields of all orders. Orders can have so many fields that a list with repetitions would need gigabytes. */
function allFields(orders: readonly Fields[]): string[] {
  const fields = new Set<string>();
  for (const order of orders) for (const field of Object.keys(order)) fields.add(field);
  return [...fields];
}

/**
 * Prints orders that are not a list of objects, because the service does not define them (docs/service.md, D6). In a
 * table, one flat object becomes a table of its fields. Any other value becomes JSON.
 */
export async function writeOtherOrders(console: Console, orders: unknown, showText: ShowText): Promise<void> {
  if (console.format === 'ndjson') return writeNdjson(console, Array.isArray(orders) ? orders : [orders]);
  if (!console.isTable || !isObject(orders) || !isFlat(orders)) return console.writeJson(orders);
  const { renderRows } = await import('../output/table.ts');
  const columns: Column[] = [{ head: 'FIELD' }, { head: 'VALUE', flexible: true }];
  const cells = Object.keys(orders).map((field) => [quoteIfBlank(field), shownCell(orders, field, showText)]);
  await console.write(renderRows(console, columns, cells));
}

/** Prints the sum of a field of some orders. In rows, the sum is the only column. */
export async function writeSum(
  console: Console,
  { field, orders, sum }: { field: string; orders: number; sum: Decimal },
): Promise<void> {
  const text = formatDecimal(sum);
  const record = { field, orders, sum: parseJson(text) };
  if (console.format === 'json') return console.writeJson(record);
  if (console.format !== 'rows') return writeLines(console, [record], Object.keys(record));
  const { renderRows } = await import('../output/table.ts');
  const column: Column = { head: `SUM OF ${field.toUpperCase()}`, align: 'right' };
  await console.write(renderRows(console, [column], [[text]]));
}

/** The minimum width of a column of text, in terminal columns. Most texts can be distinguished at this width. */
const TEXT_MIN_WIDTH = 8;
/** The minimum width of a column of numbers, in terminal columns. Any int64 fits, because a number must not be cut. */
const NUMBER_MIN_WIDTH = 20;

function columnOf(field: string, records: readonly Fields[]): Column {
  const isNumeric = records.every((record) => !Object.hasOwn(record, field) || isNumber(record[field]));
  return {
    head: quoteIfBlank(field).toUpperCase(),
    align: isNumeric ? 'right' : 'left',
    flexible: !isNumeric,
    minWidth: isNumeric ? NUMBER_MIN_WIDTH : TEXT_MIN_WIDTH,
  };
}

/** Whether an object has fields, and none of them is an object or an array. */
function isFlat(order: Fields): boolean {
  const values = Object.values(order);
  return values.length > 0 && !values.some((value) => Array.isArray(value) || isObject(value));
}

const ownValue = (record: Fields, field: string): unknown =>
  Object.hasOwn(record, field) ? record[field] : undefined;

/** The text of a field, such as `null` for null; empty if the order does not have the field. */
function cellOf(record: Fields, field: string): string {
  const value = ownValue(record, field);
  if (value === undefined) return '';
  return typeof value === 'string' ? value : stringifyJson(value);
}

/** A cell of a table, which shows blank text in quotes. */
function shownCell(record: Fields, field: string, showText: ShowText): string {
  const value = ownValue(record, field);
  return typeof value === 'string' ? quoteIfBlank(showText(value)) : cellOf(record, field);
}
