import { stringifyJson } from '../../contract/json.ts';
import type { Command } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Console } from '../output/console.ts';

export const orders: Command<object> = {
  name: 'orders',
  summary: "show the store's orders",
  examples: ['pets orders', "pets orders --json | jq '.[0]'"],
  async run(_options, runtime) {
    const connection = connectionFor(runtime);
    const { value } = await withClient(runtime, connection, (client) => client.call('listOrders', {}));
    await show(value, runtime.console);
    return exitCodes.ok;
  },
};

type Row = Record<string, unknown>;

/** The service says nothing of an order's shape: objects become a table of whatever fields they have. */
async function show(value: unknown, console: Console): Promise<void> {
  if (console.json) return console.writeJson(value);
  if (!isRows(value)) return console.writeJson(value);
  if (value.length === 0) {
    if (console.isTerminal) console.notice('there are no orders');
    return;
  }
  const { renderRows } = await import('../output/table.ts');
  const fields = [...new Set(value.flatMap(Object.keys))];
  const isNumeric = (field: string) => value.every((row) => !(field in row) || isNumber(row[field]));
  await console.write(
    renderRows(
      console,
      fields.map((field) => ({
        head: field.toUpperCase(),
        align: isNumeric(field) ? 'right' : 'left',
        wide: !isNumeric(field),
      })),
      value.map((row) => fields.map((field) => (Object.hasOwn(row, field) ? cell(row[field]) : ''))),
    ),
  );
}

function isRows(value: unknown): value is Row[] {
  return Array.isArray(value) && value.every((each) => isObject(each) && !isNumber(each));
}

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Numbers that no native one can hold arrive as objects that know their text. */
const isNumber = (value: unknown): boolean =>
  typeof value === 'number' ||
  typeof value === 'bigint' ||
  (isObject(value) && 'isLosslessNumber' in (value as object));

const cell = (value: unknown): string => (typeof value === 'string' ? value : stringifyJson(value));
