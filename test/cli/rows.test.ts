import { describe, expect, test } from 'vitest';
import { formatOfPath, readInput } from '../../src/cli/rows/input-file.ts';
import { inShort, rowsOf } from '../helpers/rows.ts';

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
])('the format of %j is detected from its first characters', (text, rows) => {
  expect(inShort(rowsOf(undefined, text))).toEqual(rows);
});

describe('fields may have the names of built-in properties', () => {
  test.each([
    ['csv', 'name,category,__proto__,constructor,toString\nRex,1,x,2,3\n'],
    ['ndjson', '{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}'],
    ['json', '[{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}]'],
  ] as const)('%s', (format, text) => {
    const [row] = rowsOf(format, text);
    const value = (row as { value: Record<string, unknown> }).value;
    expect(Object.keys(value)).toEqual(expect.arrayContaining(['name', '__proto__', 'constructor']));
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(value['status']).toBeUndefined();
  });
});

describe('if an input cannot be read', () => {
  const MIB = Buffer.alloc(1_048_576);
  test.each([
    ['an error is rethrown', new Error('gone'), 1, 'gone'],
    [
      'an error of the system names the input',
      Object.assign(new Error(), { syscall: 'read', code: 'EISDIR' }),
      1,
      'cannot read FILE: it is a directory',
    ],
    [
      'an endless one is refused after 256 MiB',
      new Error('not reached'),
      1_000,
      'FILE is larger than 256 MiB',
    ],
  ])('%s, and the source is closed', async (_, failure, chunks, message) => {
    let isClosed = false;
    async function* source() {
      try {
        for (let i = 0; i < chunks; i++) yield MIB;
        throw failure;
      } finally {
        isClosed = true;
      }
    }
    await expect(readInput(source(), 'FILE')).rejects.toMatchObject({ message });
    expect(isClosed).toBe(true);
  });
});
