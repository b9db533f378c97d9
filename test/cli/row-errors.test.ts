import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { describeInvalidRow } from '../../src/cli/rows/row-errors.ts';
import { parseJson } from '../../src/contract/json.ts';
import { NewPet } from '../../src/contract/schemas.ts';

function describeInvalid(value: unknown, format: 'csv' | 'json') {
  const { error } = z.safeParse(NewPet, value);
  if (error === undefined) throw new Error('the row is valid');
  return describeInvalidRow(error, { value, format });
}

const WHOLE = 'must be a whole number';
const BOUNDS = 'from -9223372036854775808 to 9223372036854775807';

test.each([
  ['x', WHOLE],
  ['2,0', WHOLE],
  ['1.5', WHOLE],
  ['1,000', WHOLE],
  ['9223372036854775808', `${WHOLE} ${BOUNDS}`],
  [' -99999999999999999999', `${WHOLE} ${BOUNDS}`],
  ['01', `${WHOLE}, in plain digits`],
  ['1E+15', `${WHOLE}, in plain digits`],
  ['+1', `${WHOLE}, in plain digits`],
])('a category %j in CSV is refused: %s', (cell, rule) => {
  const { error, kind } = describeInvalid({ name: 'Rex', categoryId: cell }, 'csv');
  expect([error, kind]).toEqual([`category "${cell}" ${rule}`, `category ${rule}`]);
});

test.each([
  ['1.5', WHOLE],
  ['1e30', `${WHOLE} ${BOUNDS}`],
  ['1e999', `${WHOLE} ${BOUNDS}`],
  ['9223372036854775808', `${WHOLE} ${BOUNDS}`],
  ['"3"', `${WHOLE}, not a string`],
  ['null', WHOLE],
  ['[1]', WHOLE],
  ['{"a":[true]}', WHOLE],
])('a categoryId %s in JSON is refused: %s', (json, rule) => {
  const { error } = describeInvalid(parseJson(`{"name":"Rex","categoryId":${json}}`), 'json');
  expect(error).toBe(`categoryId ${json} ${rule}`);
});

test.each([
  [{}, 'name is required; categoryId is required', 'name is required, and categoryId is required'],
  [7, '7 must be a JSON object', 'must be a JSON object'],
  [
    { name: 5, categoryId: 1, status: 'Sold' },
    'name 5 must be a string; status "Sold" must be one of available, pending, sold',
    'name must be a string, and status must be one of available, pending, sold',
  ],
])('the row %j is refused: %s', (value, error, kind) => {
  expect(describeInvalid(value, 'json')).toEqual({ error, kind });
});

test('a long value is cut, and control characters are escaped', () => {
  const errorOf = (status: string) => describeInvalid({ name: 'Rex', categoryId: 1, status }, 'csv').error;
  expect(errorOf('x'.repeat(40))).toContain(`status "${'x'.repeat(40)}" must`);
  expect(errorOf('x'.repeat(1_000_000))).toContain(`status "${'x'.repeat(39)}…" must`);
  expect(errorOf(`\x1b[31m\u202e${'猫'.repeat(40)}`)).toContain(
    `status "\\x1b[31m\\u202e${'猫'.repeat(12)}… must`.replace('…', '…"'),
  );
});
