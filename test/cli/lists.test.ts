import { describe, expect, test } from 'vitest';
import { runInTerminal, startInTerminal, type TerminalOptions } from '../helpers/context.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

// What pets list, pets find and pets count select, how many requests they send, and what they say about the result.

type Animal = Record<string, unknown>;

/** Responds to `GET /pets` with pages of these animals, filtered by status as the service does. */
function shopOf(animals: readonly Animal[], hasLinks = true): Handler {
  return ({ url = '' }, response) => {
    const query = new URL(url, 'http://host').searchParams;
    const [limit, start, status] = [
      Number(query.get('limit') ?? 20),
      Number(query.get('cursor') ?? 0),
      query.get('status'),
    ];
    const all = animals.filter((animal) => status === null || animal['status'] === status);
    const next = new URLSearchParams({ ...Object.fromEntries(query), cursor: String(start + limit) });
    reply(response, 200, all.slice(start, start + limit), {
      ...(hasLinks && start + limit < all.length && { Link: `</v1/pets?${next}>; rel="next"` }),
    });
  };
}

const NAMES = ['Rex', 'Bella', 'Zoë', 'T-Rex', 'Max'];
const STATUSES = ['available', 'sold'];

const manyAnimals = (count: number): Animal[] =>
  Array.from({ length: count }, (_, i) => ({
    id: i + 1,
    name: NAMES[i % NAMES.length],
    categoryId: (i % 3) + 1,
    status: STATUSES[i % STATUSES.length],
  }));

const WIDE: TerminalOptions = { columns: 500 };

const run = (line: string, options: TerminalOptions = {}, hasLinks = true, animals = manyAnimals(250)) =>
  runAgainst(shopOf(animals, hasLinks), [...line.split(' '), '--color', 'never'], options);

const idsOf = (stdout: string): number[] => JSON.parse(stdout).map(({ id }: { id: number }) => id);
const first = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

/** Each case has the options, the ids of the animals, the size of the pages, and the number of requests. */
test.each<[string, number[], number, number]>([
  ['list', first(20), 20, 1],
  ['list --limit 150', first(150), 100, 2],
  ['list --all', first(250), 100, 3],
  ['find zoe --limit 21', Array.from({ length: 21 }, (_, i) => 5 * i + 3), 100, 2],
  ['list --category 2 --category 3 --limit 4', [2, 3, 5, 6], 100, 1],
  ['list --status pending --status sold --limit 2', [2, 4], 100, 1],
  ['list --sort id:desc --limit 2', [250, 249], 100, 3],
  ['list --sort ID:asc --limit 2', [1, 2], 100, 3],
  ['find nothing', [], 100, 3],
])('pets %s lists the animals %j with pages of %i and %i requests', async (line, ids, size, requests) => {
  const { code, stdout, server } = await run(`${line} --json`);
  expect([code, idsOf(stdout)]).toEqual([0, ids]);
  expect(server.requests).toHaveLength(requests);
  expect(server.requests[0]?.url).toContain(`limit=${size}`);
});

test.each([['--status Sold'], ['--status sold --status PENDING']])(
  'list %s leaves out only animals that certainly have another status',
  async (flags) => {
    const [sold, unknown, other] = manyAnimals(3);
    const pets = [
      { ...sold, status: ' SOLD' },
      { ...unknown, status: undefined },
      { ...other, status: 'available' },
    ];
    const { stdout } = await runAgainst(respondWith(pets), ['list', ...flags.split(' '), '--json']);
    expect(idsOf(stdout)).toEqual([1, 2]);
  },
);

test('a list ends at the limit if a page has more; only without --limit, a note says so', async () => {
  for (const [flags, count, note] of [
    [['--limit', '4'], 4, ''],
    [[], 20, 'note: more animals follow; for all, add --all\n'],
    [['-q'], 20, ''],
  ] as const) {
    const ran = await runAgainst(respondWith(manyAnimals(25)), ['list', ...flags]);
    expect([ran.code, ran.stdout.split('\n').length - 1, ran.stderr]).toEqual([0, count, note]);
  }
});

test.each([
  ['rex', 'T-REX the Second', true],
  ['zoe', 'Zoë', true],
  ['strasse', 'Große Straße', true],
  ['δος', 'ΟΔΟΣΑ', true],
  ['🐕', 'Rex 🐕‍🦺', true],
  ['rex', 'Re x', false],
  ['.*', 'rex', false],
])('pets find %s finds %s: %s', async (text, name, isFound) => {
  const { stdout } = await runAgainst(respondWith([{ id: 1, name, categoryId: 1, status: 'sold' }]), [
    'find',
    text,
    '--json',
  ]);
  expect(idsOf(stdout)).toEqual(isFound ? [1] : []);
});

test('a service may send categories of any type', async () => {
  const categories = ['1', '"1"', '1.5', 'null', '["1"]', '18446744073709551616'];
  const body = `[${categories.map((category, i) => `{"id":${i},"name":"Rex","categoryId":${category}}`).join()},{"id":6,"name":"Rex"}]`;
  const one = await runAgainst(respondWith(body), ['list', '--category', '1', '--json']);
  expect(idsOf(one.stdout)).toEqual([0, 1]);
  const all = await runAgainst(respondWith(body), ['list', '--sort', 'category', '--json']);
  expect([all.code, idsOf(all.stdout)]).toEqual([0, [0, 1, 4, 2, 5, 3, 6]]);
});

describe('--columns', () => {
  const body =
    '[{"id":1,"name":"Rex","categoryId":3,"weight":1.50,"tags":["a"],"owner":{"name":"Ada"}},{"id":2,"name":"Bella"}]';

  test.each([
    [['ID, Category'], '1\t3\n2\t\n'],
    [['owner,id', '--csv'], 'owner,id\r\n"{""name"":""Ada""}",1\r\n,2\r\n'],
    [['weight,id', '--ndjson'], '{"weight":1.50,"id":1}\n{"id":2}\n'],
  ])('%j prints only these fields', async (flags, expected) => {
    const { code, stdout } = await runAgainst(respondWith(body), ['list', '--columns', ...flags]);
    expect([code, stdout]).toEqual([0, expected]);
  });

  test.each(['--json', '--csv', '--sort name'])('must exist: %s', async (flags) => {
    const animals = [{ id: 1, name: 'Rex', categoryId: 1, status: 'sold', weight: 1 }];
    const list = (columns: string, listed: unknown) =>
      runAgainst(respondWith(listed), ['list', '--columns', columns, ...flags.split(' ').filter(Boolean)]);
    const { code, stdout, stderr } = await list('id,wieght,x', animals);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('--columns: no listed animal has the field wieght or x');
    expect(stderr).toContain('use some of these fields: id, name, categoryId, status, weight');
    expect((await list('id,weight', animals)).code).toBe(0);
    expect((await list('x', [])).code).toBe(0);
  });
});

const NO_LINK = 'there may be more animals, but the service sends no link to a next page';
const MORE = 'more animals follow; for all, add --all';

/** Each case has the notices on a terminal and in a script. A last `[]` means no animals instead of 250. */
test.each<[string, hasLinks: boolean, terminal: string, script: string, animals?: []]>([
  ['list', true, `100 animals; ${MORE}`, MORE],
  ['list', true, 'no animals at HOST. Add one: pets add <name> --category <id>', '', []],
  ['list --status sold', true, 'no animals at HOST with status sold. Try: pets list --all', '', []],
  ['list --category 9', true, 'no animals at HOST with category 9. Try: pets count --by category', '', []],
  ['list --sort name --limit 2 --category 3', true, '2 of 83 animals, category 3', ''],
  ['find nothing', true, 'no animals at HOST with name "nothing". Try: pets list --all', ''],
  ['list', false, `100 animals; ${NO_LINK}`, `${NO_LINK}; to ask for more at once, add --all`],
  ['list --all', false, `100 animals; ${NO_LINK}`, NO_LINK],
  ['find nothing', false, `0 animals, name "nothing"; ${NO_LINK}`, NO_LINK],
])('the notice below pets %s with links: %s', async (line, hasLinks, terminal, script, animals) => {
  const shown = await run(line, WIDE, hasLinks, animals);
  const host = `${new URL(shown.server.url).host} (key from PETS_API_KEY)`;
  const notice = shown.stderr.split('note: ').at(-1);
  expect([shown.code, notice]).toEqual([0, `${terminal.replace('HOST', host)}\n`]);
  const piped = await run(line, {}, hasLinks, animals);
  expect([piped.code, piped.stderr]).toEqual([0, script && `note: ${script}\n`]);
});

test('the suggested option lists the rest', async () => {
  const server = await scriptedServer(shopOf(manyAnimals(250)));
  const files = { 'staging.json': JSON.stringify({ baseUrl: server.url, key: 'pets_secret_k2mX' }) };
  const line = ['list', '--status', 'sold', '--profile', 'staging', '--color', 'never'];
  const { stderr } = await runInTerminal(line, { ...WIDE, files });
  const [, option = ''] = /for all, add (.*)\n/.exec(stderr) ?? [];
  const rest = await runInTerminal([...line, option], { ...WIDE, files });
  const footer = `note: 125 animals at ${new URL(server.url).host} (profile staging), status sold\n`;
  expect([rest.code, rest.stderr.slice(-footer.length)]).toEqual([0, footer]);
});

test.each([
  [[], 'available\t125\nsold\t125\n'],
  [['--by', 'category'], '1\t84\n2\t83\n3\t83\n'],
  [['--by', 'status,category', '--category', '1'], 'available\t1\t42\nsold\t1\t42\n'],
  [['--category', '2', '--status', 'sold'], 'sold\t42\n'],
  [['--status', 'pending', '--status', 'available'], 'available\t125\n'],
  [['--json', '--by', 'category', '--category', '2'], '[{"categoryId":2,"animals":83}]\n'],
])('pets count: %j', async (flags, expected) => {
  const { code, stdout } = await run(['count', ...flags].join(' '));
  expect([code, stdout]).toEqual([0, expected]);
});

test('pets count --by category shows names on a terminal, because people do not know the numbers', async () => {
  const { stdout, stderr } = await run('count --by category --name rex', { columns: 80 });
  expect(stdout.trimEnd().split('\n')).toEqual([
    'CATEGORY  ANIMALS  NAMES',
    '       1       34  Rex, T-Rex …',
    '       2       32  Rex, T-Rex …',
    '       3       34  Rex, T-Rex …',
  ]);
  expect(stderr.replace(/\s+/g, ' ')).toContain('note: 100 animals, name "rex"');
});

// `pets list --all --ndjson` requests each page before it writes the previous one.

const LINE = '{"id":1,"name":"Rex","categoryId":3,"status":"sold"}\n';
const firstPage: Handler = (_, response) =>
  reply(response, 200, `[${LINE}]`, { Link: '</v1/pets?page=2>; rel="next"' });
const STREAM = ['list', '--all', '--ndjson'];

test('a page is written before the next one arrives, and Ctrl-C exits while waiting for it', async () => {
  const server = await scriptedServer((request, response, count) => {
    if (count === 1) firstPage(request, response, count);
  });
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key' };
  const { ended, raise, stdout, handlersLeft } = await startInTerminal(STREAM, { env });
  await expect.poll(() => [stdout(), server.requests.length]).toEqual([LINE, 2]);
  raise('SIGINT');
  expect([await ended, stdout(), handlersLeft()]).toEqual([130, LINE, 0]);
});
