import { parseJson, stringifyJson } from '../../contract/json.ts';
import { createTimeFormatter } from '../../system/time-text.ts';
import {
  connectionFor,
  followUpCommand,
  footerLabel,
  targetLabel,
  withClient,
} from '../connection/connect.ts';
import { CliError, usageError } from '../core/errors.ts';
import {
  cellText,
  checkFieldName,
  type FieldOrder,
  type Fields,
  fieldAt,
  fieldNames,
  findField,
  isNumber,
  isObject,
  numberOf,
  parseFields,
  pick,
  sortByField,
  valuesOf,
} from '../core/fields.ts';
import { ArgumentError } from '../core/parsers.ts';
import { type Column, print } from '../output/printer.ts';
import { formatCount, listNames } from '../output/text.ts';
import { instantOf, startOfDay } from '../output/time.ts';
import type { Command, CommandContext } from '../program/command.ts';
import { allOutputOptions } from '../program/declare.ts';

type OrderOptions = {
  where?: readonly Condition[];
  since?: TimeLimit;
  until?: TimeLimit;
  sort?: FieldOrder;
  columns?: readonly string[];
  sum?: string;
};

/** A condition of `--where`: the field has this value, or a list that contains it. */
type Condition = { field: string; value: string };

/** A time of `--since` or `--until`. `field` is undefined if the user named only the time. */
type TimeLimit = { field: string | undefined; time: Time };

/** Computes what a text such as `7d` means, in milliseconds since the epoch. `zone` returns the user's time zone. */
type Time = (now: number, zone: () => string) => number;

export const orders: Command<OrderOptions> = {
  name: 'orders',
  summary: 'list, filter and add up orders',
  examples: [
    'pets orders --since yesterday --until today',
    'pets orders --where status=placed --sort amount:desc',
    'pets orders --where animals=9',
    'pets orders --since 7d --sum amount',
  ],
  options: [
    {
      flags: '--where <field=value>',
      description:
        'only orders with exactly this value in this field (repeatable: each field must have one of the values given for it)',
      parse: parseCondition,
      repeatable: true,
    },
    {
      flags: '--since <time>',
      description: 'only orders from this time on (see below)',
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
      parse: checkFieldName,
      conflicts: ['sort', 'columns'],
    },
  ],
  notes:
    'The fields are the columns of pets orders without options. In a field with a list, such as animals, one element must have the value of --where. A time is yesterday, today, 7d or 12h (ago), 2026-11-20 or 2026-11-20T14:30, in your time zone. A day, such as today or 7d, means its start at 00:00. If orders have several fields with times, name one: placedAt=7d.',
  prints: 'rows',
  outputOptions: allOutputOptions,
  async run(options, context) {
    const connection = connectionFor(context);
    const { value } = await withClient(context, connection, (client) => client.call('listOrders', {}));
    if (!isListOfObjects(value)) return printOther(context, value, options);
    const { console } = context;
    const { orders: selected, conditions } = selectOrders(value, options, context);
    const total = `${formatCount(value.length, 'order')}${footerLabel(context, connection)}`;
    const rest = describeOtherValues(value, options.where);
    const target = targetLabel(connection);
    const summary =
      value.length === 0
        ? `no orders at ${target}`
        : conditions.length === 0
          ? total
          : `${selected.length} of ${total}: ${conditions.join(', ')}${rest ? `; ${rest}` : ''}`;
    if (options.sum !== undefined) {
      const sum = sumField(selected, requireField(value, options.sum, '--sum'), value);
      const without = selected.length - sum.orders;
      if (without > 0)
        console.notice(
          `${formatCount(without, 'order')} without ${sum.field} ${without === 1 ? 'is' : 'are'} not in the sum`,
        );
      const row = { ...sum, sum: parseJson(sum.sum) };
      const columns = [{ name: 'sum', head: `SUM OF ${sum.field.toUpperCase()}`, value: () => row.sum }];
      await print(console, { columns, isSingle: true }, [row], { summary });
      return undefined;
    }
    const columns = options.columns?.map((name) => requireField(value, name, '--columns'));
    const view = {
      columns: (columns ?? ownFields(value)).map((name) => columnOf(name, console)),
      json: (order: Fields) => stringifyJson(columns ? pick(order, columns) : order),
    };
    await print(console, view, selected, { summary });
    return undefined;
  },
};

const isListOfObjects = (value: unknown): value is readonly Fields[] =>
  Array.isArray(value) && value.every(isObject);

/** The names of all top-level fields. A set, because the names of every order in one list could need gigabytes. */
function ownFields(all: readonly Fields[]): string[] {
  const fields = new Set<string>();
  for (const order of all) for (const field of Object.keys(order)) fields.add(field);
  return [...fields];
}

/** If a time has an offset from UTC, a terminal shows it in the user's time zone. Other output keeps it as received. */
function columnOf(name: string, { localTime }: CommandContext['console']): Column<Fields> {
  const shown = (value: unknown) => {
    const instant = typeof value === 'string' && ISO.exec(value)?.[3] ? parseInstant(value, UTC) : undefined;
    return instant === undefined ? value : localTime(instant);
  };
  return { name, value: (order) => fieldAt(order, name), shown };
}

const NEED_FIELDS = ['where', 'since', 'until', 'sort', 'columns', 'sum'] as const;

/**
 * Prints a response that is not a list of objects (docs/service.md, D6) as JSON; with `--ndjson`, one element per line.
 *
 * @throws CliError if an option or the format needs a list of objects
 */
async function printOther(
  context: CommandContext,
  value: unknown,
  options: OrderOptions,
): Promise<undefined> {
  const { console } = context;
  const flags = NEED_FIELDS.filter((name) => options[name] !== undefined).map((name) => `--${name}`);
  if (['csv', 'excel', 'tsv'].includes(console.format)) flags.push(`the format ${console.format}`);
  if (flags.length > 0)
    throw new CliError(`${flags.join(' and ')} cannot be used: the orders are not a list of JSON objects`, {
      code: 'unsuitable_orders',
      hint: `to see what the service sent: ${followUpCommand(context, 'orders')} --json`,
    });
  const isNdjson = console.format === 'ndjson';
  await (isNdjson ? print(console, { columns: [] }, [value].flat()) : console.writeJson(value));
}

/** Parses `<field>=<value>`. The value may be empty and may contain an equals sign. */
function parseCondition(text: string): Condition {
  const equals = text.indexOf('=');
  const field = text.slice(0, equals);
  // A field that ends with one of these characters is the start of another operator, such as != or >=.
  if (equals <= 0 || /[!<>~=]$/.test(field))
    throw new ArgumentError(
      'must be <field>=<value>, such as status=delivered, without another operator such as != or >=',
    );
  return { field, value: text.slice(equals + 1) };
}

/** Parses `<field>`, `<field>:asc` or `<field>:desc`. A name that has a colon needs a direction after it. */
function parseFieldOrder(text: string): FieldOrder {
  const [, field = '', direction] = /^(.*):(.*)$/s.exec(text) ?? [text, text];
  if (direction !== undefined && direction !== 'asc' && direction !== 'desc')
    throw new ArgumentError('must be <field>, <field>:asc or <field>:desc');
  return { field: checkFieldName(field), descending: direction === 'desc' };
}

/** Parses a time, which may follow a field, as in `placedAt=7d`. */
export function parseTimeLimit(text: string): TimeLimit {
  const [, field, word = ''] = /^(?:(.+)=)?(.*)$/s.exec(text) ?? [];
  const time = parseTime(word);
  if (time) return { field, time };
  throw new ArgumentError(
    'must be today, yesterday, a number of days or hours ago (7d, 12h), a date (2026-11-20) or a time (2026-11-20T14:30)',
  );
}

const HOUR = 3_600_000;
const DAYS: ReadonlyMap<string, number> = new Map([
  ['yesterday', -1],
  ['today', 0],
  ['tomorrow', 1],
]);

function parseTime(text: string): Time | undefined {
  const word = text.toLowerCase();
  const [, amount = 0, unit] = /^(\d{1,5})([hdw])$/.exec(word) ?? [];
  if (word === 'now' || unit === 'h') return (now) => now - Number(amount) * HOUR;
  const days = unit === undefined ? DAYS.get(word) : -Number(amount) * (unit === 'w' ? 7 : 1);
  if (days !== undefined) return (now, zone) => startOfDay(now, days, zone());
  if (!isTime(text)) return undefined;
  return (_now, zone) => parseInstant(text, zone) ?? Number.NaN;
}

const ISO = /^(\d{4}-\d\d-\d\d)(?:[t ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,30})?)?)(z|[+-]\d\d(?::?[0-5]\d)?)?)?$/i;

/**
 * The instant of a time such as `2026-11-20T14:30:00+01:00`, in milliseconds since the epoch. A time without an offset
 * from UTC is in the time zone that `zone` returns. Undefined for other texts, and for days or hours that do not exist.
 */
function parseInstant(text: string, zone: () => string): number | undefined {
  const [, date, time = '00:00', offset] = ISO.exec(text) ?? [];
  if (date === undefined) return undefined;
  // First read the date and the time as if they were in UTC.
  const wallTime = Date.parse(`${date}T${time.replace(',', '.')}Z`);
  // Date.parse changes a day such as 30 February to a day of the next month.
  if (Number.isNaN(wallTime) || !new Date(wallTime).toISOString().startsWith(date)) return undefined;
  if (offset === undefined) return instantOf(wallTime, zone());
  const [, sign = '', hours = 0, minutes = 0] = /^([+-])(\d\d):?(\d\d)?$/.exec(offset) ?? [];
  return wallTime - Number(`${sign}1`) * (Number(hours) * HOUR + Number(minutes) * 60_000);
}

const UTC = () => 'UTC';
const isTime = (value: unknown): boolean =>
  typeof value === 'string' && parseInstant(value, UTC) !== undefined;

/** The orders to print, already sorted. `conditions` are the conditions of the options, as a footer shows them. */
type Selected = { orders: readonly Fields[]; conditions: readonly string[] };

/**
 * Selects and sorts orders.
 *
 * @throws CliError if no order has a named field, if it is not clear which field has the times, if that field has none,
 *   or if `--since` is not before `--until` for the same field
 */
function selectOrders(
  all: readonly Fields[],
  { where = [], since, until, sort }: OrderOptions,
  { console, clock }: CommandContext,
): Selected {
  const named = where.map(({ field, value }) => ({ field: requireField(all, field, '--where'), value }));
  // If there are several conditions on one field, an order must meet one of them.
  const byField = [...new Set(named.map(({ field }) => field))].map((name) =>
    named.filter(({ field }) => field === name),
  );
  let orders = all.filter((order) => byField.every((group) => group.some((each) => meets(order, each))));
  const conditions = byField.map((group) =>
    group.map(({ field, value }) => `${field}=${value}`).join(' or '),
  );
  const zone = console.localTimeZone;
  const [from, to] = [since, until].map((limit) => limit?.time(clock.now(), zone));
  if (from !== undefined && to !== undefined && from >= to && since?.field === until?.field)
    throw usageError(
      '--since must be before --until',
      'the orders of yesterday, for example: pets orders --since yesterday --until today',
    );
  for (const [limit, time, flag, word] of [
    [since, from, '--since', 'since'],
    [until, to, '--until', 'before'],
  ] as const) {
    if (limit === undefined || time === undefined || all.length === 0) continue;
    const field = timeFieldOf(all, limit, flag);
    const times = new Map(
      orders.map((order) => {
        const value = valuesOf(order, field).find(isTime);
        return [order, value === undefined ? undefined : parseInstant(String(value), zone)];
      }),
    );
    const isIn = (each: number | undefined) =>
      each !== undefined && (flag === '--since' ? each >= time : each < time);
    const without = orders.filter((order) => times.get(order) === undefined).length;
    if (without > 0)
      console.noticeOnce(`left out ${formatCount(without, 'order')} without a time in ${field}`);
    orders = orders.filter((order) => isIn(times.get(order)));
    conditions.push(`${field} ${word} ${createTimeFormatter(console.timeZone())(time)}`);
  }
  if (sort) orders = sortByField(orders, { ...sort, field: requireField(all, sort.field, '--sort') });
  return { orders, conditions };
}

/** Whether an order meets a condition. Numbers are compared by value, so 12.5 equals 12.50; other values, by text. */
function meets(order: Fields, { field, value }: Condition): boolean {
  return valuesOf(order, field).some((each) => {
    if (typeof each === 'string' || !isNumber(each)) return each === value || stringifyJson(each) === value;
    const [number, wanted] = [numberOf(each), numberOf(value)];
    // One may be a bigint and the other a number, which are never equal with ===.
    return number !== undefined && wanted !== undefined && !(number < wanted) && !(number > wanted);
  });
}

/** The name of the field that the user means (see `findField`). @throws CliError if there are orders but none has it */
function requireField(orders: readonly Fields[], name: string, flag: string): string {
  const field = findField(orders, name);
  if (field !== undefined || orders.length === 0) return field ?? name;
  throw usageError(
    `${flag}: no order has the field ${name}`,
    `use one of these fields: ${listNames([...fieldNames(orders)])}`,
  );
}

const EXAMPLE = '2026-11-20T14:30:00Z';

/**
 * The field that `--since` or `--until` names, or else the only field that has only times. Null and empty do not count.
 *
 * @throws CliError if the named field has no times; without a name, if no field or several fields have only times
 */
function timeFieldOf(orders: readonly Fields[], { field: name }: TimeLimit, flag: string): string {
  if (name !== undefined) {
    const field = requireField(orders, name, flag);
    if (orders.some((order) => valuesOf(order, field).some(isTime))) return field;
    throw usageError(`${field} does not contain times in ISO 8601, such as ${EXAMPLE}`, 'name another field');
  }
  const [first, ...others] = [...fieldNames(orders)].filter((field) => {
    const values = orders.map((order) => fieldAt(order, field)).filter((value) => (value ?? '') !== '');
    return values.length > 0 && values.every(isTime);
  });
  if (first === undefined)
    throw new CliError(`no field of the orders contains only times in ISO 8601, such as ${EXAMPLE}`, {
      code: 'unsuitable_orders',
      hint: `leave out ${flag}, or name a field in which some orders have a time: ${flag} <field>=7d`,
    });
  if (others.length > 0)
    throw usageError(
      `several fields contain times: ${listNames([first, ...others])}`,
      `name one of them, for example: ${flag} ${first}=7d`,
    );
  return first;
}

/** Lists the values of the first field of `--where` in which no order has a wanted value; undefined if there is none. */
function describeOtherValues(all: readonly Fields[], where: readonly Condition[] = []): string | undefined {
  for (const { field: name } of where) {
    const field = findField(all, name) ?? name;
    const wanted = where.filter((each) => each.field === name);
    if (all.some((order) => wanted.some(({ value }) => meets(order, { field, value })))) continue;
    const values = new Set(all.flatMap((order) => valuesOf(order, field)).map(cellText));
    if (values.size > 0) return `the values of ${field} are: ${listNames([...values])}`;
  }
  return undefined;
}

/** The exact sum of a field, as the text of a JSON number, and the number of orders with a value in the field. */
type Sum = { field: string; orders: number; sum: string };

/**
 * Adds up a field of the selected orders: numbers, numbers as text, and lists of both. Counts the orders with a value.
 *
 * @param all the orders in the response, to name an order by its position
 * @throws CliError if a value is not a decimal number
 */
function sumField(selected: readonly Fields[], field: string, all: readonly Fields[]): Sum {
  const numbers: string[] = [];
  let orders = 0;
  for (const order of selected) {
    const values = valuesOf(order, field).filter((value) => value !== null);
    if (values.length > 0) orders++;
    const other = values.find((value) => !DECIMAL.test(cellText(value)));
    if (other !== undefined) throw notANumber(order, field, other, all);
    numbers.push(...values.map(cellText));
  }
  return { field, orders, sum: sumOf(numbers) };
}

/** A number that can be added up exactly: up to 40 digits before the point, up to 20 after it, and no exponent. */
const DECIMAL = /^-?\d{1,40}(\.\d{1,20})?$/;

/** The exact sum of decimal numbers such as "12.50", with all their decimals. */
function sumOf(numbers: readonly string[]): string {
  const scale = Math.max(0, ...numbers.map((text) => text.split('.')[1]?.length ?? 0));
  let units = 0n;
  for (const text of numbers) {
    const [whole, fraction = ''] = text.split('.');
    units += BigInt(whole + fraction.padEnd(scale, '0'));
  }
  const digits = String(units)
    .replace('-', '')
    .padStart(scale + 1, '0');
  const point = digits.length - scale;
  return `${units < 0n ? '-' : ''}${digits.slice(0, point)}${scale === 0 ? '' : `.${digits.slice(point)}`}`;
}

/** The maximum length of a value in an error message, in UTF-16 units. */
const MAX_VALUE_LENGTH = 60;

function notANumber(order: Fields, field: string, value: unknown, all: readonly Fields[]): CliError {
  const text = stringifyJson(value);
  const shown = text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text;
  const id = fieldAt(order, findField([order], 'id') ?? 'id');
  const name =
    typeof id === 'string' || isNumber(id)
      ? `order ${id}`
      : `order ${all.indexOf(order) + 1} of the response`;
  return new CliError(`cannot add up ${field}: in ${name} it is ${shown}, not a decimal number`, {
    code: 'unsuitable_orders',
    hint: 'choose a field with numbers, or select other orders with --where, --since and --until',
  });
}
