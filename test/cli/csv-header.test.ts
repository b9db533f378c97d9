import { describe, expect, test } from 'vitest';
import { inShort, rowsOf, testRows } from '../helpers/rows.ts';

const rex = { name: 'Rex', categoryId: 1n };
const NEEDED = '(needed: name, category; optional: status)';

const example = (text: string) => `the first line must name the columns, for example: ${text}`;

describe('a header that cannot be used is told with its columns, and what it lacks', () => {
  testRows('csv', [
    [
      'Name;Kategorie;Status\nRex;1;sold\n',
      [[1, `has the columns Name, Kategorie, Status: one is missing, category ${NEEDED}`]],
    ],
    ['\nname\nRex\n', [[2, `has the columns name: one is missing, category ${NEEDED}`]]],
    ['nom,id\nRex,1\n', [[1, `has the columns nom, id: two are missing, name and category ${NEEDED}`]]],
    [
      'name,category;x\nRex,1\n',
      [[1, `has the columns name, category;x: one is missing, category ${NEEDED}`]],
    ],
    ['name,,\nRex,1,\n', [[1, `has the columns name: one is missing, category ${NEEDED}`]]],
    [
      'name,category,Category_Id\nRex,1,2\n',
      [[1, 'the column category stands twice: category, Category_Id']],
    ],
    ['name,category,Name\nRex,1,Bob\n', [[1, 'the column name stands twice: name, Name']]],
    ['name,category,,Age,,age\nRex,1,,2,,3\n', [[1, 'the column age stands twice: Age, age']]],
  ]);
});

describe('where no column is known, the first line is taken for data, and an example shown', () => {
  testRows('csv', [
    [
      'Rex,1,available\nBella,2,sold\n',
      [[1, `has no column that is known (Rex, 1, available): ${example('name,category,status')}`]],
    ],
    ['Rex;1\n', [[1, `has no column that is known (Rex, 1): ${example('name;category;status')}`]]],
    [
      'Rex\t1\n',
      [[1, `has no column that is known (Rex, 1): ${example('name category status (a tab between two)')}`]],
    ],
  ]);
});

describe('a header that stands too low is found, whatever separates its columns', () => {
  testRows('csv', [
    [
      'Our animals\n\nname,category\nRex,1\n',
      [[1, 'is not the header, which stands in line 3: remove what is above it']],
    ],
    [
      'Our animals,,\nas of May,,\nStatus;Name;Category ID\n;Rex;1\n',
      [[1, 'is not the header, which stands in line 3: remove what is above it']],
    ],
    [
      'Our animals\nname\tcategory\nRex\t1\n',
      [[1, 'is not the header, which stands in line 2: remove what is above it']],
    ],
  ]);

  test('it is looked for in the next ten rows', async () => {
    const below = (rows: number) => rowsOf('csv', `Animals\n${'x,y\n'.repeat(rows)}name,category\nRex,1\n`);
    expect(inShort(await below(9))).toEqual([[1, expect.stringContaining('stands in line 11')]]);
    expect(inShort(await below(10))).toEqual([[1, expect.stringContaining('no column that is known')]]);
  });
});

describe('names of columns: in any capitals, with spaces around, and category with its id', () => {
  testRows('csv', [
    [' NAME ,"Category",Status\nRex,1,sold\n', [[2, { ...rex, status: 'sold' }]]],
    ['CATEGORY_ID,ID,name\n1,2,Rex\n', [[2, { ...rex, id: 2n }]]],
    ['Category ID,Name\n1,Rex\n', [[2, rex]]],
    ['category-id,name\n1,Rex\n', [[2, rex]]],
    ['categoryId,name\n1,Rex\n', [[2, rex]]],
  ]);
});

describe('columns are separated by what stands most often between their names', () => {
  testRows('csv', [
    ['name;category\nRex, the first;1\n', [[2, { ...rex, name: 'Rex, the first' }]]],
    ['name\tcategory\nRex, the first\t1\n', [[2, { ...rex, name: 'Rex, the first' }]]],
    ['\tname\tcategory\n1\tRex\t1\n', [[2, { '': 1n, ...rex }]]],
    ['name\tcategory\tFur; colour\nRex\t1\t\n', [[2, rex]]],
    ['"a;b;c;d",name,category\n,Rex,1\n', [[2, rex]]],
    ['name,category\nA;B,1\n', [[2, { ...rex, name: 'A;B' }]]],
    ['\n\nname;category', []],
  ]);
});

describe('a first line sep= names the separator, and is a line of the file', () => {
  testRows('csv', [
    ['sep=;\r\nname;category\r\nRex;1\r\n', [[3, rex]]],
    ['\ufeffSEP=,\n\n name,category\nRex,1\n', [[4, rex]]],
    ['\n"sep=\t"\r\r\nname\tcategory\rRex\t1', [[5, rex]]],
    ['sep=|\nname|category\nRex;|1\n', [[3, { ...rex, name: 'Rex;' }]]],
    ['sep=;\nname,category\nRex,1\n', [[2, expect.stringContaining('no column that is known')]]],
    ['sep=;', [[1, expect.stringContaining('no column that is known')]]],
    ['sep=;\n', []],
  ]);
});

test('a long header is cut, and cannot steer a terminal', async () => {
  const [row] = inShort(await rowsOf('csv', `name,\x1b[31m${'x'.repeat(200)}\n`));
  expect(row?.[1]).toMatch(/^has the columns name, \\x1b\[31mx{70,90}…: one is missing/);
});
