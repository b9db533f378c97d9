import { describe, expect, test } from 'vitest';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';

const ORDERS = `[
  {"id":1,"placedAt":"2026-11-18T22:59:59.999Z","status":"delivered","animals":[3,7],"amount":12.50,"customer":"Zoë"},
  {"id":2,"placedAt":"2026-11-18T23:00:00Z","status":"placed","animals":[7],"amount":9.5,"customer":"ada"},
  {"id":3,"placedAt":"2026-11-20T00:00:00+01:00","status":"placed","animals":[],"amount":"100.005","customer":{"name":"Zadie"}},
  {"id":9223372036854775807,"placedAt":null,"status":"","animals":[10],"amount":null,"paid":true}
]`;

type Run = { body?: string; columns?: number; timeZone?: string };

/** Runs `pets orders` at 12:00 UTC on 20 November 2026, by default in Berlin. */
const run = (argv: readonly string[], { body = ORDERS, columns, timeZone = 'Europe/Berlin' }: Run = {}) =>
  runAgainst(respondWith(body), ['orders', ...argv], {
    timeZone,
    env: { NO_COLOR: '1' },
    ...(columns !== undefined && { columns }),
  });

async function idsOf(argv: readonly string[], options?: Run): Promise<string> {
  const { code, stdout } = await run([...argv, '--columns', 'id'], options);
  expect(code).toBe(0);
  return stdout.trimEnd().split('\n').join(' ');
}

const BIG = '9223372036854775807';

test.each<[string[], ids: string]>([
  [['status=placed'], '2 3'],
  [['status=placed', 'id=3'], '3'],
  [['status='], BIG],
  [['id=9223372036854775806'], ''],
  [['amount=9.5'], '2'],
  [['amount=100.005'], '3'],
  [['animals=7'], '1 2'],
  [['customer={"name":"Zadie"}'], '3'],
])('--where %j selects the orders %j', async (conditions, ids) => {
  expect(await idsOf(conditions.flatMap((condition) => ['--where', condition]))).toBe(ids);
});

test.each<[string[], ids: string]>([
  [['--since', 'yesterday', '--until', 'today'], '2'],
  [['--since', '2026-11-19', '--until', '2026-11-20'], '2'],
  [['--since', '2026-11-18T22:59:59.999Z', '--until', '2026-11-18T23:00:00Z'], '1'],
  [['--since', '2026-11-20 00:00:00.001'], ''],
  [['--since', 'yesterday', '--where', 'animals=7'], '2'],
])('%j selects the orders %j', async (argv, ids) => {
  expect(await idsOf(argv)).toBe(ids);
});

test('a date without a zone is local', async () => {
  expect(await idsOf(['--since', '2026-11-19'], { timeZone: 'UTC' })).toEqual('3');
  const body = '[{"id":1,"day":"2026-11-19"},{"id":2,"day":"2026-11-20T01:00"}]';
  expect(await idsOf(['--since', '2026-11-20T00:30+01:00'], { body })).toEqual('2');
  expect(await idsOf(['--since', '2026-11-20T00:30+00:00'], { body })).toEqual('');
});

test('--since and --until use the first field that has only times', async () => {
  const body = `[
    {"id":1,"note":"2026","placedAt":"2026-11-18T10:00Z","shippedAt":"2026-11-20T10:00Z"},
    {"id":2,"note":"x","placedAt":"2026-11-19T10:00Z","shippedAt":null}
  ]`;
  expect(await idsOf(['--since', '2026-11-19'], { body })).toBe('2');
  const { stderr } = await run(['--since', '2026-11-19'], { body, columns: 200 });
  expect(stderr).toContain('note: 1 of 2 orders, placedAt since 2026-11-19 00:00:00 CET\n');
});

test('ids as arguments select orders, and a missing one is exit code 3 after the others', async () => {
  expect(await idsOf([BIG, '2'])).toBe(`2 ${BIG}`);
  expect(await idsOf(['2', '3', '--where', 'animals=7'])).toBe('2');
  const ran = await run(['2', '1007', '--columns', 'id']);
  expect([ran.code, ran.stdout]).toEqual([3, '2\n']);
  expect(ran.stderr).toContain('error: no order with id 1007\n  → to list all: pets orders');
  const none = await run(['yesterday', '--json']);
  expect([none.code, none.stdout]).toEqual([3, '']);
  expect(none.stderr).toContain('by time: pets orders --since yesterday --until today');
});

test.each<[string, string, string, body?: string]>([
  ['amount', 'numbers, also as text, by value, and missing ones last', `2 1 3 ${BIG}`],
  ['amount:desc', 'missing values last, also in descending order', `3 1 2 ${BIG}`],
  ['id:desc', 'exact numbers', `${BIG} 3 2 1`],
  ['customer', 'text by the root collation, after JSON', `3 2 1 ${BIG}`],
  ['status', 'equal values in the order of the service', `${BIG} 1 2 3`],
  ['dc:date:asc', 'a field whose name has a colon', '2 1', '[{"id":1,"dc:date":"b"},{"id":2,"dc:date":"a"}]'],
])('--sort %s sorts %s', async (field, _, ids, body = ORDERS) => {
  expect(await idsOf(['--sort', field], { body })).toBe(ids);
});

test('--sort puts numbers before text', async () => {
  const values = '"b" true "2026-01-02" 2 "10" "2026-01-01T23:00" 9007199254740993 9007199254740992.5'.split(
    ' ',
  );
  const body = `[${values.map((value) => `{"v":${value}}`).join()}]`;
  const { stdout } = await run(['--sort', 'v'], { body });
  const sorted = '2 10 9007199254740992.5 9007199254740993 2026-01-01T23:00 2026-01-02 b true';
  expect(stdout.trimEnd().split('\n').join(' ')).toBe(sorted);
});

test.each<[string[], string]>([
  [[], '4 orders'],
  [['--where', 'status=placed', '--where', 'animals=7'], '1 of 4 orders, status=placed, animals=7'],
  [
    ['--since', 'yesterday', '--until', 'today'],
    '1 of 4 orders, placedAt since 2026-11-19 00:00:00 CET, placedAt before 2026-11-20 00:00:00 CET',
  ],
  // If there are no orders with a value, the note says which values can be selected.
  [['--where', 'status=Placed'], '0 of 4 orders, status=Placed (the values are: delivered, placed, )'],
])('on a terminal, the note below the orders for %j is: %s', async (argv, note) => {
  const { code, stderr } = await run(argv, { columns: 200 });
  expect([code, stderr]).toEqual([0, expect.stringContaining(`note: ${note}\n`)]);
});

describe('times in orders', () => {
  const body =
    '[{"id":1,"at":"2026-11-20T23:30:05.5Z","on":"2026-11-20","local":"2026-11-20T23:30","log":["2026-11-20T23:30:00Z"]},{"id":2,"at":"2026-07-01T10:00:00-05:00"}]';
  const sent = '2026-11-20T23:30:05.5Z';

  test('are local on a terminal if they have a zone', async () => {
    const { stdout } = await run(['--columns', 'at,on,local,log'], { body, columns: 200 });
    expect(stdout).toBe(
      [
        'AT                        ON          LOCAL             LOG',
        '2026-11-21 00:30:05 CET   2026-11-20  2026-11-20T23:30  ["2026-11-20T23:30:00Z"]',
        '2026-07-01 17:00:00 CEST',
        '',
      ].join('\n'),
    );
  });

  const formats = [[], ['--csv'], ['--json'], ['--ndjson']];
  test.each(formats)('are elsewhere as the service sent them: %s %s', async (...argv) => {
    const list = ['--columns', 'at', ...argv];
    expect((await run(list, { body })).stdout).toContain(sent);
    if (argv.length === 1) expect((await run(list, { body, columns: 80 })).stdout).toContain(sent);
  });
});

test('--since: a note counts the orders without a time', async () => {
  const { stderr } = await run(['--since', '2026-01-01']);
  expect(stderr).toBe('note: left out 1 order without a time in placedAt\n');
  expect((await run(['--since', '2026-01-01', '--quiet'])).stderr).toBe('');
});

test('a narrow terminal leaves out columns, but does not cut times', async () => {
  const body =
    '[{"id":1007,"placedAt":"2026-11-20T10:00:00Z","status":"delivered","note":"a long note for the till","done":"2026-11-20T11:00:00Z"}]';
  const { stdout, stderr } = await run([], { body, columns: 50 });
  expect(stdout).toContain('2026-11-20 11:00:00 CET');
  expect(stdout).not.toContain('…:');
  expect(stderr.replace(/\s+/g, ' ')).toContain('fields not shown: done; they need a wider terminal');
});

test.each<[string, string[], string]>([
  ['[{"a":1,"b":1},{"a":2}]', ['--where', 'a=2', '--csv'], 'a,b\r\n2,\r\n'],
  ['[{"a":1,"b":1},{"a":2}]', ['--where', 'a=2', '--where', 'b=3', '--csv'], 'a,b\r\n'],
  ['[]', ['--where', 'a=1', '--since', '7d', '--sort', 'a', '--columns', 'a'], ''],
  ['{"a":[1.0]}', ['--ndjson'], '{"a":[1.0]}\n'],
  ['[{"id":1,"b":"x\\ty"},{"c":{"d":[1]}}]', [], '1\tx\\ty\t\n\t\t{"d":[1]}\n'],
  ['[{"a\u202e":"\u009b"},5]', [], '[{"a\\u202e":"\\u009b"},5]\n'],
])('in a pipe, the body %s with %j is printed as %j', async (body, argv, text) => {
  const { code, stdout, stderr } = await run(argv, { body });
  expect([code, stdout, stderr]).toEqual([0, text, '']);
});

test.each<[string, string[], string?]>([
  ['{"orders":[]}', ['--where', 'a=1']],
  ['[1,{"a":2}]', ['--since', '7d']],
  ['[[]]', ['7']],
  ['[{"id":1,"at":"soon"}]', ['--since', '7d'], 'no field of the orders contains only times'],
])('options that need fields are exit code 1 if the body is %s: %j', async (body, argv, error) => {
  const { code, stdout, stderr } = await run(argv, { body });
  expect([code, stdout]).toEqual([1, '']);
  const reason = error ?? 'the orders are not a list of JSON objects';
  expect(stderr).toContain(`cannot select or format the orders in this way: ${reason}`);
});

test.each<[string[], string]>([
  [['--where', 'status!=x'], '--where must be <field>=<value> (only =, no != or >=), not "status!=x"'],
  [['--since', '20.11.2026'], '--since must be today, yesterday'],
  [['--since', 'today', '--until', 'today'], '--since must be before --until'],
  [['--columns', 'id,nope'], '--columns: no order has the field nope'],
  [['--where', 'statsu=placed'], 'use one of these fields: id, placedAt, status'],
  [['--columns', 'a,,b'], '--columns must not contain an empty field name'],
  [['--columns', 'a,a'], '--columns must not name a field twice'],
])('%j is exit code 2', async (argv, message) => {
  const { code, stdout, stderr } = await run(argv);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(message);
});

test.each<[string, string, string[], string?]>([
  [
    'objects with different fields are a table of all fields, with nested values on one line',
    '[{"id":1,"b":"x"},{"id":20,"c":[1.5,{"x":null}]},{"c":null}]',
    ['ID  B  C', ' 1  x', '20     [1.5,{"x":null}]', ''],
    '3 orders',
  ],
  ['a number with all its digits', '12345678901234567890.10', ['12345678901234567890.10']],
])('orders on a terminal: %s', async (_name, body, lines, note = '') => {
  const { code, stdout, stderr } = await run([], { body, columns: 80 });
  expect([code, stdout]).toEqual([0, lines.map((line) => `${line}\n`).join('')]);
  expect(stderr).toBe(note && `note: ${note}\n`);
});
