import { CliError, usageError } from '../core/errors.ts';
import { compareDecimals, type Decimal } from '../fields/decimal.ts';
import { type Fields, isObject, valuesOf } from '../fields/field.ts';
import { listNames } from '../output/list-names.ts';
import type { Zone } from '../output/zone.ts';
import type { OrderOptions } from './options.ts';
import { areLocalInOrder, instantIn, isTime, resolveTime } from './time.ts';

const EXAMPLE = '2026-11-20T14:30:00Z';

/** From `since`, inclusive, to `until`, exclusive, in milliseconds since the epoch. */
export type TimeWindow = { since: Decimal | undefined; until: Decimal | undefined };

/** The times of `--since` and `--until`. @throws CliError if they are not in this order */
export function timeWindowOf({ since, until }: OrderOptions, now: number, zone: Zone): TimeWindow {
  const window = {
    since: since && resolveTime(since, now, zone),
    until: until && resolveTime(until, now, zone),
  };
  const isReversed = window.since && window.until && compareDecimals(window.since, window.until) >= 0;
  if (isReversed && since && until && !areLocalInOrder(since, until))
    throw usageError(
      '--since must be before --until',
      'the orders of yesterday, for example: pets orders --since yesterday --until today',
    );
  return window;
}

/** The orders with a time in the window, and the number of orders that have no time. */
export function ordersInWindow(
  orders: readonly Fields[],
  field: string,
  { since, until }: TimeWindow,
  zone: Zone,
): { selected: readonly Fields[]; withoutTime: number } {
  const isInWindow = (time: Decimal) =>
    (since === undefined || compareDecimals(time, since) >= 0) &&
    (until === undefined || compareDecimals(time, until) < 0);
  let withoutTime = 0;
  const selected = orders.filter((order) => {
    const times = valuesOf(order, field)
      .map((value) => instantIn(value, zone))
      .filter((time) => time !== undefined);
    if (times.length === 0) withoutTime++;
    return times.some(isInWindow);
  });
  return { selected, withoutTime };
}

/** Returns the field. @throws CliError if no order has a time in the field */
export function checkTimeField(orders: readonly Fields[], field: string): string {
  if (orders.some((order) => valuesOf(order, field).some(isTime))) return field;
  throw usageError(
    `${field} does not contain times in ISO 8601, such as ${EXAMPLE}`,
    'use another --date-field',
  );
}

/**
 * The only field whose values are times. A field may also be null or empty in some orders.
 *
 * @throws CliError if no field or several fields contain times
 */
export function findTimeField(orders: readonly Fields[]): string {
  const [first, ...others] = timeFields(orders);
  if (first === undefined)
    throw new CliError(`no field of the orders contains times in ISO 8601, such as ${EXAMPLE}`, {
      code: 'unsuitable_orders',
      hint: 'if only some values of a field are times, name the field: --date-field <field>',
    });
  if (others.length > 0)
    throw usageError(
      `several fields contain times: ${listNames([first, ...others])}`,
      `choose one, for example: --date-field ${first}`,
    );
  return first;
}

function timeFields(orders: readonly Fields[]): string[] {
  const areTimes = new Map<string, boolean>();
  const addFieldsOf = (object: Fields, prefix: string) => {
    for (const [name, value] of Object.entries(object)) {
      const path = prefix + name;
      if (isObject(value)) addFieldsOf(value, `${path}.`);
      else if (value !== null && value !== '' && areTimes.get(path) !== false)
        areTimes.set(path, isTime(value));
    }
  };
  for (const order of orders) addFieldsOf(order, '');
  return [...areTimes].filter(([, onlyTimes]) => onlyTimes).map(([path]) => path);
}
