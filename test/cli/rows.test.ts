import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RowFormat } from '../../src/cli/input/row-formats.ts';
import { formatOfPath, NotUtf8Error, type ReadRow, readRows } from '../../src/cli/input/rows.ts';
import { renderCsv } from '../../src/cli/output/csv.ts';
import { stringifyJson } from '../../src/contract/json.ts';

async function* chunksOf(...chunks: Uint8Array[]) {
  yield* chunks;
}

async function readAll(input: AsyncIterable<Uint8Array>, format: RowFormat | undefined) {
  const rows: ReadRow[] = [];
  for await (const row of readRows(input, format)) rows.push(row);
  return rows;
}

const rowsOf = (format: RowFormat | undefined, ...chunks: (string | Uint8Array)[]) =>
  readAll(chunksOf(...chunks.map((chunk) => Buffer.from(chunk))), format);

const bytesOf = (text: string | Uint8Array) => [...Buffer.from(text)].map((byte) => Buffer.of(byte));

/** Rows in short: their line, and the value or the fault. */
const inShort = (rows: ReadRow[]) => rows.map((row) => [row.line, 'fault' in row ? row.fault : row.value]);

type Case = [text: string, rows: [line: number, row: unknown][]];
const rex = { name: 'Rex', categoryId: 1n };

const CSV: Case[] = [
  ['', []],
  ['\r\n \n', []],
  ['name,categoryId', []],
  ['name,categoryId\r\n', []],
  ['name,categoryId\nRex,1', [[2, rex]]],
  ['\ufeffname,categoryId\nRex,1\n', [[2, rex]]],
  [
    'name,categoryId\r\nRex,1\r\nRex,1\r\n',
    [
      [2, rex],
      [3, rex],
    ],
  ],
  [
    'name,categoryId\rRex,1\rRex,1',
    [
      [2, rex],
      [3, rex],
    ],
  ],
  [
    'name,categoryId\nRex,1\r\nRex,1\rRex,1\n\rRex,1',
    [
      [2, rex],
      [3, rex],
      [4, rex],
      [6, rex],
    ],
  ],
  [
    '\r\n \n\rname,categoryId\n\n\r\nRex,1\n  \n,\nRex,1\n\n',
    [
      [7, rex],
      [10, rex],
    ],
  ],
  [
    'name,categoryId\n"a\nb\r\nc\rd",1\nRex,1\n',
    [
      [2, { ...rex, name: 'a\nb\r\nc\rd' }],
      [6, rex],
    ],
  ],
  [
    'name,categoryId\n"a\rb",1\nRex,1\n',
    [
      [2, { ...rex, name: 'a\rb' }],
      [4, rex],
    ],
  ],
  ['"na\nme",name,categoryId\n,Rex,1\n', [[3, rex]]],
  ['categoryId,status,name\n1,sold,Rex\n', [[2, { ...rex, status: 'sold' }]]],
  [' NAME ,"Category",Status\nRex,1,sold\n', [[2, { ...rex, status: 'sold' }]]],
  ['CATEGORY_ID,ID,name\n1,2,Rex\n', [[2, { ...rex, id: 2n }]]],
  ['name;category\nRex, the first;1\n', [[2, { ...rex, name: 'Rex, the first' }]]],
  ['\n\nname;category', []],
  ['name,category;x\nRex,1\n', [[1, 'there is no column categoryId']]],
  ['name,category\nA;B,1\n', [[2, { ...rex, name: 'A;B' }]]],
  ['name,category,status,id\nRex,1,,\n', [[2, rex]]],
  [
    'name,category\n,1\n"",1\n',
    [
      [2, { ...rex, name: '' }],
      [3, { ...rex, name: '' }],
    ],
  ],
  [
    "name,category\n'=1+1,1\n'Rex,1\n",
    [
      [2, { ...rex, name: '=1+1' }],
      [3, { ...rex, name: "'Rex" }],
    ],
  ],
  ['name,category\n007,9223372036854775807\n', [[2, { name: '007', categoryId: 9223372036854775807n }]]],
  [
    'name,category\nRex,1e3\nRex,01\n',
    [
      [2, { ...rex, categoryId: '1e3' }],
      [3, { ...rex, categoryId: '01' }],
    ],
  ],
  ['name,category,status\nRex,1,5\n', [[2, { ...rex, status: '5' }]]],
  ['name,category, Colour ,Age\nRex,1,red,7\n', [[2, { ...rex, Colour: 'red', Age: 7n }]]],
  ['name,category,,\nRex,1,,\n', [[2, rex]]],
  ['name,category\n"say ""hi""",1\n', [[2, { ...rex, name: 'say "hi"' }]]],
  ['name,category\nFürst 🐈‍⬛,1\n', [[2, { ...rex, name: 'Fürst 🐈‍⬛' }]]],
  [
    'name,category\nRex\nRex,1\nRex,1,2\n"R\nex",1,\nRex,1',
    [
      [2, 'the header has 2 columns, and this row 1'],
      [3, rex],
      [4, 'the header has 2 columns, and this row 3'],
      [5, 'the header has 2 columns, and this row 3'],
      [7, rex],
    ],
  ],
  ['nom,id\nRex,1\n', [[1, 'there is no column name, and no categoryId']]],
  ['\nname\nRex\n', [[2, 'there is no column categoryId']]],
  ['name,category,Category_Id\nRex,1,2\n', [[1, 'the column categoryId stands twice']]],
  ['name,category,Name\nRex,1,Bob\n', [[1, 'the column name stands twice']]],
  ['name,category,,Age,,age\nRex,1,,2,,3\n', [[1, 'the column age stands twice']]],
  [
    'name,category\nRex,1\n\n"Rex,1\nRex,1\n',
    [
      [2, rex],
      [4, 'is not CSV: a quote that opens here is never closed'],
    ],
  ],
  [
    'name,category\nRex,1\n"Rex,1\n"Rex",1\n',
    [
      [2, rex],
      [3, 'is not CSV: text follows a closing quote, or a quote that opens here is not closed'],
    ],
  ],
  [
    'name,category\nRex,1\n6" snake,1\n',
    [
      [2, rex],
      [3, 'is not CSV: a quote stands inside a cell that is not in quotes'],
    ],
  ],
];

const one = { name: 'Rex', categoryId: 1 };
const json = JSON.stringify(one);

const NDJSON: Case[] = [
  ['', []],
  ['\n \r\n', []],
  [json, [[1, one]]],
  [`\ufeff${json}\n`, [[1, one]]],
  [
    `${json}\r\n\r\n \n${json}\r\n`,
    [
      [1, one],
      [4, one],
    ],
  ],
  ['{"id":9007199254740993,"name":"a\\nb é🐈"}\n', [[1, { id: 9007199254740993n, name: 'a\nb é🐈' }]]],
  [
    '7\nnull\n[1]\n',
    [
      [1, 7],
      [2, null],
      [3, [1]],
    ],
  ],
  [
    `${json}\n{"name":\n\n${json}\n`,
    [
      [1, one],
      [2, 'is not JSON: Unexpected end of JSON input'],
      [4, one],
    ],
  ],
  [
    `${'['.repeat(501)}${']'.repeat(501)}\n${json}`,
    [
      [1, 'is not JSON: nested deeper than 500 levels'],
      [2, one],
    ],
  ],
];

const JSON_ARRAYS: Case[] = [
  ['', []],
  [' \n', []],
  ['[]', []],
  ['\ufeff \r\n[\n]\n ', []],
  [`[${json}]`, [[1, one]]],
  [
    `[\r\n  ${json},\r\n\r\n  ${json}\r\n  ,${json}]\n`,
    [
      [2, one],
      [4, one],
      [5, one],
    ],
  ],
  [
    '[{\n"a":\n{"b":[1,\n2]}},\n{}]',
    [
      [1, { a: { b: [1, 2] } }],
      [5, {}],
    ],
  ],
  [
    '[{"a":"]},[{"},{"b":"\\"]\\\\"},{"c":"\\\\\\""}]',
    [
      [1, { a: ']},[{' }],
      [1, { b: '"]\\' }],
      [1, { c: '\\"' }],
    ],
  ],
  ['[{"é🐈":"ü"}]', [[1, { 'é🐈': 'ü' }]]],
  [
    '[9007199254740993,"a,b",null,true,[],-1 ]',
    [9007199254740993n, 'a,b', null, true, [], -1].map((v) => [1, v]),
  ],
  ['{}', [[1, 'is not a JSON array']]],
  ['\n7', [[2, 'is not a JSON array']]],
  [
    '[1]\n\n[2]',
    [
      [1, 1],
      [3, 'is not JSON: text behind the array'],
    ],
  ],
  [
    '[1]]',
    [
      [1, 1],
      [1, 'is not JSON: text behind the array'],
    ],
  ],
  [
    '[1,\n]',
    [
      [1, 1],
      [2, 'is not JSON: no value on one side of a comma'],
    ],
  ],
  ['[,1]', [[1, 'is not JSON: no value on one side of a comma']]],
  [
    '[1,,2]',
    [
      [1, 1],
      [1, 'is not JSON: no value on one side of a comma'],
    ],
  ],
  ['\n[', [[2, 'is not JSON: the array has no end']]],
  [
    '[1,',
    [
      [1, 1],
      [1, 'is not JSON: the array has no end'],
    ],
  ],
  [
    '[1,\n{}\n',
    [
      [1, 1],
      [2, 'is not JSON: the array has no end'],
    ],
  ],
  [
    '[1,\n{"a":\n',
    [
      [1, 1],
      [2, 'is not JSON: Unexpected end of JSON input'],
    ],
  ],
  ['['.repeat(600), [[1, 'is not JSON: nested deeper than 500 levels']]],
  [
    '[1,\n{"a":},2]',
    [
      [1, 1],
      [2, expect.stringMatching(/^is not JSON: Unexpected token/)],
    ],
  ],
  ['[1 2]', [[1, expect.stringMatching(/^is not JSON: /)]]],
  ['[{}},3]', [[1, expect.stringMatching(/^is not JSON: /)]]],
  [
    '[1,\f2]',
    [
      [1, 1],
      [1, expect.stringMatching(/^is not JSON: /)],
    ],
  ],
];

describe.each([
  ['csv', CSV],
  ['ndjson', NDJSON],
  ['json', JSON_ARRAYS],
] as const)('%s', (format, cases) => {
  test.each(cases)('%j', async (text, rows) => {
    expect(inShort(await rowsOf(format, text))).toEqual(rows);
  });

  test.each(cases)('%j, however it is cut', async (text, rows) => {
    const bytes = Buffer.from(text);
    const cuts = [bytesOf(text)];
    for (let at = 1; at < bytes.length; at++) cuts.push([bytes.subarray(0, at), bytes.subarray(at)]);
    for (const chunks of cuts) expect(inShort(await rowsOf(format, ...chunks))).toEqual(rows);
  });
});

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
  ['[', [[1, 'is not JSON: the array has no end']]],
  [' ', []],
])('the format of %j is told by its first characters', async (text, rows) => {
  expect(inShort(await rowsOf(undefined, text))).toEqual(rows);
  expect(inShort(await rowsOf(undefined, ...bytesOf(text)))).toEqual(rows);
});

describe('what is not UTF-8 is refused, and its source closed', () => {
  const text = 'name,category\nRex,1\n';
  test.each([
    ['Latin-1', Buffer.from('name,category\nFürst,1\n', 'latin1')],
    ['UTF-16 with a byte order mark', Buffer.from(`\ufeff${text}`, 'utf16le')],
    ['UTF-16', Buffer.from(text, 'utf16le')],
    ['UTF-16, big-endian', Buffer.from(text, 'utf16le').swap16()],
    ['UTF-16 behind a line end', Buffer.from('\r\n[]', 'utf16le')],
    ['a character that ends in its middle', Buffer.from(`${text}🐈`).subarray(0, -1)],
  ])('%s', async (_, bytes) => {
    for (const chunks of [[bytes], bytesOf(bytes)]) {
      let isClosed = false;
      async function* source() {
        try {
          yield* chunks;
        } finally {
          isClosed = true;
        }
      }
      await expect(readAll(source(), undefined)).rejects.toThrow(NotUtf8Error);
      expect(isClosed).toBe(true);
    }
  });
});

describe('names of built-ins are names like others', () => {
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

describe('a row has at most 1 MiB', () => {
  const MIB = 1_048_576;
  const tooLong = expect.stringContaining('is longer than 1 MiB');
  // What stands before the row and in it, around as many letters as make it just as long as may be.
  const shapes = [
    ['csv', 'name,category\n', '"', '",1\n', '\nRex,1\n'],
    ['ndjson', '\n', '{"name":"', '"}', '\n{}\n'],
    ['json', '[\n', '{"name":"', '"}', ',\n{}]'],
  ] as const;
  test.each(shapes)('%s: a longer one is a fault where it begins, and the last row', async (...shape) => {
    const [format, before, open, close, after] = shape;
    for (const letter of ['x', '🐈']) {
      const room = MIB - Buffer.byteLength(open + close);
      const fill =
        letter.repeat(room / Buffer.byteLength(letter)) + 'x'.repeat(room % Buffer.byteLength(letter));
      const just = await rowsOf(format, before + open + fill + close + after);
      expect(just.map((row) => 'fault' in row)).toEqual([false, false]);
      const text = `${before}${open}x${fill}${close}${after}`;
      expect(inShort(await rowsOf(format, text))).toEqual([[2, tooLong]]);
      const cut = Buffer.from(text);
      const at = [cut.subarray(0, 700_000), cut.subarray(700_000, MIB + 9), cut.subarray(MIB + 9)];
      expect(inShort(await rowsOf(format, ...at))).toEqual([[2, tooLong]]);
    }
  });

  test.each([
    ['csv', 'name,category\n"', 'Rex,1\n', 2],
    ['csv', 'name,category\n', ',', 2],
    ['csv', '', 'x', 1],
    ['csv', '', ' ', 1],
    ['ndjson', '\n\n', 'x', 3],
    ['json', '[\n"', 'x', 2],
    ['json', '[\n', '[', 2],
    [undefined, '', ' ', 1],
  ] as const)('%s that begins with %j and has %j without end is not read on', async (...of) => {
    const [format, begin, more, line] = of;
    let pieces = 0;
    async function* endless() {
      yield Buffer.from(begin);
      for (const piece = Buffer.from(more.repeat(10_000)); ; pieces++) yield piece;
    }
    const rows = await readAll(endless(), format);
    expect(inShort(rows)).toEqual([[line, tooLong]]);
    expect(pieces * 10_000).toBeLessThan(4 * MIB);
  });
});

test.each([
  ['csv', 'name,category\n', 'Rex,1\n'],
  ['ndjson', '', '{}\n'],
  ['json', '[', '{},'],
] as const)(
  'rows of endless %s come as they are read, and its source is closed behind the last',
  async (...of) => {
    const [format, begin, row] = of;
    let pieces = 0;
    let isClosed = false;
    async function* endless() {
      try {
        yield Buffer.from(begin);
        for (const piece = Buffer.from(row.repeat(10)); ; pieces++) yield piece;
      } finally {
        isClosed = true;
      }
    }
    let count = 0;
    for await (const _ of readRows(endless(), format)) if (++count === 1000) break;
    expect(pieces).toBeLessThan(110);
    expect(isClosed).toBe(true);
  },
);

test('an error of the source is thrown on', async () => {
  async function* broken() {
    yield Buffer.from('name,category\nRex,1\nRex,1\n');
    throw new Error('gone');
  }
  await expect(readAll(broken(), undefined)).rejects.toThrow('gone');
});

describe('what was written comes back', () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom(...('\'"=+-@,;\t\r\n a é🐈'.match(/./gsu) ?? [])) }),
  );
  const categoryId = fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n);
  const pets = fc.array(fc.record({ name, categoryId }));
  /** Cuts the bytes where the numbers say. */
  const cutAt = (text: string, cuts: number[]) => {
    const bytes = Buffer.from(text);
    const bounds = [
      0,
      ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b),
      bytes.length,
    ];
    return bounds.slice(1).map((to, i) => bytes.subarray(bounds[i], to));
  };
  const cuts = fc.array(fc.nat(), { maxLength: 5 });
  const valuesOf = (rows: ReadRow[]) => rows.map((row) => ('fault' in row ? row.fault : row.value));

  test('CSV of this command', () =>
    fc.assert(
      fc.asyncProperty(pets, cuts, async (animals, at) => {
        const rows = animals.map((pet) => [pet.name, pet.categoryId]);
        const text = renderCsv([['name', 'categoryId'], ...rows]);
        expect(valuesOf(await rowsOf('csv', ...cutAt(text, at)))).toEqual(animals);
      }),
    ));

  test('CSV of others', () =>
    fc.assert(
      fc.asyncProperty(
        pets,
        cuts,
        fc.constantFrom(',', ';'),
        fc.constantFrom('\n', '\r\n', '\r'),
        async (animals, at, delimiter, record_delimiter) => {
          // A name that the spreadsheet guard could have been put on is read without it.
          const plain = animals.filter((pet) => !pet.name.startsWith("'"));
          const rows = plain.map((pet) => [String(pet.categoryId), pet.name]);
          const text = stringify([['category', 'name'], ...rows], {
            delimiter,
            record_delimiter,
            quoted: true,
          });
          expect(valuesOf(await rowsOf('csv', ...cutAt(text, at)))).toEqual(plain);
        },
      ),
    ));

  test('NDJSON, and JSON with and without line ends, each value on its line', () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), fc.nat(3), cuts, async (written, indent, at) => {
        const texts = written.map((value) => JSON.stringify(value));
        const lines = await rowsOf('ndjson', ...cutAt(texts.join('\n'), at));
        expect(lines.map(({ line }) => line)).toEqual(texts.map((_, i) => i + 1));
        const pretty = JSON.stringify(written, undefined, indent);
        const elements = await rowsOf('json', ...cutAt(pretty, at));
        for (const rows of [lines, elements])
          expect(valuesOf(rows).map((value) => stringifyJson(value))).toEqual(texts);
        let line = 1 + Math.min(indent, 1);
        for (const [i, row] of elements.entries()) {
          expect(row.line).toBe(line);
          if (indent > 0) line += JSON.stringify(written[i], undefined, indent).split('\n').length;
        }
      }),
    ));
});
