import { Readable } from 'node:stream';
import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { readInput, requireUtf8 } from '../../src/cli/core/input.ts';
import { toCsv } from '../../src/cli/output/csv.ts';
import { describeInvalidRow, detectFormat, parseRows, type RowFormat } from '../../src/cli/rows/read-file.ts';
import { parseJson, stringifyJson } from '../../src/contract/json.ts';
import { NewPet } from '../../src/contract/schemas.ts';

const MIB = 1_048_576;
const rex = { name: 'Rex', categoryId: 1n };
const json = '{"name":"Rex","categoryId":1}';
const one = { name: 'Rex', categoryId: 1 };

/** An input text, and the line and the value or error of each expected row. */
type RowsCase = [text: string, ...rows: [line: number, row: unknown][]];

type Row = { line: number; value: unknown; error: string | undefined };

function rowsOf(format: RowFormat, text: string): Row[] {
  const rows: Row[] = [];
  parseRows(requireUtf8(Buffer.from(text), 'FILE'), 'FILE', format, (line, value, error) => {
    rows.push({ line, value, error });
  });
  return rows;
}

const inShort = (format: RowFormat, text: string) =>
  rowsOf(format, text).map(({ line, value, error }) => [line, error ?? value]);

function testRows(format: RowFormat, name: string, cases: RowsCase[]): void {
  test.each(cases)(`${name}: %j`, (text, ...rows) => {
    expect(inShort(format, text)).toEqual(rows);
  });
}

testRows('csv', 'each row has the line on which it starts', [
  [''],
  ['name,categoryId'],
  ['name,categoryId\nRex,1\r\nRex,1\rRex,1\n\rRex,1', [2, rex], [3, rex], [4, rex], [6, rex]],
  ['\r\n \n\rname,categoryId\n\n\r\nRex,1\n  \n,\nRex,1\n\n', [7, rex], [10, rex]],
  ['name,categoryId\n"a\nb\r\nc\rd",1\nRex,1\n', [2, { ...rex, name: 'a\nb\r\nc\rd' }], [6, rex]],
  ['"na\nme",name,categoryId\n,Rex,1\n', [3, rex]],
  ['\n\r\r\nname\tcategory\rRex\t1', [5, rex]],
]);

testRows('csv', 'cells become the fields of an animal', [
  ['categoryId,status,name\n1,sold,Rex\n', [2, { ...rex, status: 'sold' }]],
  ['name,category,status,id\nRex,1,,\n', [2, rex]],
  ["name,category\n'=1+1,1\n'Rex,1\n", [2, { ...rex, name: '=1+1' }], [3, { ...rex, name: "'Rex" }]],
  ['name,category\n007,9223372036854775807\n', [2, { name: '007', categoryId: 9223372036854775807n }]],
  ['name,category\nRex,1e3\n', [2, { ...rex, categoryId: '1e3' }]],
  [
    'name,category\nRex,01\nRex,1.0\nRex, 1.000 \nRex,1.5\n',
    [2, rex],
    [3, rex],
    [4, rex],
    [5, { ...rex, categoryId: '1.5' }],
  ],
  [
    'name,category,status\nRex,1,5\nRex, 1 , SOLD \nRex,1, \nRex,1,Sold out\n',
    [2, { ...rex, status: '5' }],
    [3, { ...rex, status: 'sold' }],
    [4, rex],
    [5, { ...rex, status: 'Sold out' }],
  ],
  ['name;category;id\nRex; ;\n', [2, { name: 'Rex' }]],
  ['name;category;id\nRex;1,5; 7\n', [2, { ...rex, categoryId: '1,5', id: 7n }]],
  ['name,category, Colour ,Age,,\nRex,1,red,7,,\n', [2, { ...rex, Colour: 'red', Age: 7n }]],
]);

const quote = 'invalid CSV: a quote is missing or in the wrong place; the lines after it were not checked';

testRows('csv', 'an error in a row of CSV has its line; after a syntax error, reading stops', [
  [
    'name,category\nRex\nRex,1\nRex,1,2\n"R\nex",1,\nRex,1',
    [2, 'expected 2 columns, found 1: Rex'],
    [3, rex],
    [4, 'expected 2 columns, found 3: Rex,1,2'],
    [5, 'expected 2 columns, found 3: R\\nex,1,'],
    [7, rex],
  ],
  ['name,category\nRex,1\n\n"Rex,1\nRex,1\n', [2, rex], [4, quote]],
  ['name,category\nRex,1\n6" snake,1\n', [2, rex], [3, quote]],
  [`name,category\n"${'x,1\n'.repeat(1_000_000)}`, [2, quote]],
]);

const missing = (fields: string, found: string) =>
  `missing ${fields}; found: ${found}; the first line must name the columns name, category and optionally status, separated by commas, semicolons or tabs`;
testRows('csv', 'a CSV header may have any case and delimiter; one that cannot be used is explained', [
  [' NAME ,"Category",Status\nRex,1,sold\n', [2, { ...rex, status: 'sold' }]],
  // The delimiter is the one that occurs most often in the header, outside quotes.
  ['\tname\tcategory\n1\tRex\t1\n', [2, { '': 1n, ...rex }]],
  ['name\tcategory\tFur; colour\nRex\t1\t\n', [2, rex]],
  ['"a;b;c;d",name,category\n,Rex,1\n', [2, rex]],
  ['Name;Kategorie;Status\nRex;1;sold\n', [1, missing('column category', 'Name, Kategorie, Status')]],
  ['\nname,,\nRex,,\n', [2, missing('column category', 'name')]],
  ['name,category,Category_Id\nRex,1,2\n', [1, 'use only one of these: category, Category_Id']],
  ['name,category,,Age,,age\nRex,1,,2,,3\n', [1, 'use only one of these: Age, age']],
  ['Our animals,,\nName;Category ID\nRex;1\n', [1, missing('columns name and category', 'Our animals')]],
  [`name,\x1b[31m${'x'.repeat(200)}\n`, [1, expect.stringMatching(/found: name, \\x1b\[31mx{10,20}…/)]],
]);

describe('each line of NDJSON, and each animal of a JSON document, is a row', () => {
  testRows('ndjson', 'NDJSON', [
    [''],
    [`\ufeff${json}\n`, [1, one]],
    [`${json}\r\n\r\n \n${json}\r\n`, [1, one], [4, one]],
    ['{"id":9007199254740993,"name":"a\\nb é🐈"}\n', [1, { id: 9007199254740993n, name: 'a\nb é🐈' }]],
    ['7\nnull\n[1]\n', [1, 7], [2, null], [3, [1]]],
    [`${json}\n  {"a":\n\n${json}\n`, [1, one], [2, 'invalid JSON at column 8'], [4, one]],
    [`${'['.repeat(501)}]\n${json}`, [1, 'nested deeper than 500 levels'], [2, one]],
    ['{"name":"Rex","category":1}', [1, one]],
    ['{"category":1,"categoryId":1}', [1, 'use only one of these: category, categoryId']],
    [`${json.replace('}', ',"name":"Max"}')}\n${json}`, [1, 'an object has the field name twice'], [2, one]],
    ['{"name":"Rex","n\\u0061me":"Rex","category":1}', [1, 'an object has the field name twice']],
    [
      '{"name":"\\":","categoryId":1,"x":{"a" :[{"b":1},{"b":1}]}}',
      [1, expect.objectContaining({ name: '":' })],
    ],
  ]);
  testRows('json', 'JSON', [
    ['\ufeff \r\n[\n]\n '],
    [`[\r\n  ${json},\r\n\r\n  ${json}\r\n  ,${json}]\n`, [1, one], [2, one], [3, one]],
    [`{"orders":[7],"pets":[${json}]}`, [1, one]],
    ['[{"name":"Rex","category":1}]', [1, one]],
    ['[9007199254740993,"é🐈",null,-1 ]', [1, 9007199254740993n], [2, 'é🐈'], [3, null], [4, -1]],
  ]);
  test.each([
    [
      '{}',
      'FILE must be an array of animals, or an object with an array "pets" and optionally an array "orders"',
    ],
    ['[1]\n\n[2]', 'FILE, line 3, column 1: invalid JSON'],
    ['[1,\n{"a":\n', 'FILE, line 3, column 1: invalid JSON'],
    ['['.repeat(600), 'FILE, line 1, column 601: nested deeper than 500 levels'],
    ['[{"name":"Rex","name":"Rex"}]', 'FILE: an object has the field name twice'],
  ])('the document %j is refused: %s', (text, message) => {
    expect(() => rowsOf('json', text)).toThrow(expect.objectContaining({ code: 'usage', message }));
  });
});

test.each([
  [`\n [\n${json}]`, 'json'],
  [`\n ${json}\n`, 'ndjson'],
  [' {\n"pets":[]}', 'json'],
  ['{"animals":[]}', 'json'],
  ['\n name,category\nRex,1\n', 'csv'],
  [' ', 'csv'],
])('the format of %j is %s', (text, format) => {
  expect(detectFormat(Buffer.from(text))).toBe(format);
});

test.each([
  ['csv', 'name,category,__proto__,constructor,toString\nRex,1,x,2,3\n'],
  ['ndjson', '{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}'],
  ['json', '[{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}]'],
] as const)('fields of %s may have the names of built-in properties', (format, text) => {
  const [row] = rowsOf(format, text);
  const value = row?.value as Record<string, unknown>;
  expect(Object.keys(value)).toEqual(expect.arrayContaining(['name', '__proto__', 'constructor']));
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  expect(value['status']).toBeUndefined();
});

describe('rows that were written are read back unchanged', () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom(...('\'"=+-@,;\t\r\n a é🐈'.match(/./gsu) ?? [])) }),
  );
  const pets = fc.array(fc.record({ name, categoryId: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n) }));
  const valuesOf = (rows: Row[]) => rows.map(({ value, error }) => error ?? value);

  test.each(['csv', 'excel', 'tsv'] as const)('%s written by pets list', (format) =>
    fc.assert(
      fc.property(pets, (animals) => {
        const rows = animals.map((pet) => [pet.name, pet.categoryId]);
        const target = { format, isTerminal: false, hasDecimalComma: () => true };
        const text = toCsv([['name', 'categoryId'], ...rows], target);
        expect(valuesOf(rowsOf('csv', text))).toEqual(animals);
      }),
    ),
  );

  test('CSV written by other programs', () =>
    fc.assert(
      fc.property(
        pets,
        fc.constantFrom(',', ';', '\t'),
        fc.constantFrom('\n', '\r\n', '\r'),
        (animals, delimiter, record_delimiter) => {
          // Leave out names that start with `'`, because pets reads them as escaped formulas.
          const plain = animals.filter((pet) => !pet.name.startsWith("'"));
          const rows = plain.map((pet) => [String(pet.categoryId), pet.name]);
          const options = { delimiter, record_delimiter, quoted: true };
          const text = stringify([['category', 'name'], ...rows], options);
          expect(valuesOf(rowsOf('csv', text))).toEqual(plain);
        },
      ),
    ));

  test('NDJSON, and JSON with and without line ends', () =>
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.nat(3), (written, indent) => {
        const texts = written.map((value) => JSON.stringify(value));
        const lines = rowsOf('ndjson', texts.join('\n'));
        const pretty = JSON.stringify(written, undefined, indent);
        const elements = rowsOf('json', pretty);
        for (const rows of [lines, elements]) {
          expect(rows.map(({ line }) => line)).toEqual(texts.map((_, i) => i + 1));
          expect(valuesOf(rows).map((value) => stringifyJson(value))).toEqual(texts);
        }
      }),
    ));
});

const text = 'name,category\nRex,1\n';
test.each([
  ['not UTF-8 text', 'Latin-1', Buffer.from('name,category\nFürst,1\n', 'latin1')],
  ['not UTF-8 text', 'a workbook (.xlsx, .ods)', Buffer.from('PK\x03\x04\x14\0\x06\0\x08\0')],
  ['UTF-16', 'UTF-16', Buffer.from(text, 'utf16le')],
  ['UTF-16', 'UTF-16 with a byte order mark', Buffer.from('\uFEFFä', 'utf16le')],
])('input that is %s is refused with how to save it: %s', (problem, _, bytes) => {
  const error = { message: `FILE is ${problem}`, hint: 'use UTF-8 instead' };
  expect(() => requireUtf8(bytes, 'FILE')).toThrow(expect.objectContaining(error));
});

const systemError = Object.assign(new Error(), { syscall: 'read', code: 'EISDIR' });
test.each([
  ['an error of the system names the input', systemError, 1, 'cannot read FILE: it is a directory'],
  ['an endless one ends after 256 MiB', new Error('not reached'), 1_000, 'FILE is larger than 256 MiB'],
])('if an input cannot be read: %s, and the source is closed', async (_, failure, chunks, message) => {
  let isClosed = false;
  async function* source() {
    try {
      for (let i = 0; i < chunks; i++) yield Buffer.alloc(MIB);
      throw failure;
    } finally {
      isClosed = true;
    }
  }
  await expect(readInput(Readable.from(source()), 'FILE')).rejects.toMatchObject({ message });
  expect(isClosed).toBe(true);
});

function describeInvalid(value: unknown) {
  const { error } = z.safeParse(NewPet, value);
  if (error === undefined) throw new Error('the row is valid');
  return describeInvalidRow(error, value);
}
const OUTSIDE = `must be from ${-(2n ** 63n)} to ${2n ** 63n - 1n}`;
const DIGITS = 'must be a whole number, in plain digits';
const WORD = 'is not a number (pets count --by category shows the categories)';

test.each([
  ['{"name":"Rex","categoryId":1.5}', `category 1.5 ${DIGITS}`],
  ['{"name":"Rex","categoryId":"1E+15"}', `category "1E+15" ${DIGITS}`],
  ['{"name":"Rex","categoryId":"1,5"}', `category "1,5" ${DIGITS}`],
  ['{"name":"Rex","categoryId":9223372036854775808}', `category 9223372036854775808 ${OUTSIDE}`],
  ['{"name":"Rex","categoryId":"cats"}', `category "cats" ${WORD}`],
  ['{"name":"Rex","categoryId":{"a":[true]}}', `category {"a":[true]} ${WORD}`],
  ['{}', 'name is required; category is required'],
  ['7', '7 must be a JSON object'],
  [
    '{"name":5,"categoryId":1,"status":"Sold"}',
    'name 5 must be a string; status "Sold" must be one of available, pending, sold',
  ],
])('an invalid row is described with the values found: %s: %s', (text, error) => {
  expect(describeInvalid(parseJson(text))).toBe(error);
});
