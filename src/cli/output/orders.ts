import { isLosslessNumber } from 'lossless-json';
import { stringifyJson } from '../../contract/json.ts';
import type { Console } from './console.ts';
import type { Column } from './table.ts';
import { quoteBlank, visible } from './visible.ts';
import { cutToWidth } from './width.ts';

type Row = Readonly<Record<string, unknown>>;

/**
 * The service says nothing of an order's shape. Objects become a table of whatever fields they have, for a person a single
 * one too; anything else is shown as the JSON that it is.
 */
export async function writeOrders(console: Console, orders: unknown): Promise<void> {
  if (console.json) return console.writeJson(orders);
  if (isList(orders)) return writeRows(console, orders);
  if (console.isTerminal && isRecord(orders) && isFlat(orders)) return writeFields(console, orders);
  await console.writeJson(orders);
}

async function writeRows(console: Console, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const { renderRows, renderTable } = await import('./table.ts');
  const fields = [...new Set(rows.flatMap(Object.keys))];
  if (!console.isTerminal) {
    const text = renderRows(
      console,
      [],
      rows.map((row) => fields.map((field) => textOf(row, field))),
    );
    return console.write(text);
  }
  if (fields.length === 0) return console.writeJson(rows);
  const columns = fields.map((field) => columnOf(field, rows));
  const cells = rows.map((row) => fields.map((field) => shownText(row, field)));
  const { text, shown } = renderTable(console, columns, cells);
  await console.write(text);
  tellCount(console, rows.length, fields.slice(shown));
}

async function writeFields(console: Console, order: Row): Promise<void> {
  const fields = Object.keys(order);
  if (fields.length === 0) return console.writeJson(order);
  const { renderRows } = await import('./table.ts');
  const columns: Column[] = [{ head: 'FIELD' }, { head: 'VALUE', wide: true }];
  await console.write(
    renderRows(
      console,
      columns,
      fields.map((field) => [quoteBlank(field), shownText(order, field)]),
    ),
  );
}

/** So many columns tell texts apart; rather than less, the last columns are left out. */
const TEXT_AT_LEAST = 8;
/** Any int64: a number that is cut is none. */
const NUMBER_AT_LEAST = 20;

function columnOf(field: string, rows: readonly Row[]): Column {
  const isNumeric = rows.every((row) => !Object.hasOwn(row, field) || isNumber(row[field]));
  return {
    head: quoteBlank(field).toUpperCase(),
    align: isNumeric ? 'right' : 'left',
    wide: !isNumeric,
    atLeast: isNumeric ? NUMBER_AT_LEAST : TEXT_AT_LEAST,
  };
}

const FIELDS_NAMED = 8;
const FIELD_COLUMNS = 24;

function tellCount(console: Console, count: number, hidden: readonly string[]): void {
  const total = count === 1 ? '1 order' : `${count} orders`;
  const names = hidden.slice(0, FIELDS_NAMED).map((field) => cutToWidth(visible(field), FIELD_COLUMNS));
  const others = hidden.length > names.length ? ` and ${hidden.length - names.length} more` : '';
  const rest = `; no room for ${names.join(', ')}${others}: pets orders --json shows every field`;
  console.notice(hidden.length === 0 ? total : total + rest);
}

const isList = (value: unknown): value is Row[] => Array.isArray(value) && value.every(isRecord);

const isRecord = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

const isFlat = (order: Row): boolean =>
  Object.values(order).every((value) => !Array.isArray(value) && !isRecord(value));

const isNumber = (value: unknown): boolean =>
  typeof value === 'number' || typeof value === 'bigint' || isLosslessNumber(value);

/** A field's value in one line; nothing where the order has no such field. */
function textOf(row: Row, field: string): string {
  if (!Object.hasOwn(row, field)) return '';
  const value = row[field];
  return typeof value === 'string' ? value : stringifyJson(value);
}

/** A person sees the difference between no field and a text of nothing. */
const shownText = (row: Row, field: string): string =>
  typeof row[field] === 'string' && Object.hasOwn(row, field) ? quoteBlank(row[field]) : textOf(row, field);
