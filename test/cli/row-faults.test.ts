import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { describeFaults } from '../../src/cli/input/row-faults.ts';
import { parseJson } from '../../src/contract/json.ts';
import { NewPet } from '../../src/contract/schemas.ts';

function faultsOf(value: unknown, form: 'csv' | 'json') {
  const { error } = z.safeParse(NewPet, value);
  if (error === undefined) throw new Error('there is no fault');
  return describeFaults(error, { value, form });
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
])('a cell %j of category: %s', (cell, says) => {
  const { fault, kind } = faultsOf({ name: 'Rex', categoryId: cell }, 'csv');
  expect([fault, kind]).toEqual([`category "${cell}" ${says}`, `category ${says}`]);
});

test.each([
  ['1.5', WHOLE],
  ['1e30', `${WHOLE} ${BOUNDS}`],
  ['1e999', `${WHOLE} ${BOUNDS}`],
  ['9223372036854775808', `${WHOLE} ${BOUNDS}`],
  ['"3"', `${WHOLE}, not a text`],
  ['null', WHOLE],
  ['[1]', WHOLE],
  ['{"a":[true]}', WHOLE],
])('a categoryId %s in JSON: %s', (json, says) => {
  const { fault } = faultsOf(parseJson(`{"name":"Rex","categoryId":${json}}`), 'json');
  expect(fault).toBe(`categoryId ${json} ${says}`);
});

test.each([
  [{}, 'name is required; categoryId is required', 'name is required, and categoryId is required'],
  [7, '7 must be a JSON object', 'must be a JSON object'],
  [
    { name: 5, categoryId: 1, status: 'Sold' },
    'name 5 must be a string; status "Sold" must be one of available, pending, sold',
    'name must be a string, and status must be one of available, pending, sold',
  ],
])('%j: %s', (value, fault, kind) => {
  expect(faultsOf(value, 'json')).toEqual({ fault, kind });
});

test('a value is cut to what fits into a line, and made visible', () => {
  const fault = (status: string) => faultsOf({ name: 'Rex', categoryId: 1, status }, 'csv').fault;
  expect(fault('x'.repeat(40))).toContain(`status "${'x'.repeat(40)}" must`);
  expect(fault('x'.repeat(1_000_000))).toContain(`status "${'x'.repeat(39)}…" must`);
  expect(fault(`\x1b[31m\u202e${'猫'.repeat(40)}`)).toContain(
    `status "\\x1b[31m\\u202e${'猫'.repeat(12)}… must`.replace('…', '…"'),
  );
});
