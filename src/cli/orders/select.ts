import { CliError, usageError } from '../core/errors.ts';
import { wholePart } from '../fields/decimal.ts';
import { cellText, type Fields, fieldPaths, findField, isObject, valuesOf } from '../fields/field.ts';
import type { Format, OutputOptions } from '../output/format.ts';
import { formatCount } from '../output/format-count.ts';
import { listNames } from '../output/list-names.ts';
import type { Zone } from '../output/zone.ts';
import type { Condition, OrderOptions } from './options.ts';
import { sortByField } from './sort.ts';
import { checkTimeField, findTimeField, ordersInWindow, type TimeWindow } from './time-window.ts';
import { meets } from './where.ts';

/** The orders that the options select, in the order to print. */
export type Selected = {
  orders: readonly Fields[];
  /** The conditions as a footer shows them, such as `status=delivered`. */
  conditions: readonly string[];
  /** What can be selected instead, if no order meets one of the conditions. */
  alternatives?: string | undefined;
};

/** Where a selection is carried out: the time zone, and functions for messages. */
export type SelectionContext = {
  zone: Zone;
  formatTime(instant: number): string;
  notice(text: string): void;
};

/** The options that need the fields of the orders. */
const FLAGS = {
  where: '--where',
  since: '--since',
  until: '--until',
  sort: '--sort',
  columns: '--columns',
  sum: '--sum',
} as const;

/**
 * Returns a list of objects, or undefined if the orders are another value that can be printed as it is.
 *
 * @throws CliError if an option or the format needs a list of objects, and the orders are another value
 */
export function requireFields(
  orders: unknown,
  options: OrderOptions & OutputOptions,
  format: Format,
): readonly Fields[] | undefined {
  if (Array.isArray(orders) && orders.every(isObject)) return orders;
  const given = Object.entries(FLAGS).filter(([name]) => Object.hasOwn(options, name));
  const flags = given.map(([, flag]): string => flag);
  // The extension of the output file can choose CSV, too.
  if (format === 'csv') flags.push(options.csv ? '--csv' : 'the format CSV');
  if (flags.length === 0) return undefined;
  throw new CliError(`${flags.join(' and ')} cannot be used: the service did not send a list of objects`, {
    code: 'unsuitable_orders',
    hint: 'to see what it sent: pets orders --json',
  });
}

/**
 * Selects and sorts orders.
 *
 * @throws CliError if no order has a field that an option names, or if the field for the window is not known
 */
export function selectOrders(
  all: readonly Fields[],
  { where = [], sort, dateField }: OrderOptions,
  window: TimeWindow,
  context: SelectionContext,
): Selected {
  const conditions = where.map(({ field, value }) => ({
    field: requireField(all, field, '--where'),
    value,
  }));
  const matching = all.filter((order) => conditions.every((condition) => meets(order, condition)));
  const shown = conditions.map(({ field, value }) => `${field}=${value}`);
  const inWindow = selectTimes(all, matching, dateField, window, context);
  const orders = sort
    ? sortByField(inWindow.orders, { ...sort, field: requireField(all, sort.field, '--sort') }, context.zone)
    : inWindow.orders;
  const alternatives = matching.length === 0 ? describeOtherValues(all, conditions) : undefined;
  return { orders, conditions: [...shown, ...inWindow.conditions], alternatives };
}

function selectTimes(
  all: readonly Fields[],
  matching: readonly Fields[],
  dateField: string | undefined,
  window: TimeWindow,
  { zone, formatTime, notice }: SelectionContext,
): Selected {
  const { since, until } = window;
  if (all.length === 0 || (since === undefined && until === undefined))
    return { orders: matching, conditions: [] };
  const field =
    dateField === undefined
      ? findTimeField(all)
      : checkTimeField(all, requireField(all, dateField, '--date-field'));
  const { selected, withoutTime } = ordersInWindow(matching, field, window, zone);
  if (withoutTime > 0) notice(`${formatCount(withoutTime, 'order')} without a time in ${field}: left out`);
  const limits = [
    ...(since === undefined ? [] : [`since ${formatTime(wholePart(since))}`]),
    ...(until === undefined ? [] : [`before ${formatTime(wholePart(until))}`]),
  ];
  return { orders: selected, conditions: [`${field} ${limits.join(' and ')}`] };
}

/** The name of a field that at least one order has. Reports a field that no order has, and returns it unchanged. */
export function knownField(orders: readonly Fields[], name: string, notice: (text: string) => void): string {
  const field = findField(orders, name);
  if (field === undefined && orders.length > 0)
    notice(`no order has the field ${name}. Fields: ${listNames([...fieldPaths(orders)])}`);
  return field ?? name;
}

/** The name of a field that at least one order has. @throws CliError if no order has it */
export function requireField(orders: readonly Fields[], name: string, flag: string): string {
  const field = findField(orders, name);
  if (field !== undefined || orders.length === 0) return field ?? name;
  throw usageError(
    `${flag}: no order has the field ${name}`,
    `use one of these fields: ${listNames([...fieldPaths(orders)])}`,
  );
}

/** The values that can be selected instead, if no order meets one of the conditions. */
function describeOtherValues(all: readonly Fields[], where: readonly Condition[]): string | undefined {
  const unmet = where.find((condition) => !all.some((order) => meets(order, condition)));
  if (unmet === undefined) return undefined;
  const values = new Set(all.flatMap((order) => valuesOf(order, unmet.field)).map(cellText));
  return values.size > 0 ? `The values of ${unmet.field} are: ${listNames([...values])}` : undefined;
}
