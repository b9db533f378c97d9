import { stringifyJson } from '../../contract/json.ts';
import { createTimeFormatter } from '../../system/time-text.ts';
import { connectionFor, followUpCommand, footerLabel, withClient } from '../connection/connect.ts';
import { CliError, usageError } from '../core/errors.ts';
import { type FieldOrder, parseFieldOrder, sortByField } from '../core/sort.ts';
import * as fields from '../core/values.ts';
import { printRows } from '../output/printer.ts';
import { formatCount, listNames } from '../output/text.ts';
import { instantOf, startOfDay } from '../output/time.ts';
import { argument, type Command, type CommandContext, option, repeatable } from '../program/command.ts';
import { allOutputOptions } from '../program/program.ts';
import { hintFor } from '../program/words.ts';

const { ArgumentError, cellText, fieldAt, fieldNames, parseFields, valuesOf } = fields;

type Order = fields.Fields;

/** Computes what a text such as `7d` means, in milliseconds since the epoch. `zone` returns the user's time zone. */
type ResolveTime = (now: number, zone: () => string) => number;

type Conditions = {
  id: readonly string[];
  /** The field has this value, or is a list that contains it. */
  where?: readonly { field: string; value: string }[];
  since?: ResolveTime;
  until?: ResolveTime;
};

export const orders: Command<Conditions & { sort?: FieldOrder; columns?: readonly string[] }> = {
  name: 'orders',
  summary: 'list orders',
  examples: [
    'pets orders --since yesterday --until today',
    'pets orders --where status=placed --sort amount:desc',
    'pets orders 1007',
  ],
  arguments: [argument('[id...]', 'only the orders with these ids')],
  options: [
    repeatable(
      '--where <field=value>',
      'only orders with this value in this field; if a field is repeated, with any of its values',
      parseCondition,
    ),
    option('--since <time>', 'only orders from this time on (see below)', parseTime),
    option('--until <time>', 'only orders before this time', parseTime),
    option('--sort <field>', 'sort by a field; amount:desc reverses', parseFieldOrder),
    option('--columns <fields>', 'only these fields, such as id,status', (text) => parseFields(text)),
  ],
  notes:
    'The fields are the columns of pets orders without options. A time is yesterday, today, 7d or 12h (ago), 2026-11-20 or 2026-11-20T14:30, in your time zone; a day, such as today or 7d, begins at 00:00. Orders cannot be added; for tests, pets serve --seed file.json can have them, as {"pets": [...], "orders": [...]}.',
  prints: 'rows',
  outputOptions: allOutputOptions,
  async run({ sort, columns, ...options }, context) {
    const { console } = context;
    const connection = connectionFor(context);
    const { value } = await withClient(context, connection, (client) => client.call('listOrders', {}));
    const all = Array.isArray(value) && value.every(fields.isObject) ? value : undefined;
    if (all === undefined) {
      // The specification does not show what an order is (docs/service.md, D6).
      const { id, where, since, until } = options;
      const isRows = ['csv', 'excel', 'tsv'].includes(console.format);
      if (isRows || id.length > 0 || (where ?? since ?? until ?? sort ?? columns) !== undefined)
        throw unsuitableError('the orders are not a list of JSON objects', context);
      await console.writeJson(value);
      return undefined;
    }
    const shown = columns?.map((name) => requireField(all, name, '--columns'));
    const { selected, conditions } = selectOrders(all, options, context);
    const order = sort && { ...sort, field: requireField(all, sort.field, '--sort') };
    const sorted = order ? sortByField(selected, order) : selected;
    const count = selected.length < all.length ? `${selected.length} of ` : '';
    const total = `${count}${formatCount(all.length, 'order')}${footerLabel(connection)}`;
    const missing = options.id.filter((id) => !all.some((order) => idOf(order) === id));
    const view = {
      columns: (shown ?? fieldNames(all)).map((name) => columnOf(name, all, console)),
      json: (order: Order) => stringifyJson(shown ? fields.pickFields(order, shown) : order),
    };
    const isFound = missing.length === 0;
    if (isFound || missing.length < options.id.length)
      await printRows(console, view, sorted, { summary: [total, ...conditions].join(', ') });
    if (isFound) return undefined;
    const list = followUpCommand(context, 'orders');
    const hint = hintFor(`orders ${missing[0]}`)?.replace('pets orders', list) ?? `to list all: ${list}`;
    throw new CliError(`no order with id ${missing.join(' or ')}`, { code: 'not_found', hint });
  },
};

const idOf = (order: Order) => cellText(fieldAt(order, 'id'));

/** The orders that meet all conditions, and the conditions as the note shows them. @throws CliError */
function selectOrders(
  all: readonly Order[],
  { id, where = [], since, until }: Conditions,
  context: CommandContext,
) {
  const { console, clock } = context;
  const conditions: string[] = [];
  let selected = all.filter((order) => id.length === 0 || id.includes(idOf(order)));
  for (const name of new Set(where.map(({ field }) => field))) {
    const field = requireField(all, name, '--where');
    const wanted = where.flatMap((each) => (each.field === name ? [each.value] : []));
    const isWanted = (order: Order) =>
      valuesOf(order, field).some((value) => wanted.includes(cellText(value)));
    const others = all.some(isWanted) ? [] : all.flatMap((order) => valuesOf(order, field)).map(cellText);
    const rest = others.length === 0 ? '' : ` (the values are: ${listNames([...new Set(others)])})`;
    conditions.push(`${field}=${wanted.join(' or ')}${rest}`);
    selected = selected.filter(isWanted);
  }
  const zone = console.localTimeZone;
  const [from = -Infinity, to = Infinity] = [since, until].map((time) => time?.(clock.now(), zone));
  if (from >= to)
    throw usageError('--since must be before --until', 'for example: --since yesterday --until today');
  if ((since ?? until) === undefined || all.length === 0) return { selected, conditions };
  const field = fieldNames(all).find((name) => hasOnlyTimes(all, name));
  if (field === undefined)
    throw unsuitableError('no field of the orders contains only times such as 2026-11-20T14:30:00Z', context);
  const timeOf = (order: Order) => parseInstant(cellText(fieldAt(order, field)), zone);
  const without = selected.filter((order) => Number.isNaN(timeOf(order))).length;
  if (without > 0) console.notice(`left out ${formatCount(without, 'order')} without a time in ${field}`);
  const format = createTimeFormatter(console.messageTimeZone());
  if (since) conditions.push(`${field} since ${format(from)}`);
  if (until) conditions.push(`${field} before ${format(to)}`);
  return { selected: selected.filter((order) => timeOf(order) >= from && timeOf(order) < to), conditions };
}

const unsuitableError = (reason: string, context: CommandContext): CliError =>
  new CliError(`cannot select or format the orders in this way: ${reason}`, {
    code: 'unsuitable_orders',
    hint: `to see what the service sent: ${followUpCommand(context, 'orders')} --json`,
  });

/**
 * The name of the field that the user means. Tables print the names of fields in upper case, so a name in another case is
 * accepted if only one field has that name. @throws CliError if there are orders but none has the field
 */
function requireField(all: readonly Order[], name: string, flag: string): string {
  const names = fieldNames(all);
  const [similar = name, other] = names.filter((each) => each.toLowerCase() === name.toLowerCase());
  if (names.includes(name) || all.length === 0) return name;
  if (names.includes(similar) && other === undefined) return similar;
  const hint = `use one of these fields: ${listNames(fieldNames(all))}`;
  throw usageError(`${flag}: no order has the field ${name}`, hint);
}

/** A narrow table does not cut times. A terminal shows times with an offset in local time. */
function columnOf(name: string, all: readonly Order[], { localTime }: CommandContext['console']) {
  const value = (order: Order) => fieldAt(order, name);
  const terminalValue = (time: unknown) =>
    isTime(time) && ISO.exec(String(time))?.[3] ? localTime(parseInstant(String(time), UTC)) : time;
  return { name, value, terminalValue, ...(hasOnlyTimes(all, name) && { isFlexible: false }) };
}

/** Parses `<field>=<value>`. The value may be empty and may contain an equals sign. */
function parseCondition(text: string) {
  const equals = text.indexOf('=');
  const field = text.slice(0, equals);
  // If one of these characters is before the equals sign, the user means another operator, such as != or >=.
  if (equals > 0 && !/[!<>~=]$/.test(field)) return { field, value: text.slice(equals + 1) };
  throw new ArgumentError('must be <field>=<value> (only =, no != or >=)');
}

export function parseTime(text: string): ResolveTime {
  const [, amount, unit] = /^(\d{1,5})([dh])$/.exec(text) ?? [];
  if (unit === 'h') return (now) => now - Number(amount) * 3_600_000;
  const days = amount === undefined ? ['today', 'yesterday'].indexOf(text.toLowerCase()) : Number(amount);
  if (days >= 0) return (now, zone) => startOfDay(now, -days, zone());
  if (isTime(text)) return (_now, zone) => parseInstant(text, zone);
  throw new ArgumentError(
    'must be today, yesterday, a number of days or hours ago (7d for the last seven days, 12h), a date (2026-11-20) or a time (2026-11-20T14:30)',
  );
}

// Years before 1000 are not accepted, because Intl formats them without leading zeros.
const ISO = /^([1-9]\d{3}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:\d\d)?)?$/;

/**
 * The instant of a time such as `2026-11-20T14:30:00+01:00`, in milliseconds since the epoch. A time without an offset
 * from UTC is in the time zone that `zone` returns. NaN for other texts, such as `2026-02-30`.
 */
function parseInstant(text: string, zone: () => string): number {
  const [, date = '', time = '00:00', offset] = ISO.exec(text) ?? [];
  const wallTime = Date.parse(`${date}T${time}Z`);
  // Date.parse changes a day such as 30 February to a day of the next month.
  if (Number.isNaN(wallTime) || !new Date(wallTime).toISOString().startsWith(date)) return Number.NaN;
  return offset ? Date.parse(`${date}T${time}${offset}`) : instantOf(wallTime, zone());
}

const UTC = () => 'UTC';
const isTime = (value: unknown): boolean =>
  typeof value === 'string' && !Number.isNaN(parseInstant(value, UTC));

/** Whether a field has times and nothing else, apart from null and empty values. */
function hasOnlyTimes(all: readonly Order[], field: string): boolean {
  const values = all.map((order) => fieldAt(order, field)).filter((value) => (value ?? '') !== '');
  return values.length > 0 && values.every(isTime);
}
