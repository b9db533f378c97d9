import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { parseJson } from '../../src/contract/json.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';

/** Runs `pets orders`. A body that is a string is sent unchanged, so that its numbers keep all digits. */
const orders = (body: unknown, columns?: number, flags: readonly string[] = []) =>
  runAgainst(respondWith(typeof body === 'string' ? body : JSON.stringify(body)), ['orders', ...flags], {
    ...(columns !== undefined && { columns }),
    env: { NO_COLOR: '1' },
  });

describe('orders on a terminal', () => {
  test.each<[string, unknown, string[], string?]>([
    [
      'objects with different fields are a table of all fields',
      [
        { id: 1, b: 'x' },
        { id: 20, c: [1.5] },
      ],
      ['ID  B  C', ' 1  x', '20     [1.5]'],
      '2 orders',
    ],
    [
      'nested values are on one line',
      [{ id: 1, item: { sku: 'a', tags: ['x', 'y'] }, paid: true, note: null }],
      ['ID  ITEM                          PAID  NOTE', ' 1  {"sku":"a","tags":["x","y"]}  true'],
      '1 order',
    ],
    [
      'an empty string differs from a missing field',
      [{ a: '', b: ' ' }, { b: '""' }],
      ['A   B', '""  " "', '    ""'],
      '2 orders',
    ],
    [
      'numbers are exact and right-aligned',
      '[{"n":9223372036854775807,"f":1.10},{"n":-1,"f":1e400}]',
      ['                  N      F', '9223372036854775807   1.10', '                 -1  1e400'],
      '2 orders',
    ],
    [
      'fields may have the names of built-in properties',
      '[{"__proto__":1,"constructor":"x","toString":2,"isLosslessNumber":true},{"a":1}]',
      [
        '__PROTO__  CONSTRUCTOR  TOSTRING  ISLOSSLESSNUMBER  A',
        '        1  x                   2  true',
        `${' '.repeat(52)}1`,
      ],
      '2 orders',
    ],
    ['a nested object, as JSON', { total: [2] }, ['{', '  "total": [', '    2', '  ]', '}']],
    ['a mixed array, as JSON', [1, { a: 2 }], ['[', '  1,', '  {', '    "a": 2', '  }', ']']],
    ['an array of arrays, as JSON', [[1], []], ['[', '  [', '    1', '  ],', '  []', ']']],
    ['objects without fields', [{}, {}], [], '2 orders'],
    ['an object without fields', {}, ['{}']],
    ['a string', '"none"', ['"none"']],
    [
      'a number that a JavaScript number cannot represent',
      '12345678901234567890.10',
      ['12345678901234567890.10'],
    ],
    ['null', null, ['null']],
  ])('%s', async (_name, body, lines, note = '') => {
    const { code, stdout, stderr } = await orders(body, 80);
    const shown = stdout.split('\n').slice(0, -1);
    expect(code).toBe(0);
    expect(shown).toEqual(lines);
    expect(stderr).toBe(note && `note: ${note}\n`);
  });

  test('for an empty list, the note names the service', async () => {
    const { code, stdout, stderr, server } = await orders([], 80);
    expect([code, stdout]).toEqual([0, '']);
    expect(stderr).toBe(`note: no orders at ${new URL(server.url).host} (key from PETS_API_KEY)\n`);
  });

  test.each([40, 60, 80, 120, 200])(
    'at %i columns, the note names the fields that do not fit',
    async (columns) => {
      const fields = Array.from({ length: 30 }, (_, i) => `field${i}`);
      const body = [Object.fromEntries(fields.map((field) => [field, `a long value of ${field}`]))];
      const { stdout, stderr } = await orders(body, columns);
      const [head = '', row = ''] = stdout.split('\n');
      expect(stringWidth(row)).toBeLessThanOrEqual(columns);
      const shown = head.trim().split(/ +/);
      expect(shown).toEqual(fields.slice(0, shown.length).map((field) => field.toUpperCase()));
      for (const cell of row.split(/ {2}/)) expect(cell.length).toBeGreaterThanOrEqual(7);
      expect(shown.length).toBe(Math.floor((columns + 2) / 10));
      expect(stderr.replace(/\s+/g, ' ')).toContain(
        `1 order; fields not shown: field${shown.length}, field${shown.length + 1}, `,
      );
      expect(stderr.replace(/\s+/g, ' ')).toMatch(/ and \d+ more; for all fields, add --json/);
    },
  );

  test('field names may have control characters or be longer than a line', async () => {
    const long = 'x'.repeat(500);
    const fields = ['a\u001b[31m\u202e\r', long, `${long}y`, '', `last\u001b[2J${long}`];
    const body = [Object.fromEntries(fields.map((field) => [field, long]))];
    for (const columns of [40, 80, 200]) {
      const { stdout, stderr } = await orders(body, columns);
      expect(stdout + stderr).not.toMatch(/[\u001b\u202e\r]/);
      const lines = stdout.split('\n').slice(0, -1);
      expect(lines).toHaveLength(2);
      for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
      expect(stderr.length).toBeLessThan(400);
    }
  });
});

describe('orders in a pipe', () => {
  test.each<[string, string, string]>([
    ['rows', '[{"id":1,"b":"x\\ty"},{"c":{"d":[1]}}]', '1\tx\\ty\t\n\t\t{"d":[1]}\n'],
    ['empty and blank strings', '[{"a":"","b":" "}]', '\t \n'],
    ['numbers', '[{"n":9223372036854775807,"f":1.10}]', '9223372036854775807\t1.10\n'],
    ['an empty list', '[]', ''],
    ['a single object', '{"id":7}', '{"id":7}\n'],
    ['a mixed array', '[1,{"a":2}]', '[1,{"a":2}]\n'],
    ['null', 'null', 'null\n'],
    ['control characters in rows', '[{"a":"\u202e\u009b"}]', '\\u202e\\x9b\n'],
    ['control characters in a mixed array', '[{"a\u202e":"\u009b"},5]', '[{"a\\u202e":"\\u009b"},5]\n'],
  ])('%s: objects as tab-separated values, anything else as JSON', async (_, body, text) => {
    const { code, stdout, stderr } = await orders(body);
    expect([code, stdout, stderr]).toEqual([0, text, '']);
  });

  test.each(['[{"a":"\\u001b\\u202e\\ud83d","__proto__":1.0}]', '{"__proto__":{"x":[1e400,-0]}}'])(
    '%s keeps its value with --json, also on a terminal',
    async (body) => {
      for (const columns of [undefined, 40]) {
        const { stdout } = await orders(body, columns, ['--json']);
        expect(parseJson(stdout)).toEqual(parseJson(body));
        if (columns) expect(stdout).not.toMatch(/[\u001b\u202e]/);
      }
    },
  );
});
