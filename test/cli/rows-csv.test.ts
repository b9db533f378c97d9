import { type RowsCase, testRows } from '../helpers/rows.ts';

const rex = { name: 'Rex', categoryId: 1n };

const CSV: RowsCase[] = [
  [''],
  ['\r\n \n'],
  ['name,categoryId'],
  ['name,categoryId\r\n'],
  ['name,categoryId\nRex,1', [2, rex]],
  ['\ufeffname,categoryId\nRex,1\n', [2, rex]],
  ['name,categoryId\r\nRex,1\r\nRex,1\r\n', [2, rex], [3, rex]],
  ['name,categoryId\rRex,1\rRex,1', [2, rex], [3, rex]],
  ['name,categoryId\nRex,1\r\nRex,1\rRex,1\n\rRex,1', [2, rex], [3, rex], [4, rex], [6, rex]],
  ['\r\n \n\rname,categoryId\n\n\r\nRex,1\n  \n,\nRex,1\n\n', [7, rex], [10, rex]],
  ['name,categoryId\n"a\nb\r\nc\rd",1\nRex,1\n', [2, { ...rex, name: 'a\nb\r\nc\rd' }], [6, rex]],
  ['name,categoryId\n"a\rb",1\nRex,1\n', [2, { ...rex, name: 'a\rb' }], [4, rex]],
  ['"na\nme",name,categoryId\n,Rex,1\n', [3, rex]],
  ['categoryId,status,name\n1,sold,Rex\n', [2, { ...rex, status: 'sold' }]],
  ['name,category,status,id\nRex,1,,\n', [2, rex]],
  ['name,category\n,1\n"",1\n', [2, { ...rex, name: '' }], [3, { ...rex, name: '' }]],
  ["name,category\n'=1+1,1\n'Rex,1\n", [2, { ...rex, name: '=1+1' }], [3, { ...rex, name: "'Rex" }]],
  ['name,category\n007,9223372036854775807\n', [2, { name: '007', categoryId: 9223372036854775807n }]],
  ['name,category\nRex,1e3\nRex,01\n', [2, { ...rex, categoryId: '1e3' }], [3, { ...rex, categoryId: '01' }]],
  [
    'name,category,status\nRex,1,5\nRex,1,Available\nRex, 1 , SOLD \nRex,1, \nRex,1,Sold out\n',
    [2, { ...rex, status: '5' }],
    [3, { ...rex, status: 'available' }],
    [4, { ...rex, status: 'sold' }],
    [5, rex],
    [6, { ...rex, status: 'Sold out' }],
  ],
  [
    'name;category;id\nRex; ;\nRex;1,5; 7\n',
    [2, { name: 'Rex' }],
    [3, { name: 'Rex', categoryId: '1,5', id: 7n }],
  ],
  ['name,category, Colour ,Age\nRex,1,red,7\n', [2, { ...rex, Colour: 'red', Age: 7n }]],
  ['name,category,,\nRex,1,,\n', [2, rex]],
  ['name,category\n"say ""hi""",1\n', [2, { ...rex, name: 'say "hi"' }]],
  ['name,category\nFürst 🐈‍⬛,1\n', [2, { ...rex, name: 'Fürst 🐈‍⬛' }]],
  [
    'name,category\nRex\nRex,1\nRex,1,2\n"R\nex",1,\nRex,1',
    [2, 'expected 2 columns, found 1: Rex'],
    [3, rex],
    [4, 'expected 2 columns, found 3: Rex,1,2'],
    [5, 'expected 2 columns, found 3: R\\nex,1,'],
    [7, rex],
  ],
  [
    'name,category\nRex,1\n\n"Rex,1\nRex,1\n',
    [2, rex],
    [4, 'invalid CSV: a quote opened on this line is never closed'],
  ],
  [
    'name,category\nRex,1\n"Rex,1\n"Rex",1\n',
    [2, rex],
    [3, 'invalid CSV: text after a closing quote, or an unclosed quote'],
  ],
  ['name,category\nRex,1\n6" snake,1\n', [2, rex], [3, 'invalid CSV: a quote inside an unquoted cell']],
];

testRows('csv', CSV);
