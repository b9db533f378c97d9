import { parseJson, stringifyJson } from '../../contract/json.ts';
import { createTimeFormatter } from '../../contract/time-text.ts';
import { connectionFor, footerLabel, targetLabel, withClient } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { type Fields, fieldAt, isObject, parseField, parseFields, pick } from '../fields/field.ts';
import {
  hasOffset,
  instantIn,
  type OrderOptions,
  parseCondition,
  parseFieldOrder,
  parseTimeLimit,
} from '../orders/options.ts';
import { type Column, print } from '../output/printer.ts';
import { sanitizeJson } from '../output/sanitize.ts';
import { formatCount } from '../output/text.ts';
import type { Command, CommandContext } from '../program/command.ts';
import { allOutputOptions } from '../program/output-options.ts';

export const orders: Command<OrderOptions> = {
  name: 'orders',
  summary: "list, filter and add up the store's orders",
  examples: [
    'pets orders --since yesterday --until today',
    'pets orders --where status=placed --sort amount:desc',
    'pets orders --since 7d --sum amount',
  ],
  options: [
    {
      flags: '--where <field=value>',
      description: 'only orders with this value (repeatable; for one field, either value)',
      parse: parseCondition,
      repeatable: true,
    },
    {
      flags: '--since <time>',
      description:
        'only orders from this time on: yesterday, today, 7d (days ago), 2026-11-20, 2026-11-20T14:30 or <field>=<time>',
      parse: parseTimeLimit,
    },
    { flags: '--until <time>', description: 'only orders before this time', parse: parseTimeLimit },
    {
      flags: '--sort <field>',
      description: 'sort by this field; <field>:desc for the reverse order',
      parse: parseFieldOrder,
    },
    {
      flags: '--columns <fields>',
      description: 'only these fields, separated by commas',
      parse: parseFields,
    },
    {
      flags: '--sum <field>',
      description: 'print the exact sum of this field instead of the orders',
      parse: parseField,
      conflicts: ['sort', 'columns'],
    },
  ],
  prints: 'rows',
  outputOptions: allOutputOptions,
  async run(options, context) {
    const connection = connectionFor(context);
    const { value } = await withClient(context, connection, (client) => client.call('listOrders', {}));
    if (!isListOfObjects(value)) return printOther(context, value, options);
    const { describeOtherValues, requireField, selectOrders, sumField } = await import('../orders/select.ts');
    const { console } = context;
    const { orders: selected, conditions } = selectOrders(value, options, context);
    const total = `${formatCount(value.length, 'order')}${footerLabel(context, connection)}`;
    const rest = describeOtherValues(value, options.where);
    const target = targetLabel(connection);
    const summary =
      value.length === 0
        ? `no orders at ${target}`
        : selected.length === 0
          ? `none of the ${formatCount(value.length, 'order')} at ${target} matches ${conditions.join(', ')}${rest ? `. ${rest}` : ''}`
          : conditions.length === 0
            ? total
            : `${selected.length} of ${total}: ${conditions.join(', ')}`;
    if (options.sum !== undefined) {
      const sum = sumField(selected, requireField(value, options.sum, '--sum'), value);
      const without = selected.length - sum.orders;
      if (without > 0)
        console.notice(`${formatCount(without, 'order')} without ${sum.field}: not in the sum`);
      const row = { ...sum, sum: parseJson(sum.sum) };
      const columns = [{ name: 'sum', head: `SUM OF ${sum.field.toUpperCase()}`, value: () => row.sum }];
      await print(console, { noun: 'a sum', columns, isSingle: true }, [row], { summary });
      return undefined;
    }
    const columns = options.columns?.map((name) => requireField(value, name, '--columns'));
    const view = {
      noun: 'an order',
      columns: (columns ?? ownFields(value)).map((name) => columnOf(name, console.localTimeZone)),
      json: (order: Fields) => stringifyJson(columns ? pick(order, columns) : order),
    };
    await print(console, view, selected, { summary });
    return undefined;
  },
};

const isListOfObjects = (value: unknown): value is readonly Fields[] =>
  Array.isArray(value) && value.every(isObject);

/** The fields of all orders. Orders can have so many fields that a list with repetitions would need gigabytes. */
function ownFields(all: readonly Fields[]): string[] {
  const fields = new Set<string>();
  for (const order of all) for (const field of Object.keys(order)) fields.add(field);
  return [...fields];
}

/** A terminal shows times that have an offset from UTC in the user's time zone. Elsewhere they are as the service sent them. */
function columnOf(name: string, zone: () => string): Column<Fields> {
  let format: ((instant: number) => string) | undefined;
  const shown = (value: unknown) => {
    if (!hasOffset(value)) return value;
    format ??= createTimeFormatter(zone());
    return format(instantIn(value, zone) ?? 0);
  };
  return { name, value: (order) => fieldAt(order, name), shown };
}

/** The options that need the fields of the orders. */
const NEED_FIELDS = ['where', 'since', 'until', 'sort', 'columns', 'sum'] as const;

/**
 * Prints orders that are not a list of objects as JSON, because the service does not define them (docs/service.md, D6).
 *
 * @throws CliError if an option or the format needs a list of objects
 */
async function printOther(
  { console }: CommandContext,
  value: unknown,
  options: OrderOptions,
): Promise<undefined> {
  const { format, isTerminal } = console;
  const flags = NEED_FIELDS.filter((name) => options[name] !== undefined).map((name) => `--${name}`);
  if (format === 'csv' || format === 'excel' || format === 'tsv') flags.push('the format CSV');
  if (flags.length > 0)
    throw new CliError(`${flags.join(' and ')} cannot be used: the service did not send a list of objects`, {
      code: 'unsuitable_orders',
      hint: 'to see what it sent: pets orders --json',
    });
  if (format !== 'ndjson') await console.writeJson(value);
  else {
    const lines = [value]
      .flat()
      .map((each) => `${stringifyJson(each)}\n`)
      .join('');
    await console.write(isTerminal ? sanitizeJson(lines) : lines);
  }
  return undefined;
}
