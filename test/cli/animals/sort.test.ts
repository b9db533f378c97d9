import { expect, test } from 'vitest';
import type { SortOrder } from '../../../src/cli/animals/selection.ts';
import { compareAnimals } from '../../../src/cli/animals/sort.ts';
import { parseJson } from '../../../src/contract/json.ts';
import type { ReceivedPet } from '../../../src/contract/schemas.ts';

/** Sorts animals, given as JSON, and returns the values of a field. */
function sorted(order: SortOrder, animals: string, field: string): unknown[] {
  const pets = parseJson(animals) as ReceivedPet[];
  return pets.sort(compareAnimals(order)).map((pet) => pet[field]?.toString());
}
const names = (...all: string[]) => JSON.stringify(all.map((name, i) => ({ id: i + 1, name })));

test('names are in the order of the root collation, which differs from that of code units and of languages', () => {
  const all = names(
    'Z',
    'zoe',
    'Äpfel',
    'apfel',
    'Apfel',
    'ångström',
    'b',
    '10',
    '9',
    '_',
    'ñ',
    'nz',
    'Łódź',
    'Lz',
  );
  const expected = '_ 10 9 ångström apfel Apfel Äpfel b Łódź Lz ñ nz Z zoe'.split(' ');
  expect(sorted('name', all, 'name')).toEqual(expected);
  expect(sorted('name:desc', all, 'name')).toEqual(expected.reverse());
});

test('animals with equal values are in the order of their ids, also in descending order', () => {
  const same = '[{"id":10,"name":"Rex"},{"id":9,"name":"Rex"},{"id":100,"name":"Rex"}]';
  for (const order of ['name', 'name:desc'] as const)
    expect(sorted(order, same, 'id')).toEqual(['9', '10', '100']);
});

test('numbers are compared exactly, and come before other values', () => {
  const ids =
    '[{"id":"a"},{"id":9223372036854775808},{"id":"10"},{"id":9223372036854775807},{"id":2},{"id":-1},{"id":2.5},{"id":"B"}]';
  const expected = ['-1', '2', '2.5', '10', '9223372036854775807', '9223372036854775808', 'a', 'B'];
  expect(sorted('id', ids, 'id')).toEqual(expected);
  expect(sorted('id:desc', ids, 'id')).toEqual(expected.reverse());
});

test.each(['category', 'category:desc'] as const)(
  'with %s, animals without a category come last',
  (order) => {
    const animals = '[{"id":1,"categoryId":null},{"id":2},{"id":3,"categoryId":1},{"id":4,"categoryId":1}]';
    expect(sorted(order, animals, 'id')).toEqual(['3', '4', '1', '2']);
  },
);

test('a status may be any value', () => {
  const animals =
    '[{"id":1,"status":["sold"]},{"id":2,"status":"sold"},{"id":3,"status":7},{"id":4,"status":"available"}]';
  expect(sorted('status', animals, 'id')).toEqual(['3', '1', '4', '2']);
});
