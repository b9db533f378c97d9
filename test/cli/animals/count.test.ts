import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { writeCounts } from '../../../src/cli/animals/write-counts.ts';
import { createConsole } from '../../../src/cli/output/console.ts';
import { createProcessContext } from '../../../src/cli/run.ts';
import { respondWith, runAgainst } from '../../helpers/in-terminal.ts';
import { manyAnimals, shopOf } from '../../helpers/shop.ts';

const count = (flags: readonly string[], columns?: number) =>
  runAgainst(shopOf(manyAnimals(250)), ['count', '--color', 'never', ...flags], columns ? { columns } : {});

/** Each case has the options and the output in a pipe. */
test.each([
  [[], 'available\t125\nsold\t125\n'],
  [['--by', 'category'], '1\t84\n2\t83\n3\t83\n'],
  [
    ['--by', 'status,category', '--name', 'zoe'],
    'available\t1\t8\navailable\t2\t8\navailable\t3\t9\nsold\t1\t8\nsold\t2\t9\nsold\t3\t8\n',
  ],
  [['--category', '2', '--status', 'sold'], 'sold\t42\n'],
  [['--name', 'nothing'], ''],
  [['--csv', '--by', 'category'], 'categoryId,animals\r\n1,84\r\n2,83\r\n3,83\r\n'],
  [['--ndjson'], '{"status":"available","animals":125}\n{"status":"sold","animals":125}\n'],
  [
    ['--json', '--by', 'category'],
    '[{"categoryId":1,"animals":84},{"categoryId":2,"animals":83},{"categoryId":3,"animals":83}]\n',
  ],
  [['--json', '--name', 'nothing'], '[]\n'],
])('count %j', async (flags, expected) => {
  const { code, stdout } = await count(flags);
  expect([code, stdout]).toEqual([0, expected]);
});

test('a table has bars, and a footer with the total and the cost', async () => {
  const { stdout, stderr } = await count(['--by', 'category', '--name', 'rex', '--status', 'sold'], 80);
  expect(stdout).toBe(
    [
      'CATEGORY  ANIMALS',
      '       1       17  ####################',
      '       2       16  ###################',
      '       3       17  ####################',
      '',
    ].join('\n'),
  );
  expect(stderr).toMatch(/note: 50 animals, status sold, name "rex", read 2 pages \(2 requests\)\n$/);
});

test('a terminal that is too narrow shows no bars', async () => {
  expect((await count([], 30)).stdout).toBe('STATUS     ANIMALS\navailable      125\nsold           125\n');
});

test.each([
  ['20', 'STATUS     ANIMALS\navailable      125\nsold           125\n'],
  ['12', 'STATUS  ANI…\navaila…  125\nsold     125\n'],
  ['10', 'STAT… ANI…\navai…  125\nsold   125\n'],
])('a table of %s columns shows the numbers', async (width, expected) => {
  expect((await count(['--table', '--width', width])).stdout).toBe(expected);
});

test('more values are counted than a function can have arguments', async () => {
  let text = '';
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
  stdout.on('data', (chunk) => (text += chunk));
  const console = createConsole({ ...createProcessContext(), stdout } as never, { color: 'never' } as never);
  const counts = Array.from({ length: 200_000 }, (_, i) => ({ categoryId: i, animals: 1 }));
  await writeCounts(console, counts, ['categoryId']);
  expect(text.split('\n')).toHaveLength(200_002);
});

test('values of any type are counted, missing ones last', async () => {
  const body =
    '[{"id":1,"name":"a"},{"id":2,"name":"b","categoryId":null},{"id":3,"name":"c","categoryId":"7"},{"id":4,"name":"d","categoryId":7},{"id":5,"name":"e","categoryId":["x"]},{"id":6,"name":"f","categoryId":10},{"id":7,"name":"g","categoryId":"07"}]';
  const { stdout } = await runAgainst(respondWith(body), ['count', '--by', 'category', '--json']);
  expect(JSON.parse(stdout)).toEqual([
    { categoryId: 7, animals: 2 },
    { categoryId: '07', animals: 1 },
    { categoryId: 10, animals: 1 },
    { categoryId: ['x'], animals: 1 },
    { categoryId: null, animals: 2 },
  ]);
});

test('an inventory without animals is reported on a terminal only', async () => {
  expect((await runAgainst(respondWith([]), ['count'], { columns: 200 })).stderr).toContain('no animals at ');
  expect(await runAgainst(respondWith([]), ['count'])).toMatchObject({ code: 0, stdout: '', stderr: '' });
});
