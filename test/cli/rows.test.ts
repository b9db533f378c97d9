import { describe, expect, test } from 'vitest';
import { formatOfPath } from '../../src/cli/rows/read-rows.ts';
import { bytesOf, inShort, readAll, rowsOf } from '../helpers/rows.ts';

const rex = { name: 'Rex', categoryId: 1n };
const one = { name: 'Rex', categoryId: 1 };
const json = JSON.stringify(one);

test.each([
  ['animals.csv', 'csv'],
  ['a.b/ANIMALS.CSV', 'csv'],
  ['animals.ndjson', 'ndjson'],
  ['animals.JsonL', 'ndjson'],
  ['animals.json', 'json'],
  ['animals.txt', undefined],
  ['animals', undefined],
  ['csv', undefined],
  ['.csv', undefined],
  ['-', undefined],
  ['a.constructor', undefined],
])('the format of %s is %s', (path, format) => {
  expect(formatOfPath(path)).toBe(format);
});

test.each([
  [`\ufeff\n [\n${json}]`, [[3, one]]],
  [`\n ${json}\n`, [[2, one]]],
  ['\n name,category\nRex,1\n', [[3, rex]]],
  ['[', [[1, 'invalid JSON: the array is not closed']]],
  [' ', []],
])('the format of %j is detected from its first characters', async (text, rows) => {
  expect(inShort(await rowsOf(undefined, text))).toEqual(rows);
  expect(inShort(await rowsOf(undefined, ...bytesOf(text)))).toEqual(rows);
});

describe('fields may have the names of built-in properties', () => {
  test.each([
    ['csv', 'name,category,__proto__,constructor,toString\nRex,1,x,2,3\n'],
    ['ndjson', '{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}'],
    ['json', '[{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}]'],
  ] as const)('%s', async (format, text) => {
    const [row] = await rowsOf(format, text);
    const value = (row as { value: Record<string, unknown> }).value;
    expect(Object.keys(value)).toEqual(expect.arrayContaining(['name', '__proto__', 'constructor']));
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(value['status']).toBeUndefined();
  });
});

test('an error of the source is rethrown', async () => {
  async function* broken() {
    yield Buffer.from('name,category\nRex,1\nRex,1\n');
    throw new Error('gone');
  }
  await expect(readAll(broken(), undefined)).rejects.toThrow('gone');
});
