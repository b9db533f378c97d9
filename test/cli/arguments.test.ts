import { describe, expect, test } from 'vitest';
import {
  ArgumentError,
  integer,
  parseInt64Argument,
  parseWith,
  seconds,
} from '../../src/cli/core/parsers.ts';
import { createProgram, flagsOf } from '../../src/cli/program/declare.ts';
import { PetStatus } from '../../src/contract/schemas.ts';
import { freshMachine } from '../helpers/pets.ts';

const INT64_MAX = '9223372036854775807';
const INT64_MIN = '-9223372036854775808';

/** The name of a parser, the parser, the value of each accepted text, and the refused texts, separated by `|`. */
type Row = [string, (text: string) => unknown, accepted: Record<string, unknown>, refused: string];

describe.each<Row>([
  [
    'int64',
    parseInt64Argument,
    {
      [INT64_MAX]: 2n ** 63n - 1n,
      [INT64_MIN]: -(2n ** 63n),
      '0': 0n,
      '9007199254740993': 9007199254740993n,
    },
    '|9223372036854775808|-9223372036854775809| 1|1 |01|007|+1|-0|1e3|1.0|1.5|0x10|1_000|3,000|three|١',
  ],
  ['a status', parseWith(PetStatus), { sold: 'sold' }, '|Sold|lost|available,sold'],
  [
    'seconds',
    seconds(0),
    { '0': 0, '0.5': 0.5, '75': 75, '1000000': 1_000_000 },
    '|-1|1e3|1e9|1000000.001|1000001|99999999999|.5|5.|0.0001|1.2345|0x1|soon|Infinity|NaN',
  ],
  ['seconds above zero', seconds(0.001), { '0.001': 0.001, '30': 30 }, '0|0.000'],
  [
    'an integer in a range',
    integer(0, 65_535),
    { '0': 0, '65535': 65_535 },
    '|65536|-1|1.5|80.5|0x50| 1|1e3|http',
  ],
  [
    'an integer with many digits',
    integer(1, 1e15),
    { '1000000000000000': 1e15 },
    '1000000000000001|0|99999999999999999',
  ],
])('%s', (_name, parse, accepted, refused) => {
  test.each(Object.entries(accepted))('accepts %j', (text, value) => {
    expect(parse(text)).toBe(value);
  });

  test.each(refused.split('|'))('refuses %j', (text) => {
    expect(() => parse(text)).toThrow(ArgumentError);
    expect(() => parse(text)).toThrow(/^must be /);
  });
});

test.each([
  [['list', '--json'], { json: true, debug: false }],
  [['--debug', 'list'], { json: false, debug: true }],
  [['serve', '--', 'tool', '--json', '--debug'], { json: false, debug: false }],
  [['list', '--color', 'never', '--limit', '0'], { color: 'never' }],
  [['--color=always', 'list'], { color: 'always' }],
  [['list', '--color', 'pink'], { color: 'auto' }],
  [['list'], { color: 'auto' }],
  [['--max-wait', 'x', 'list', '--nothing', '--json'], { json: true }],
])('the flags for errors of %j', (argv, expected) => {
  const program = createProgram();
  program.parseOptions(argv);
  expect(flagsOf(program)).toMatchObject(expected);
});

test.each([
  [`pets add "$(printf 'Zo\\353')" --category 3`, 'Zo\ufffd'],
  [`pets import "$(printf 'g\\374.csv')"`, 'g\ufffd.csv'],
  [`pets serve --ephemeral -- echo "$(printf 'g\\374')"`, 'g\ufffd'],
])(
  'an argument that is not UTF-8 is refused, because Node cannot pass it on unchanged: %s',
  async (line, shown) => {
    const machine = await freshMachine();
    const { code, stdout, stderr } = await machine.shell(line);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`error: the argument ${shown} is not UTF-8 text`);
  },
);
