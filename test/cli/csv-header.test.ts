import { describe, expect, test } from 'vitest';
import { inShort, rowsOf, testRows } from '../helpers/rows.ts';

const rex = { name: 'Rex', categoryId: 1n };
const NEEDED = '(required: name, category; optional: status)';

const example = (text: string) => `the first line must name the columns, for example: ${text}`;

describe('a header that cannot be used names the columns found and those missing', () => {
  testRows('csv', [
    [
      'Name;Kategorie;Status\nRex;1;sold\n',
      [1, `missing column category; found: Name, Kategorie, Status ${NEEDED}`],
    ],
    ['\nname\nRex\n', [2, `missing column category; found: name ${NEEDED}`]],
    ['nom,id\nRex,1\n', [1, `missing column name and category; found: nom, id ${NEEDED}`]],
    ['name,category;x\nRex,1\n', [1, `missing column category; found: name, category;x ${NEEDED}`]],
    ['name,,\nRex,1,\n', [1, `missing column category; found: name ${NEEDED}`]],
    [
      'name,category,Category_Id\nRex,1,2\n',
      [1, 'columns category and Category_Id both mean "category"; remove one'],
    ],
    ['name,category,Name\nRex,1,Bob\n', [1, 'columns name and Name both mean "name"; remove one']],
    ['name,category,,Age,,age\nRex,1,,2,,3\n', [1, 'columns Age and age both mean "age"; remove one']],
  ]);
});

describe('if no column is known, the error shows an example of a header', () => {
  testRows('csv', [
    [
      'Rex,1,available\nBella,2,sold\n',
      [1, `unknown columns: Rex, 1, available; ${example('name,category,status')}`],
    ],
    ['Rex;1\n', [1, `unknown columns: Rex, 1; ${example('name;category;status')}`]],
    ['Rex\t1\n', [1, `unknown columns: Rex, 1; ${example('name category status (separated by tabs)')}`]],
  ]);
});

describe('a header below other lines is found, with any delimiter, and refused with its line', () => {
  testRows('csv', [
    [
      'Our animals\n\nname,category\nRex,1\n',
      [1, 'this line is not a header; the header is on line 3, so remove the lines above it'],
    ],
    [
      'Our animals,,\nas of May,,\nStatus;Name;Category ID\n;Rex;1\n',
      [1, 'this line is not a header; the header is on line 3, so remove the lines above it'],
    ],
    [
      'Our animals\nname\tcategory\nRex\t1\n',
      [1, 'this line is not a header; the header is on line 2, so remove the lines above it'],
    ],
  ]);

  test('it is searched for in the next ten rows', () => {
    const below = (rows: number) => rowsOf('csv', `Animals\n${'x,y\n'.repeat(rows)}name,category\nRex,1\n`);
    expect(inShort(below(9))).toEqual([[1, expect.stringContaining('is on line 11')]]);
    expect(inShort(below(10))).toEqual([[1, expect.stringContaining('unknown columns')]]);
  });
});

describe('column names may be in any case, with spaces around them; category may be called category id', () => {
  testRows('csv', [
    [' NAME ,"Category",Status\nRex,1,sold\n', [2, { ...rex, status: 'sold' }]],
    ['CATEGORY_ID,ID,name\n1,2,Rex\n', [2, { ...rex, id: 2n }]],
    ['Category ID,Name\n1,Rex\n', [2, rex]],
    ['category-id,name\n1,Rex\n', [2, rex]],
    ['categoryId,name\n1,Rex\n', [2, rex]],
  ]);
});

describe('the delimiter is the one that occurs most often in the header, outside quotes', () => {
  testRows('csv', [
    ['name;category\nRex, the first;1\n', [2, { ...rex, name: 'Rex, the first' }]],
    ['name\tcategory\nRex, the first\t1\n', [2, { ...rex, name: 'Rex, the first' }]],
    ['\tname\tcategory\n1\tRex\t1\n', [2, { '': 1n, ...rex }]],
    ['name\tcategory\tFur; colour\nRex\t1\t\n', [2, rex]],
    ['"a;b;c;d",name,category\n,Rex,1\n', [2, rex]],
    ['name,category\nA;B,1\n', [2, { ...rex, name: 'A;B' }]],
    ['\n\nname;category'],
  ]);
});

describe('a first line sep= sets the delimiter and counts as a line', () => {
  testRows('csv', [
    ['sep=;\r\nname;category\r\nRex;1\r\n', [3, rex]],
    ['\ufeffSEP=,\n\n name,category\nRex,1\n', [4, rex]],
    ['\n"sep=\t"\r\r\nname\tcategory\rRex\t1', [5, rex]],
    ['sep=|\nname|category\nRex;|1\n', [3, { ...rex, name: 'Rex;' }]],
    ['sep=;\nname,category\nRex,1\n', [2, expect.stringContaining('unknown columns')]],
    ['sep=;', [1, expect.stringContaining('unknown columns')]],
    ['sep=;\n'],
  ]);
});

test('a long header is cut, and control characters are escaped', () => {
  const [row] = inShort(rowsOf('csv', `name,\x1b[31m${'x'.repeat(200)}\n`));
  expect(row?.[1]).toMatch(/^missing column category; found: name, \\x1b\[31mx{70,90}… \(required/);
});
