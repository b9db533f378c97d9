import { stringifyJson } from '../../contract/json.ts';
import { CliError } from '../core/errors.ts';
import { addDecimals, type Decimal, decimalOf, ZERO } from '../fields/decimal.ts';
import { type Fields, fieldAt, findField, isNumber, valuesOf } from '../fields/field.ts';

/** The exact sum of a field, and the number of orders that have it. */
export type Sum = { sum: Decimal; orders: number };

/**
 * Adds up a field of the selected orders, which may be a number or a list of numbers. Orders without a value are not
 * counted.
 *
 * @param all the orders in the response, to name an order by its position
 * @throws CliError if a value is not a number
 */
export function sumField(selected: readonly Fields[], field: string, all: readonly Fields[]): Sum {
  let sum = ZERO;
  let orders = 0;
  for (const order of selected) {
    const values = valuesOf(order, field).filter((value) => value !== null);
    if (values.length > 0) orders++;
    for (const value of values) {
      const number = decimalOf(value);
      if (number === undefined) throw notANumber(order, field, value, all);
      sum = addDecimals(sum, number);
    }
  }
  return { sum, orders };
}

/** The maximum length of a value in an error message, in UTF-16 units. */
const MAX_VALUE_LENGTH = 60;

function notANumber(order: Fields, field: string, value: unknown, all: readonly Fields[]): CliError {
  const text = stringifyJson(value);
  const shown = text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text;
  return new CliError(
    `cannot add up ${field}: it is ${shown} in ${nameOf(order, all)}, which is not a number`,
    {
      code: 'unsuitable_orders',
      hint: 'select other orders with --where, --since and --until',
    },
  );
}

function nameOf(order: Fields, all: readonly Fields[]): string {
  const id = fieldAt(order, findField([order], 'id') ?? 'id');
  return typeof id === 'string' || isNumber(id)
    ? `order ${id}`
    : `order ${all.indexOf(order) + 1} of the response`;
}
