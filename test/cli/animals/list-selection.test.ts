import { expect, test } from 'vitest';
import { respondWith, runAgainst } from '../../helpers/in-terminal.ts';
import { manyAnimals, shopOf } from '../../helpers/shop.ts';

const list = (argv: readonly string[], animals = manyAnimals(250)) =>
  runAgainst(shopOf(animals), argv.slice(0, 1).concat('--json', argv.slice(1)));

const idsOf = (stdout: string): number[] => JSON.parse(stdout).map(({ id }: { id: number }) => id);

/** Each case has the options, the ids of the animals, and the number of requests. */
test.each<[string, number[], number]>([
  ['list --name zoe --limit 3', [3, 8, 13], 1],
  ['list --name zoe --limit 21', Array.from({ length: 21 }, (_, i) => 5 * i + 3), 2],
  ['list --name /^T/ --limit 2', [4, 9], 1],
  ['find rex --limit 5', [1, 4, 6, 9, 11], 1],
  ['find rex --status sold --limit 3', [4, 6, 14], 1],
  ['list --category 2 --limit 3', [2, 5, 8], 1],
  ['list --category 2 --category 3 --limit 4', [2, 3, 5, 6], 1],
  ['list --name max --category 1 --limit 2', [10, 25], 1],
  ['list --sort id:desc --limit 2', [250, 249], 3],
  ['list --sort name --limit 2', [2, 7], 3],
  ['list --sort category:desc --name bella --limit 2', [12, 27], 3],
  ['find nothing', [], 3],
  ['list --all --name bella --status sold --limit 1', [2], 1],
])('pets %s lists the animals %j after %i requests', async (line, ids, requests) => {
  const { code, stdout, server } = await list(line.split(' '));
  expect([code, idsOf(stdout)]).toEqual([0, ids]);
  expect(server.requests).toHaveLength(requests);
  expect(server.requests[0]?.url).toContain('limit=100');
});

test('find lists all results of all pages', async () => {
  const { stdout, server } = await list(['find', 'rex']);
  expect(idsOf(stdout)).toEqual(
    manyAnimals(250)
      .filter(({ name }) => String(name).includes('Rex'))
      .map(({ id }) => id),
  );
  expect(server.requests).toHaveLength(3);
});

test('without a filter or an order, --limit is the page size', async () => {
  const { stdout, server } = await list(['list', '--all', '--limit', '50', '--status', 'available']);
  expect(idsOf(stdout)).toHaveLength(125);
  expect(server.requests.map(({ url }) => url)[0]).toBe('/v1/pets?limit=50&status=available');
  expect(server.requests).toHaveLength(3);
});

test('a service may send categories of any type', async () => {
  const categories = [1, '1', 1.5, null, ['1'], 18446744073709551616n];
  const body = `[${categories.map((category, i) => `{"id":${i},"name":"Rex","categoryId":${typeof category === 'bigint' ? category : JSON.stringify(category)}}`).join()},{"id":6,"name":"Rex"}]`;
  const one = await runAgainst(respondWith(body), ['list', '--category', '1', '--json']);
  expect(idsOf(one.stdout)).toEqual([0, 1]);
  const all = await runAgainst(respondWith(body), ['list', '--sort', 'category:asc', '--json']);
  expect([all.code, idsOf(all.stdout)]).toEqual([0, [0, 1, 2, 5, 4, 3, 6]]);
});

/** Each case has the options and the output in a pipe. */
test.each([
  [['--columns', 'name,id'], 'Rex\t1\nBella\t2\n'],
  [['--columns', 'ID, Category'], '1\t3\n2\t\n'],
  [['--columns', 'weight,tags,id'], '1.50\t["a"]\t1\n\t\t2\n'],
  [['--columns', 'owner,id', '--csv'], 'owner,id\r\n"{""name"":""Ada""}",1\r\n,2\r\n'],
  [['--columns', 'weight,id', '--ndjson'], '{"weight":1.50,"id":1}\n{"id":2}\n'],
  [['--columns', 'id,weight', '--json'], '[{"id":1,"weight":1.50},{"id":2}]\n'],
  [['--columns', '__proto__,toString,id', '--ndjson'], '{"id":1}\n{"id":2}\n'],
])('list %j prints only these fields', async (flags, expected) => {
  const body =
    '[{"id":1,"name":"Rex","categoryId":3,"weight":1.50,"tags":["a"],"owner":{"name":"Ada"}},{"id":2,"name":"Bella"}]';
  const { code, stdout } = await runAgainst(respondWith(body), ['list', ...flags]);
  expect([code, stdout]).toEqual([0, expected]);
});

test('a table has the chosen columns', async () => {
  const body = '[{"id":1,"name":"Rex","weight":1.50,"colour":"brown"},{"id":2,"name":" ","weight":22}]';
  const { stdout } = await runAgainst(
    respondWith(body),
    ['list', '--columns', 'name,weight,colour', '--color', 'never'],
    { columns: 60 },
  );
  expect(stdout).toBe('NAME  WEIGHT  COLOUR\nRex     1.50  brown\n" "       22\n');
});

test('a field that no animal has is reported, and so are the fields that exist', async () => {
  const list = (columns: string, animals: unknown) =>
    runAgainst(respondWith(animals), ['list', '--columns', columns]);
  const animals = [{ id: 1, name: 'Rex', weight: 1 }];
  expect((await list('id,wieght,x', animals)).stderr).toContain(
    'note: no animal has the field wieght or x. Fields: id, name, weight\n',
  );
  expect((await list('id,weight', animals)).stderr).not.toContain('no animal has');
  expect((await list('x', [])).stderr).toBe('');
});

test.each<[string, string, string]>([
  [
    'list --limit 101',
    '--limit must be an integer from 1 to 100, or any positive integer with',
    'pets list --all',
  ],
  ['list --status sold --limit 101', '--limit must be an integer from 1 to 100', 'pets list --all'],
  ['list --name rex --limit 0', '--limit must be an integer', 'pets help list'],
  ['find rex --limit 1.5', '--limit must be a positive integer, not "1.5"', 'pets help find'],
  ['list --name /(/', '--name must be a valid regular expression', 'pets help list'],
  ['find /x/y', 'text may have the flags', 'pets help find'],
  ['list --category dogs', '--category must be a whole number', 'pets count --by category'],
  ['list --category 01', '--category must be written without leading zeros', 'pets count --by category'],
  ['list --sort colour', '--sort must be one of name, name:desc', 'pets help list'],
  ['list --sort NAME', '--sort must be one of', 'did you mean name?'],
  ['list --columns id,', '--columns must be the name of a field', 'pets help list'],
  ['list --columns id,ID', '--columns must not name a field twice', 'pets help list'],
  ['count --by colour', '--by must be one of status, category', 'pets help count'],
])('pets %s is an error', async (line, message, hint) => {
  const { code, stdout, stderr, server } = await runAgainst(respondWith([]), line.split(' '));
  expect([code, stdout, server.requests.length]).toEqual([2, '', 0]);
  expect(stderr).toContain(message);
  expect(stderr).toContain(hint);
});
