import { Readable } from 'node:stream';
import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { readInput, requireUtf8 } from '../../src/cli/core/input.ts';
import { toCsv } from '../../src/cli/output/csv.ts';
import type { RowFormat } from '../../src/cli/rows/input.ts';
import { describeInvalidRow, detectFormat, parseRows, type RawRow } from '../../src/cli/rows/read-file.ts';
import { parseJson, stringifyJson } from '../../src/contract/json.ts';
import { NewPet } from '../../src/contract/schemas.ts';

const MIB = 1_048_576;
const rex = { name: 'Rex', categoryId: 1n };
const json = '{"name":"Rex","categoryId":1}';
const one = { name: 'Rex', categoryId: 1 };

/** An input text, and the line and the value or error of each expected row. */
type RowsCase = [text: string, ...rows: [line: number, row: unknown][]];

async function rowsOf(format: RowFormat, text: string): Promise<RawRow[]> {
  const rows: RawRow[] = [];
  const parsed = parseRows(requireUtf8(Buffer.from(text), 'FILE'), 'FILE', format);
  for await (const row of parsed.rows) rows.push(row);
  return rows;
}

const inShort = async (format: RowFormat, text: string) =>
  (await rowsOf(format, text)).map((row) => [row.line, 'error' in row ? row.error : row.value]);

function testRows(format: RowFormat, name: string, cases: RowsCase[]): void {
  test.each(cases)(`${name}: %j`, async (text, ...rows) => {
    expect(await inShort(format, text)).toEqual(rows);
  });
}

testRows('csv', 'each row has the line on which it starts', [
  [''],
  ['name,categoryId'],
  ['name,categoryId\nRex,1\r\nRex,1\rRex,1\n\rRex,1', [2, rex], [3, rex], [4, rex], [6, rex]],
  ['\r\n \n\rname,categoryId\n\n\r\nRex,1\n  \n,\nRex,1\n\n', [7, rex], [10, rex]],
  ['name,categoryId\n"a\nb\r\nc\rd",1\nRex,1\n', [2, { ...rex, name: 'a\nb\r\nc\rd' }], [6, rex]],
  ['"na\nme",name,categoryId\n,Rex,1\n', [3, rex]],
  // A first line sep= sets the delimiter and counts as a line.
  ['sep=;\r\nname;category\r\nRex;1\r\n', [3, rex]],
  ['\ufeffSEP=,\n\n name,category\nRex,1\n', [4, rex]],
  ['\n"sep=\t"\r\r\nname\tcategory\rRex\t1', [5, rex]],
  ['sep=|\nname|category\nRex;|1\n', [3, { ...rex, name: 'Rex;' }]],
  ['sep=;\nname,category\nRex,1\n', [2, expect.stringContaining('missing columns name and category')]],
]);

testRows('csv', 'cells become the fields of an animal', [
  ['categoryId,status,name\n1,sold,Rex\n', [2, { ...rex, status: 'sold' }]],
  ['name,category,status,id\nRex,1,,\n', [2, rex]],
  ['name,category\n,1\n"",1\n', [2, { ...rex, name: '' }], [3, { ...rex, name: '' }]],
  ["name,category\n'=1+1,1\n'Rex,1\n", [2, { ...rex, name: '=1+1' }], [3, { ...rex, name: "'Rex" }]],
  ['name,category\n007,9223372036854775807\n', [2, { name: '007', categoryId: 9223372036854775807n }]],
  ['name,category\nRex,1e3\n', [2, { ...rex, categoryId: '1e3' }]],
  ['name,category\nRex,01\n', [2, { ...rex, categoryId: '01' }]],
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
]);

const missing = (fields: string, found: string) =>
  `missing ${fields}; found: ${found}; the first line must name the columns name, category and optionally status`;
testRows('csv', 'a CSV header may have any case and delimiter; one that cannot be used is explained', [
  [' NAME ,"Category",Status\nRex,1,sold\n', [2, { ...rex, status: 'sold' }]],
  // The delimiter is the one that occurs most often in the header, outside quotes.
  ['\tname\tcategory\n1\tRex\t1\n', [2, { '': 1n, ...rex }]],
  ['name\tcategory\tFur; colour\nRex\t1\t\n', [2, rex]],
  ['"a;b;c;d",name,category\n,Rex,1\n', [2, rex]],
  ['Name;Kategorie;Status\nRex;1;sold\n', [1, missing('column category', 'Name, Kategorie, Status')]],
  ['\nname,,\nRex,,\n', [2, missing('column category', 'name')]],
  ['name,category,Category_Id\nRex,1,2\n', [1, 'use only one of these columns: category, Category_Id']],
  ['name,category,,Age,,age\nRex,1,,2,,3\n', [1, 'use only one of these columns: Age, age']],
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
    [`${json}\n{"name":\n\n${json}\n`, [1, one], [2, 'invalid JSON: Unexpected end of JSON input'], [4, one]],
    [`${'['.repeat(501)}\n${json}`, [1, 'invalid JSON: nested deeper than 500 levels'], [2, one]],
  ]);
  testRows('json', 'JSON', [
    ['\ufeff \r\n[\n]\n '],
    [`[\r\n  ${json},\r\n\r\n  ${json}\r\n  ,${json}]\n`, [1, one], [2, one], [3, one]],
    [`{"orders":[7],"pets":[${json}]}`, [1, one]],
    ['[9007199254740993,"é🐈",null,-1 ]', [1, 9007199254740993n], [2, 'é🐈'], [3, null], [4, -1]],
  ]);
  test.each([
    [
      '{}',
      'FILE must be an array of animals, or an object with an array "pets" and optionally an array "orders"',
    ],
    ['[1]\n\n[2]', 'FILE, line 3: invalid JSON'],
    ['[1,\n{"a":\n', 'FILE, line 3: invalid JSON'],
    ['['.repeat(600), 'FILE, line 1: invalid JSON: nested deeper than 500 levels'],
  ])('the document %j is refused: %s', async (text, message) => {
    await expect(rowsOf('json', text)).rejects.toThrow(expect.objectContaining({ code: 'usage', message }));
  });
});

test.each([
  [`\n [\n${json}]`, 'json'],
  [`\n ${json}\n`, 'ndjson'],
  [' {\n"pets":[]}', 'json'],
  ['\n name,category\nRex,1\n', 'csv'],
  [' ', 'csv'],
])('the format of %j is %s', (text, format) => {
  expect(detectFormat(Buffer.from(text))).toBe(format);
});

test.each([
  ['csv', 'name,category,__proto__,constructor,toString\nRex,1,x,2,3\n'],
  ['ndjson', '{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}'],
  ['json', '[{"name":"Rex","__proto__":{"status":"sold"},"constructor":2}]'],
] as const)('fields of %s may have the names of built-in properties', async (format, text) => {
  const [row] = await rowsOf(format, text);
  const value = (row as { value: Record<string, unknown> }).value;
  expect(Object.keys(value)).toEqual(expect.arrayContaining(['name', '__proto__', 'constructor']));
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  expect(value['status']).toBeUndefined();
});

describe('a row may have at most 1 MiB', () => {
  const tooLong = expect.stringContaining('longer than 1 MiB');
  // The columns are the format, the text before the row, the start and the end of the row, and the text after the row.
  test.each([
    ['csv', 'name,category\n', '"', '",1\n', '\nRex,1\n'],
    ['csv', 'name,category\r\n', 'x', ',1\r\n', '\r\nRex,1\r\n'],
    ['ndjson', '\n', '{"name":"', '"}', '\n{}\n'],
  ] as const)(
    '%s %j: a longer row is an error on its first line, after which only NDJSON is read',
    async (...shape) => {
      const [format, before, open, close, after] = shape;
      for (const letter of ['x', '🐈']) {
        const room = MIB - Buffer.byteLength(open + close);
        const bytes = Buffer.byteLength(letter);
        const fill = letter.repeat(room / bytes) + 'x'.repeat(room % bytes);
        const just = await rowsOf(format, before + open + fill + close + after);
        expect(just.map((row) => 'error' in row)).toEqual([false, false]);
        const rest = format === 'ndjson' ? [[3, {}]] : [];
        expect(await inShort(format, `${before}${open}x${fill}${close}${after}`)).toEqual([
          [2, tooLong],
          ...rest,
        ]);
      }
    },
  );

  test.each([
    ['csv', 'name,category\n"', 'Rex,1\n', 2],
    ['csv', 'name,category\n', ',', 2],
    ['csv', '', 'x', 1],
    ['ndjson', '\n\n', 'x', 3],
  ] as const)(
    '%s: reading stops if %j is followed by more than a MiB of %j',
    async (format, begin, more, line) => {
      expect(await inShort(format, begin + more.repeat(4 * MIB))).toEqual([[line, tooLong]]);
    },
  );

  test.each(['\n', '\r\n'])('blank lines, each of them %j, do not count as a part of a row', async (end) => {
    const long = 'x'.repeat(MIB / 2);
    const text = `name,category${end}${end.repeat(MIB)}Rex,1${end}"${long}",1${end}`;
    expect(await inShort('csv', text)).toEqual([
      [MIB + 2, rex],
      [MIB + 3, { ...rex, name: long }],
    ]);
  });
});

test('CSV is parsed in chunks, wherever a chunk ends', async () => {
  const row = '"a\r\n🐈""",7\r\n\r\n';
  for (let shift = 0; shift < Buffer.byteLength(row); shift++) {
    const rows = await inShort('csv', `name,category\n${'y'.repeat(65_000 + shift)},7\n${row.repeat(100)}`);
    const expected = Array.from({ length: 100 }, (_, i) => [3 + 3 * i, { name: 'a\r\n🐈"', categoryId: 7n }]);
    expect(rows.slice(1)).toEqual(expected);
  }
});

describe('rows that were written are read back unchanged', () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom(...('\'"=+-@,;\t\r\n a é🐈'.match(/./gsu) ?? [])) }),
  );
  const pets = fc.array(fc.record({ name, categoryId: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n) }));
  const valuesOf = (rows: RawRow[]) => rows.map((row) => ('error' in row ? row.error : row.value));

  test.each(['csv', 'excel', 'tsv'] as const)('%s written by pets list', (format) =>
    fc.assert(
      fc.asyncProperty(pets, async (animals) => {
        const rows = animals.map((pet) => [pet.name, pet.categoryId]);
        const target = { format, isTerminal: false, hasDecimalComma: () => true };
        const text = toCsv([['name', 'categoryId'], ...rows], target);
        expect(valuesOf(await rowsOf('csv', text))).toEqual(animals);
      }),
    ),
  );

  test('CSV written by other programs', () =>
    fc.assert(
      fc.asyncProperty(
        pets,
        fc.constantFrom(',', ';', '\t'),
        fc.constantFrom('\n', '\r\n', '\r'),
        async (animals, delimiter, record_delimiter) => {
          // Leave out names that start with `'`, because pets reads them as escaped formulas.
          const plain = animals.filter((pet) => !pet.name.startsWith("'"));
          const rows = plain.map((pet) => [String(pet.categoryId), pet.name]);
          const options = { delimiter, record_delimiter, quoted: true };
          const text = stringify([['category', 'name'], ...rows], options);
          expect(valuesOf(await rowsOf('csv', text))).toEqual(plain);
        },
      ),
    ));

  test('NDJSON, and JSON with and without line ends', () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), fc.nat(3), async (written, indent) => {
        const texts = written.map((value) => JSON.stringify(value));
        const lines = await rowsOf('ndjson', texts.join('\n'));
        const pretty = JSON.stringify(written, undefined, indent);
        const elements = await rowsOf('json', pretty);
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
  ['UTF-16', 'big-endian UTF-16', Buffer.from(text, 'utf16le').swap16()],
  ['UTF-16', 'UTF-16 with a byte order mark', Buffer.from('\uFEFFä', 'utf16le')],
])('input that is %s is refused with how to save it: %s', (problem, _, bytes) => {
  const hint = 'save it as UTF-8; in Excel: Save As → CSV UTF-8 (comma delimited)';
  expect(() => requireUtf8(bytes, 'FILE')).toThrow(
    expect.objectContaining({ message: `FILE is ${problem}`, hint }),
  );
});

const systemError = Object.assign(new Error(), { syscall: 'read', code: 'EISDIR' });
test.each([
  ['an error is rethrown', new Error('gone'), 1, 'gone'],
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

describe('an invalid row is described with the values found', () => {
  function describeInvalid(value: unknown, format: 'csv' | 'json') {
    const { error } = z.safeParse(NewPet, value);
    if (error === undefined) throw new Error('the row is valid');
    return describeInvalidRow(error, value, format === 'csv');
  }
  const OUTSIDE = `must be a whole number from ${-(2n ** 63n)} to ${2n ** 63n - 1n}, in plain digits`;

  test.each(['1E+15', ' -99999999999999999999'])('category %j in CSV', (cell) => {
    const described = describeInvalid({ name: 'Rex', categoryId: cell }, 'csv');
    expect(described).toBe(`category "${cell}" ${OUTSIDE}`);
  });

  test.each([
    ['{"name":"Rex","categoryId":1.5}', `categoryId 1.5 ${OUTSIDE}`],
    ['{"name":"Rex","categoryId":9223372036854775808}', `categoryId 9223372036854775808 ${OUTSIDE}`],
    ['{"name":"Rex","categoryId":{"a":[true]}}', `categoryId {"a":[true]} ${OUTSIDE}`],
    ['{}', 'name is required; categoryId is required'],
    ['7', '7 must be a JSON object'],
    [
      '{"name":5,"categoryId":1,"status":"Sold"}',
      'name 5 must be a string; status "Sold" must be one of available, pending, sold',
    ],
  ])('%s: %s', (text, error) => {
    expect(describeInvalid(parseJson(text), 'json')).toBe(error);
  });

  test('a long value is cut, and control characters are escaped', () => {
    const errorOf = (status: string) => describeInvalid({ ...one, status }, 'csv');
    expect(errorOf('x'.repeat(40))).toContain(`status "${'x'.repeat(40)}" must`);
    expect(errorOf('x'.repeat(1_000_000))).toContain(`status "${'x'.repeat(39)}…" must`);
    expect(errorOf(`\x1b[31m\u202e${'猫'.repeat(40)}`)).toContain(
      `status "\\x1b[31m\\u202e${'猫'.repeat(12)}…" must`,
    );
  });
});
