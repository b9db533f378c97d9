import { stringifyJson } from '../../contract/json.ts';
import { createTimeFormatter } from '../../contract/time-text.ts';
import { CliError, usageError } from '../core/errors.ts';
import {
  cellText,
  type Fields,
  fieldAt,
  fieldNames,
  findField,
  isNumber,
  valuesOf,
} from '../fields/field.ts';
import { DECIMAL, numberOf, sortByField, sumOf } from '../fields/sort.ts';
import { formatCount, listNames } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';
import { type Condition, instantIn, type OrderOptions, resolveTime, type TimeLimit } from './options.ts';

/** The orders that the options select, in the order to print. */
export type Selected = {
  orders: readonly Fields[];
  /** The conditions as a footer shows them, such as `status=delivered`. */
  conditions: readonly string[];
};

/**
 * Selects and sorts orders.
 *
 * @throws CliError if no order has a field that an option names, or if it is not clear which field has the times
 */
export function selectOrders(
  all: readonly Fields[],
  { where = [], since, until, sort }: OrderOptions,
  { console, clock }: Pick<CommandContext, 'console' | 'clock'>,
): Selected {
  const named = where.map((condition) => ({
    ...condition,
    field: requireField(all, condition.field, '--where'),
  }));
  // Several conditions on one field mean either value.
  const meetsAll = (order: Fields) =>
    named.every(({ field }) => named.some((each) => each.field === field && meets(order, each)));
  let orders = all.filter(meetsAll);
  const conditions = [...new Set(named.map(({ field }) => field))].map((name) =>
    named.flatMap(({ field, value }) => (field === name ? `${field}=${value}` : [])).join(' or '),
  );
  const now = clock.now();
  const zone = console.localTimeZone;
  const [from, to] = [since, until].map((limit) => limit && resolveTime(limit.time, now, zone));
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
    const times = orders.map((order) =>
      valuesOf(order, field)
        .map((value) => instantIn(value, zone))
        .find((each) => each !== undefined),
    );
    const isIn = (each: number | undefined) =>
      each !== undefined && (flag === '--since' ? each >= time : each < time);
    const without = times.filter((each) => each === undefined).length;
    if (without > 0)
      console.noticeOnce(`${formatCount(without, 'order')} without a time in ${field}: left out`);
    orders = orders.filter((_, i) => isIn(times[i]));
    conditions.push(`${field} ${word} ${createTimeFormatter(console.timeZone())(time)}`);
  }
  if (sort) orders = sortByField(orders, { ...sort, field: requireField(all, sort.field, '--sort') });
  return { orders, conditions };
}

/** Compares numbers by value, so that 12.5 is 12.50, and other values by their text. */
const meets = (order: Fields, { field, value }: Condition): boolean =>
  valuesOf(order, field).some((each) => {
    if (typeof each === 'string' || !isNumber(each)) return each === value || stringifyJson(each) === value;
    const [number, wanted] = [numberOf(each), numberOf(value)];
    // An integer can be a bigint or a number.
    return number !== undefined && wanted !== undefined && !(number < wanted) && !(number > wanted);
  });

/** The name of a field that at least one order has. @throws CliError if no order has it */
export function requireField(orders: readonly Fields[], name: string, flag: string): string {
  const field = findField(orders, name);
  if (field !== undefined || orders.length === 0) return field ?? name;
  throw usageError(
    `${flag}: no order has the field ${name}`,
    `use one of these fields: ${listNames([...fieldNames(orders)])}`,
  );
}

const EXAMPLE = '2026-11-20T14:30:00Z';
const UTC = () => 'UTC';
const isTime = (value: unknown): boolean => instantIn(value, UTC) !== undefined;

/**
 * The field that `--since` or `--until` names, or the only field whose values are times. Some may also be null or empty.
 *
 * @throws CliError if there is no such field, or if several fields contain times
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
    throw new CliError(`no field of the orders contains times in ISO 8601, such as ${EXAMPLE}`, {
      code: 'unsuitable_orders',
      hint: `if only some values of a field are times, name the field: ${flag} <field>=7d`,
    });
  if (others.length > 0)
    throw usageError(
      `several fields contain times: ${listNames([first, ...others])}`,
      `name one of them, for example: ${flag} ${first}=7d`,
    );
  return first;
}

/** The values of the first field for which no order has a value of `--where`; undefined if there is no such field. */
export function describeOtherValues(
  all: readonly Fields[],
  where: readonly Condition[] = [],
): string | undefined {
  for (const { field: name } of where) {
    const field = findField(all, name) ?? name;
    const wanted = where.filter((each) => each.field === name);
    if (all.some((order) => wanted.some(({ value }) => meets(order, { field, value })))) continue;
    const values = new Set(all.flatMap((order) => valuesOf(order, field)).map(cellText));
    if (values.size > 0) return `The values of ${field} are: ${listNames([...values])}`;
  }
  return undefined;
}

/** The exact sum of a field, as JSON, and the number of orders that have it. */
export type Sum = { field: string; orders: number; sum: string };

/**
 * Adds up a field of the selected orders, which may be a number or a list of numbers. Orders without a value are not counted.
 *
 * @param all the orders in the response, to name an order by its position
 * @throws CliError if a value is not a number
 */
export function sumField(selected: readonly Fields[], field: string, all: readonly Fields[]): Sum {
  const numbers: unknown[] = [];
  let orders = 0;
  for (const order of selected) {
    const values = valuesOf(order, field).filter((value) => value !== null);
    if (values.length > 0) orders++;
    const other = values.find((value) => !DECIMAL.test(cellText(value)));
    if (other !== undefined) throw notANumber(order, field, other, all);
    numbers.push(...values);
  }
  return { field, orders, sum: sumOf(numbers) };
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
  return new CliError(`cannot add up ${field}: it is ${shown} in ${name}, which is not a decimal number`, {
    code: 'unsuitable_orders',
    hint: 'select other orders with --where, --since and --until',
  });
}
