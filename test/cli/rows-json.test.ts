import { expect } from 'vitest';
import { type RowsCase, testRows } from '../helpers/rows.ts';

const one = { name: 'Rex', categoryId: 1 };
const json = JSON.stringify(one);

const NDJSON: RowsCase[] = [
  [''],
  ['\n \r\n'],
  [json, [1, one]],
  [`\ufeff${json}\n`, [1, one]],
  [`${json}\r\n\r\n \n${json}\r\n`, [1, one], [4, one]],
  ['{"id":9007199254740993,"name":"a\\nb é🐈"}\n', [1, { id: 9007199254740993n, name: 'a\nb é🐈' }]],
  ['7\nnull\n[1]\n', [1, 7], [2, null], [3, [1]]],
  [`${json}\n{"name":\n\n${json}\n`, [1, one], [2, 'invalid JSON: Unexpected end of JSON input'], [4, one]],
  [
    `${'['.repeat(501)}${']'.repeat(501)}\n${json}`,
    [1, 'invalid JSON: nested deeper than 500 levels'],
    [2, one],
  ],
];

testRows('ndjson', NDJSON);

const JSON_ARRAYS: RowsCase[] = [
  [''],
  [' \n'],
  ['[]'],
  ['\ufeff \r\n[\n]\n '],
  [`[${json}]`, [1, one]],
  [`[\r\n  ${json},\r\n\r\n  ${json}\r\n  ,${json}]\n`, [2, one], [4, one], [5, one]],
  ['[{\n"a":\n{"b":[1,\n2]}},\n{}]', [1, { a: { b: [1, 2] } }], [5, {}]],
  [
    '[{"a":"]},[{"},{"b":"\\"]\\\\"},{"c":"\\\\\\""}]',
    [1, { a: ']},[{' }],
    [1, { b: '"]\\' }],
    [1, { c: '\\"' }],
  ],
  ['[{"é🐈":"ü"}]', [1, { 'é🐈': 'ü' }]],
  [
    '[9007199254740993,"a,b",null,true,[],-1 ]',
    ...[9007199254740993n, 'a,b', null, true, [], -1].map((value): [number, unknown] => [1, value]),
  ],
  ['{}', [1, 'not a JSON array']],
  ['\n7', [2, 'not a JSON array']],
  ['[1]\n\n[2]', [1, 1], [3, 'invalid JSON: text after the array']],
  ['[1]]', [1, 1], [1, 'invalid JSON: text after the array']],
  ['[1,\n]', [1, 1], [2, 'invalid JSON: a value is missing before or after a comma']],
  ['[,1]', [1, 'invalid JSON: a value is missing before or after a comma']],
  ['[1,,2]', [1, 1], [1, 'invalid JSON: a value is missing before or after a comma']],
  ['\n[', [2, 'invalid JSON: the array is not closed']],
  ['[1,', [1, 1], [1, 'invalid JSON: the array is not closed']],
  ['[1,\n{}\n', [1, 1], [2, 'invalid JSON: the array is not closed']],
  ['[1,\n{"a":\n', [1, 1], [2, 'invalid JSON: Unexpected end of JSON input']],
  ['['.repeat(600), [1, 'invalid JSON: nested deeper than 500 levels']],
  ['[1,\n{"a":},2]', [1, 1], [2, expect.stringMatching(/^invalid JSON: Unexpected token/)]],
  ['[1 2]', [1, expect.stringMatching(/^invalid JSON: /)]],
  ['[{}},3]', [1, expect.stringMatching(/^invalid JSON: /)]],
  ['[1,\f2]', [1, 1], [1, expect.stringMatching(/^invalid JSON: /)]],
];

testRows('json', JSON_ARRAYS);
