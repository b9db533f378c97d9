import { describe, expect, test } from 'vitest';
import { displayWidth } from '../../src/cli/output/width.ts';
import { parseJson } from '../../src/contract/json.ts';
import { answering, runAgainst } from '../helpers/in-terminal.ts';

const orders = (body: unknown, columns?: number, flags: readonly string[] = []) =>
  runAgainst(answering(typeof body === 'string' ? body : JSON.stringify(body)), ['orders', ...flags], {
    ...(columns !== undefined && { columns }),
    env: { NO_COLOR: '1' },
  });

/** A text, so that the numbers are those that are sent. */
const raw = (text: string) => text;

describe('orders on a terminal', () => {
  test.each<[string, unknown, string[], string?]>([
    [
      'objects with different fields, in a table of all of them',
      [
        { id: 1, b: 'x' },
        { id: 20, c: [1.5] },
      ],
      ['ID  B  C', ' 1  x', '20     [1.5]'],
      '2 orders',
    ],
    [
      'nested values, in a line each',
      [{ id: 1, item: { sku: 'a', tags: ['x', 'y'] }, paid: true, note: null }],
      ['ID  ITEM                          PAID  NOTE', ' 1  {"sku":"a","tags":["x","y"]}  true  null'],
      '1 order',
    ],
    [
      'a text of nothing, unlike no text',
      [{ a: '', b: ' ' }, { b: '""' }],
      ['A   B', '""  " "', '    ""'],
      '2 orders',
    ],
    [
      'numbers, to the last digit and right-aligned',
      raw('[{"n":9223372036854775807,"f":1.10},{"n":-1,"f":1e400}]'),
      ['                  N      F', '9223372036854775807   1.10', '                 -1  1e400'],
      '2 orders',
    ],
    [
      'fields that JavaScript knows otherwise',
      raw('[{"__proto__":1,"constructor":"x","toString":2,"isLosslessNumber":true},{"a":1}]'),
      [
        '__PROTO__  CONSTRUCTOR  TOSTRING  ISLOSSLESSNUMBER  A',
        '        1  x                   2  true',
        `${' '.repeat(52)}1`,
      ],
      '2 orders',
    ],
    [
      'a single object, a field in each line',
      { id: 7, total: '12.50', note: '' },
      ['FIELD  VALUE', 'id     7', 'total  12.50', 'note   ""'],
    ],
    ['a nested object, as JSON', { total: [2] }, ['{', '  "total": [', '    2', '  ]', '}']],
    ['a mixed array, as JSON', [1, { a: 2 }], ['[', '  1,', '  {', '    "a": 2', '  }', ']']],
    ['an array of arrays, as JSON', [[1], []], ['[', '  [', '    1', '  ],', '  []', ']']],
    ['objects without fields, as JSON', [{}, {}], ['[', '  {},', '  {}', ']']],
    ['an object without fields', {}, ['{}']],
    ['a text', 'none', ['"none"']],
    ['a number that no native one can hold', raw('12345678901234567890.10'), ['12345678901234567890.10']],
    ['null', null, ['null']],
  ])('%s', async (_name, body, lines, said = '') => {
    const json = typeof body === 'string' && !/^[[\d]/.test(body) ? JSON.stringify(body) : body;
    const { code, stdout, stderr } = await orders(json, 80);
    const shown = stdout.split('\n').slice(0, -1);
    expect(code).toBe(0);
    expect(shown).toEqual(lines);
    expect(stderr).toBe(said && `note: ${said}\n`);
  });

  test('none: it says so, and where', async () => {
    const { code, stdout, stderr, server } = await orders([], 80);
    expect([code, stdout]).toEqual([0, '']);
    expect(stderr).toBe(`note: there are no orders at ${new URL(server.url).host} (key from PETS_API_KEY)\n`);
  });

  test.each([40, 60, 80, 120, 200])(
    'at %i columns fields that have no room are named, the others can be read',
    async (columns) => {
      const fields = Array.from({ length: 30 }, (_, i) => `field${i}`);
      const body = [Object.fromEntries(fields.map((field) => [field, `a long value of ${field}`]))];
      const { stdout, stderr } = await orders(body, columns);
      const [head = '', row = ''] = stdout.split('\n');
      expect(displayWidth(row)).toBeLessThanOrEqual(columns);
      const shown = head.trim().split(/ +/);
      expect(shown).toEqual(fields.slice(0, shown.length).map((field) => field.toUpperCase()));
      for (const cell of row.split(/ {2}/)) expect(cell.length).toBeGreaterThanOrEqual(7);
      expect(shown.length).toBe(Math.floor((columns + 2) / 10));
      expect(stderr.replace(/\s+/g, ' ')).toContain(
        `1 order; no room for field${shown.length}, field${shown.length + 1}, `,
      );
      expect(stderr.replace(/\s+/g, ' ')).toMatch(/ and \d+ more: pets orders --json shows every field/);
    },
  );

  test('names of fields may be hostile, or longer than any line', async () => {
    const long = 'x'.repeat(500);
    const body = [
      { 'a\u001b[31m\u202e\r': 1, [long]: 2, [`${long}y`]: 'text', '': 3, 'last\u001b[2J': long },
    ];
    for (const columns of [40, 80, 200]) {
      const { stdout, stderr } = await orders(body, columns);
      expect(stdout + stderr).not.toMatch(/[\u001b\u202e\r]/);
      const lines = stdout.split('\n').slice(0, -1);
      expect(lines).toHaveLength(2);
      for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(columns);
      expect(stderr.length).toBeLessThan(400);
    }
  });

  test('ten thousand of them are a table', async () => {
    const body = Array.from({ length: 10_000 }, (_, i) => ({ id: i, note: '猫' }));
    const { stdout, stderr } = await orders(body, 80);
    const lines = stdout.split('\n');
    expect([lines.length, lines[10_000]]).toEqual([10_002, '9999  猫']);
    expect(stderr).toBe('note: 10000 orders\n');
  });

  test('nested ever deeper they are shown, or refused as no reply to this program', async () => {
    const nested = (depth: number) => `[{"a":${'['.repeat(depth)}${']'.repeat(depth)}}]`;
    const shown = await orders(nested(490), 40);
    expect([shown.code, displayWidth(shown.stdout.split('\n')[1] ?? '')]).toEqual([0, 40]);
    const refused = await orders(nested(1_000), 40);
    expect([refused.code, refused.stdout]).toEqual([7, '']);
  });
});

describe('orders for a program', () => {
  test.each<[string, string, string]>([
    ['rows', '[{"id":1,"b":"x\\ty"},{"c":{"d":[1]}}]', '1\tx\\ty\t\n\t\t{"d":[1]}\n'],
    ['a text of nothing', '[{"a":"","b":" "}]', '\t \n'],
    ['numbers', '[{"n":9223372036854775807,"f":1.10}]', '9223372036854775807\t1.10\n'],
    ['none', '[]', ''],
    ['a single object', '{"id":7}', '{"id":7}\n'],
    ['a mixed array', '[1,{"a":2}]', '[1,{"a":2}]\n'],
    ['null', 'null', 'null\n'],
  ])('%s: tab-separated where they are objects, else JSON', async (_, body, text) => {
    const { code, stdout, stderr } = await orders(raw(body));
    expect([code, stdout, stderr]).toEqual([0, text, '']);
  });

  test.each(['[{"a":"\\u001b\\u202e\\ud83d","__proto__":1.0}]', '{"__proto__":{"x":[1e400,-0]}}'])(
    '%s stays that document with --json, on a terminal too',
    async (body) => {
      for (const columns of [undefined, 40]) {
        const { stdout } = await orders(raw(body), columns, ['--json']);
        expect(parseJson(stdout)).toEqual(parseJson(body));
        if (columns) expect(stdout).not.toMatch(/[\u001b\u202e]/);
      }
    },
  );
});
