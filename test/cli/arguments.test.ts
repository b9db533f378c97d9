import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  ArgumentError,
  integerParser,
  parseInt64Argument,
  parseWith,
  secondsParser,
} from '../../src/cli/core/values.ts';
import { flagsOf } from '../../src/cli/program/program.ts';
import { PetStatus } from '../../src/contract/schemas.ts';
import { CANARY, expectFailure } from '../helpers/failure.ts';
import { freshMachine, type Machine, makeMachine } from '../helpers/pets.ts';

const INT64_MAX = '9223372036854775807';
const INT64_MIN = '-9223372036854775808';

/** The name of a parser, the parser, the value of each accepted text, and the refused texts, separated by `|`. */
type Row = [string, (text: string) => unknown, accepted: Record<string, unknown>, refused: string];

describe.each<Row>([
  [
    'int64',
    parseInt64Argument,
    { [INT64_MAX]: 2n ** 63n - 1n, [INT64_MIN]: -(2n ** 63n), '0': 0n },
    '|9223372036854775808|-9223372036854775809| 1|1 |01|007|+1|-0|1e3|1.0|1.5|0x10|1_000|3,000|three|١',
  ],
  ['a status', parseWith(PetStatus), { sold: 'sold' }, '|Sold|lost|available,sold'],
  [
    'seconds',
    secondsParser(0),
    { '0': 0, '0.5': 0.5, '75': 75, '1000000': 1_000_000 },
    '|-1|1e3|1e9|1000000.001|1000001|99999999999|.5|5.|0.0001|1.2345|0x1|soon|Infinity|NaN',
  ],
  ['seconds above zero', secondsParser(0.001), { '0.001': 0.001, '30': 30 }, '0|0.000'],
  [
    'an integer in a range',
    integerParser(0, 65_535),
    { '0': 0, '65535': 65_535 },
    '|65536|-1|1.5|0x50| 1|http',
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
  [['serve', '--', 'tool', '--json', '--debug'], { json: false, debug: false }],
  [['--color=always', 'list'], { color: 'always' }],
  [['list', '--color', 'pink'], { color: 'auto' }],
  [['--max-wait', 'x', 'list', '--nothing', '--json'], { json: true }],
])('the flags for errors of %j', (argv, expected) => {
  expect(flagsOf(argv)).toMatchObject(expected);
});

test('an argument that is not UTF-8 is refused, because Node changes it', async () => {
  const machine = await freshMachine();
  const { code, stdout, stderr } = await machine.shell(`pets add "$(printf 'Zo\\353')" --category 3`);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('error: Zo\ufffd contains unreadable characters');
});

// Wrong arguments are refused before anything is prompted for, read, sent or written.

let machine: Machine;
let dispose: () => Promise<void>;

beforeAll(async () => {
  ({ machine, dispose } = await makeMachine());
});
afterAll(() => dispose());

type Line = readonly [line: string, ...contains: string[]];

/** The arguments of a command line. Words in single quotes may be empty or have spaces. */
const splitLine = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '');

const PROFILES = 'prod, staging, local';

const wrongLines: Line[] = [
  ['add Rex --category 9223372036854775808', 'from -9223372036854775808 to 9223372036854775807'],
  ['add Rex --category dogs', '--category must be a whole number, not "dogs"', 'pets count --by category'],
  ['--profile production list', '--profile', PROFILES, '"production"'],
  ...['-1', '1.5', '100-', '300-100', '600001', 'fast', ''].map(
    (text): Line => [`serve --latency=${text}`, '--latency', '100-300', `"${text}"`],
  ),
  ...['-0.1', '1.1', '50%', '1e-1', '', '.'].map(
    (text): Line => [`serve --fail-rate=${text}`, '--fail-rate', 'from 0 to 1', `"${text}"`],
  ),
  ...['shop.example', 'ftp://shop.example', 'https://shop.example/?x', 'https://a@shop.example', ''].map(
    (text): Line => [`serve --public-url=${text}`, '--public-url', 'https://shop.example', `"${text}"`],
  ),
  ...['localhost', '10.0.0.0/33', '10.0.0.0/', '10.0.0.1:80', ''].map(
    (text): Line => [`serve --trust-proxy=${text}`, '--trust-proxy', '10.0.0.0/8', `"${text}"`],
  ),
  ...['shop.test:80', 'http://shop.test', ''].map(
    (text): Line => [`serve --allow-host=${text}`, '--allow-host', 'without a port', `"${text}"`],
  ),
  // No browser sends these as an origin.
  ...['localhost:5173', 'http://a/x', 'ftp://a', 'null', 'http://a@c', '', 'https://*.a', 'http://a:*'].map(
    (text): Line => [`serve --cors=${text}`, '--cors', 'an origin without *, such as http', `"${text}"`],
  ),
  ["serve --ephemeral --host ''", '--host must be an IP address or a host name'],
  ['serve --plan gold', '--plan', 'free, pro, business, enterprise', '"gold"'],
  ['keys add x --plan enterprise --per-minute 0 --per-day 1', '--per-minute', '"0"'],
  ["add Rex --category 1 --idempotency-key ''", '--idempotency-key', '1 to 255'],
  ['login --base-url ftp://a.example/v1', 'for example, without quotes: https://api.example.com/v1'],
  ['count --by colour', '--by must be status, category, or both', 'pets help count'],
  ['list --stauts sold', '--stauts', 'did you mean --status?'],
  ['list --out a.csv', 'unknown option --out', 'did you mean --output?'],
  ['orders --last', 'options of pets orders: --where, --since, --until', 'see: pets help orders'],
  ['delete 7', "'delete'", 'not change or delete', 'ask those who run the service'],
  ['17', 'pets get 17'],
  ['help backup', 'no help for backup', 'pets help store copy'],
  ['list --since 7d', 'unknown option --since', 'pets list --all --sort id:desc'],
  ['list --sort price', 'one of name, id, category, status, not "price"', 'only an id', 'pets orders'],
  ['orders add --pet 3', 'can only list orders', 'pets serve --seed file.json'],
  ["'foo\nrm -rf ~'", "rm -rf ~'", 'see: pets help'],
  ['list # all animals', '# begins no comment', 'setopt interactive_comments'],
  // As in a script with the line ends of Windows.
  ["list '--all\r'", 'contains unreadable characters', 'dos2unix'],
  // Arguments that a command does not have.
  ['find Rex Bella', 'too many arguments for pets find', 'pets find "Lady Bella"'],
  ['add Rex 3', 'straight quotes', 'an option for the category: pets add "Lady Bella" --category 3'],
  [`login ${CANARY}`, 'too many arguments for pets login', 'cat key.txt | pets login'],
  [`serve --key=${CANARY}`, 'unknown option --key', '--key-file <file> or the variable PETS_SERVE_KEY'],
  // Missing arguments and values, in one form.
  ['get', 'missing <id>', 'for example: pets get 7'],
  ['import', 'missing <file>', 'pets import -'],
  ['add Rex', 'missing --category <id>', 'pets add Rex --category 3', 'pets count --by category'],
  ['list --output', 'missing value of --output <file>', 'pets help list'],
  ['list --json=1', '--json does not take a value'],
  ['list --ndjson --csv', '--ndjson and --csv cannot be combined'],
  ['serve --data x --ephemeral', '--ephemeral and --data cannot be combined', 'use only one'],
  ['list --all --limit 3', '--all and --limit cannot be combined'],
  ['--max-wait long list', '--max-wait must be', 'see: pets help global'],
  ['serve --latency x', '--latency must be', 'see: pets help serve faults'],
  ['list --profile', 'missing value of --profile <name>', 'see: pets help global'],
  ['orders --since monday', '--since must be', '7d for the last seven days'],
  ['add Rex -category 3', 'unknown option -category', 'did you mean --category?'],
  ['keys add x --role reader', 'every key may list and add animals'],
  ['logout prod', 'pets logout --profile <name>'],
  ['use --foo', 'unknown option --foo', 'see: pets help use'],
  ['status Minka sold', 'pets profiles --check', 'pets list --limit 1 --quiet', 'a status cannot be changed'],
  ['login --base-url 127.0.0.1:7411', 'begin with https:// or http://', 'quotes: http://127.0.0.1:7411'],
  ['login --base-url shop.example/v1', 'must begin with https://', 'without quotes: https://shop.example/v1'],
  [`login --base-url my.${CANARY}`, 'must begin with https://', 'quotes: https://api.example.com/v1'],
  ['serve --ephemeral --', 'after --'],
  ["serve --ephemeral -- ''", 'no command after --'],
  ["serve --data ' store'", '--data must not begin or end with white space'],
  ["serve --data ''", '--data must be the name of a directory'],
  ['store migrate .', 'only a database has a schema', 'give the postgres:// URL of a database'],
  ["store check ''", '<dir|url> must be the name of a directory'],
  ['add - --category 3 --profile prod', 'from a pipe: pets import --profile prod -'],
  // Other names of list and get, and a choice in another case.
  ['ls --status Sold --limit 0', '--limit must be an integer from 1 to 1000', 'pets help list'],
  ['show x', '<id> must be a whole number, not "x"', 'pets find rex'],
];

test.concurrent.each(wrongLines)('pets %s is refused', async (line, ...contains) => {
  await expectFailure(machine, splitLine(line), { exit: 2, code: 'usage', contains });
});

test.each<[Record<string, string>, string, string]>([
  [{ PETS_PROFILE: 'production' }, 'login', 'pets help environment'],
  [{ PETS_MAX_WAIT: 'long' }, 'list', 'PETS_MAX_WAIT'],
  [{ PETS_BASE_URL: 'nowhere' }, 'login', 'PETS_BASE_URL'],
])('an invalid environment variable is named: %o pets %s', async (env, line, name) => {
  await expectFailure(machine, splitLine(line), { env, exit: 2, code: 'usage', contains: [name] });
});
