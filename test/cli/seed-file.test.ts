import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliError } from '../../src/cli/core/errors.ts';
import { readSeedFile } from '../../src/cli/rows/seed-file.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'pets-seed-'));
});
afterAll(() => rm(directory, { recursive: true }));

async function seedOf(name: string, content: string | Uint8Array) {
  const path = join(directory, name);
  await writeFile(path, content);
  return readSeedFile(path);
}

async function refusalOf(name: string, content: string | Uint8Array) {
  const error = await seedOf(name, content).catch((caught) => caught);
  expect(error).toBeInstanceOf(CliError);
  return { ...error, message: error.message.replaceAll(join(directory, name), 'FILE') };
}

const rex = { name: 'Rex', categoryId: 9007199254740993n, status: 'available' };
const bella = { name: 'Bella', categoryId: 2n, status: 'sold' };

describe('every format gives the same animals: ids are kept, and other animals get ids above the largest', () => {
  const pets = [
    { id: 5n, ...bella },
    { id: 9n, ...rex },
    { id: 10n, ...rex },
  ];
  const [rexJson, bellaJson, ninthJson] = [
    '{"name":"Rex","categoryId":9007199254740993}',
    '{"id":5,"name":"Bella","categoryId":2,"status":"sold","x":[1]}',
    '{"id":9,"name":"Rex","categoryId":9007199254740993,"status":"available"}',
  ];
  const all = [rexJson, bellaJson, ninthJson];
  test.each([
    [
      'a.csv',
      'name,category,status,id\nRex,9007199254740993,,\nBella,2,sold,5\nRex,9007199254740993,available,9',
    ],
    [
      'a.CSV',
      '\ufeffid;name;categoryId;status\r\n;Rex;9007199254740993;\r\n5;Bella;2;sold\r\n9;Rex;9007199254740993;',
    ],
    ['a.ndjson', all.join('\n')],
    ['a.jsonl', all.join('\r\n\r\n')],
    ['a.json', `\ufeff\n[${all.join(',\n')}]\n`],
    ['a.json', `\ufeff\n{"pets":[${all.join(',\n')}]}\n`],
  ])('%s %j', async (name, content) => {
    expect(await seedOf(name, content)).toEqual({ pets, orders: [] });
  });

  test('orders are read from a JSON object', async () => {
    const seed = await seedOf('b.json', `{"orders":[{"id":9007199254740993},7],"pets":[${bellaJson}]}`);
    expect(seed).toEqual({ pets: [{ id: 5n, ...bella }], orders: [{ id: 9007199254740993n }, 7] });
  });

  test.each(['a.csv', 'a.ndjson'])('an empty %s has no animals', async (name) => {
    expect(await seedOf(name, '')).toEqual({ pets: [], orders: [] });
  });
});

/** NDJSON rows and the error of each row. A row without an error is valid. */
const ROW_ERRORS: [row: string, error?: string][] = [
  ['{"id":1,"name":"A","categoryId":1}'],
  ['{"id":1,"name":"B","categoryId":1}', 'id 1 is already used at line 1'],
  ['{"name":"Bella"}', 'categoryId is required'],
  ['{"name":', 'invalid JSON: Unexpected end of JSON input'],
  ['{"name":"A","categoryId":1}}', 'invalid JSON: '],
  ['7', '7 must be a JSON object'],
  ['null', 'null must be a JSON object'],
  ['{"id":0,"name":"A","categoryId":1}', 'id 0 must be from 1'],
  ['{"id":-5,"name":"A","categoryId":1}', 'id -5 must be from 1'],
  ['{"id":9223372036854775807,"name":"A","categoryId":1}', 'id 9223372036854775807 must be from 1'],
  ['{"id":9223372036854775808,"name":"A","categoryId":1}', 'id 9223372036854775808 must be'],
  ['{"name":"A","categoryId":1.5}', 'categoryId 1.5 must be a whole number'],
  ['{"name":"A","categoryId":1e30}', 'categoryId 1e30 must be a whole'],
  ['{"name":5,"categoryId":1}', 'name 5 must be a string'],
  ['{"name":"A","categoryId":1,"status":"lost"}', 'status "lost" must be one of'],
];

test('every row with an error is listed with its line', async () => {
  const { message } = await refusalOf('a.ndjson', ROW_ERRORS.map(([row]) => row).join('\n'));
  const errors = ROW_ERRORS.flatMap(([, error], i) => (error ? [`FILE, line ${i + 1}: ${error}`] : []));
  for (const error of errors) expect(message).toContain(error);
  expect(message.match(/FILE, line/g)).toHaveLength(errors.length);
});

describe('parse errors and validation errors are listed with their lines', () => {
  test.each([
    [
      'a.csv',
      'name,category,id\n"R\r\nex",1,1\nRex\n\nRex,x,\nRex,1e3,\nRex,,\nRex,1,1,4\nRex,1,1\nRex,1,2\n"Rex',
      [
        'FILE, line 4: expected 3 columns, found 1: Rex',
        'FILE, line 6: category "x" must be a whole number',
        'FILE, line 7: category "1e3" must be a whole number, in plain digits',
        'FILE, line 8: category is required',
        'FILE, line 9: expected 3 columns, found 4: Rex,1,1,4',
        'FILE, line 10: id 1 is already used at line 2',
        'FILE, line 12: invalid CSV: a quote opened on this line is never closed',
      ],
    ],
    [
      'a.json',
      '[\n{"name":"Rex","categoryId":1},\n\n{"name":"Rex"},\n7] x',
      [
        'FILE, line 4, animal 2: categoryId is required',
        'FILE, line 5, animal 3: 7 must be a JSON object',
        'FILE, line 5: invalid JSON: text after the array',
      ],
    ],
    ['a.json', '{"pets":[{"name":"Rex"}]}', ['FILE, animal 1: categoryId is required']],
    [
      'a.csv',
      'id,name,categoryId,status\n1,A,1,lost',
      ['FILE, line 2: status "lost" must be one of available, pending, sold'],
    ],
  ])('%s %j', async (name, content, errors) => {
    const hint = 'fix the errors above; nothing was added';
    expect(await refusalOf(name, content)).toMatchObject({ message: errors.join('; '), code: 'usage', hint });
  });
});

const [LATIN, UTF16] = ['it looks like Windows-1252', 'it looks like UTF-16'];
const AS_CSV = 'in Excel: Save As → CSV UTF-8 (comma delimited)';

test.each([
  ['a.csv', Buffer.from('name,category\nF\xfcrst,1\n', 'latin1'), LATIN, AS_CSV],
  ['a.ndjson', Buffer.from('\ufeff{}', 'utf16le'), UTF16, 'save it as UTF-8'],
  ['a.json', Buffer.from('["\xfc"]', 'latin1'), LATIN, 'save it as UTF-8'],
  ['a.json', Buffer.from('{"pets":["\xfc"]}', 'latin1'), LATIN, 'save it as UTF-8'],
])('%s that is not UTF-8 is refused', async (name, bytes, looks, hint) => {
  expect(await refusalOf(name, bytes)).toMatchObject({
    message: `FILE is not UTF-8 text (${looks})`,
    code: 'usage',
    hint,
  });
});

test.each([
  ['a.XLSX', 'PK\x03\x04\x14\0\x06\0', 'FILE is a workbook, not text'],
  ['a.csv', 'PK\x03\x04\x14\0\x06\0', 'FILE is a workbook or an archive, not text'],
  ['a.json', 'PK\x03\x04\x14\0\x06\0', 'FILE is a workbook or an archive, not text'],
])('a workbook named %s is refused, with how to save it as CSV', async (name, bytes, message) => {
  expect(await refusalOf(name, bytes)).toMatchObject({ message, code: 'usage', hint: AS_CSV });
});

test('if the file does not exist, a file with a similar name is suggested', async () => {
  await writeFile(join(directory, 'Shop.NDJSON'), '');
  const error = await readSeedFile(join(directory, 'shop')).catch((caught) => caught);
  // The format is detected before the file is opened.
  expect(error.message).toContain('cannot detect the format');
  const other = await readSeedFile(join(directory, 'shop.ndjson')).catch((caught) => caught);
  expect(other).toMatchObject({
    code: 'file_error',
    hint: `did you mean ${join(directory, 'Shop.NDJSON')}?`,
  });
});

test('the first twenty errors are listed, and the others are counted by kind', async () => {
  const rows = [
    ...Array(20).fill('7'),
    '{"name":1,"categoryId":1}',
    '{"id":0,"name":"","categoryId":1}',
    '7',
    '7',
  ];
  const { message } = await refusalOf('a.ndjson', rows.join('\n'));
  expect(message).toMatch(
    /line 20: 7 must be a JSON object; and 4 more errors: 2 × must be a JSON object; 1 × name must be a string; 1 × id must be from/,
  );
});

const NOT_ANIMALS =
  'FILE must be an array of animals, or an object with an array "pets" and optionally an array "orders"';

test.each<[string, unknown]>([
  ['', 'FILE: invalid JSON: Unexpected end of JSON input'],
  ['{"pets":[', 'FILE: invalid JSON: Unexpected end of JSON input'],
  ['[{"name":"A","categoryId":1}', 'FILE, line 1: invalid JSON: the array is not closed'],
  ['['.repeat(5_000), expect.stringContaining('nested deeper')],
  ...['null', '7', '{}', '{"orders":[]}', '{"pets":[],"orders":{}}'].map((text): [string, string] => [
    text,
    NOT_ANIMALS,
  ]),
])('a document %j is refused', async (content, message) => {
  expect(await refusalOf('a.json', content)).toMatchObject({ message, code: 'usage' });
});

test('a signal ends the reading of a large file', async () => {
  const path = join(directory, 'large.ndjson');
  await writeFile(path, '{"name":"Rex","categoryId":1}\n'.repeat(10_000));
  const interrupt = new AbortController();
  const reading = readSeedFile(path, interrupt.signal);
  setImmediate(() => interrupt.abort('SIGINT'));
  await expect(reading).rejects.toBe('SIGINT');
});
