import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Console } from '../../src/cli/output/console.ts';
import { readSeedFile } from '../../src/cli/serve/run-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

/** Reads a seed file. `lines` are those that are printed on stderr. */
async function readSeed(name: string, content: string | Uint8Array) {
  const path = join(await temporaryDirectory(), name);
  await writeFile(path, content);
  const lines: string[] = [];
  const console = {
    event: (_: unknown, text: string) => lines.push(text.replaceAll(path, 'FILE')),
  } as unknown as Console;
  const [result] = await Promise.allSettled([readSeedFile(path, console)]);
  return { path, lines, ...result };
}

const rex = { name: 'Rex', categoryId: 9007199254740993n, status: 'available' };
const bella = { name: 'Bella', categoryId: 2n, status: 'sold' };

describe('every form gives the same animals: ids are kept, and other animals get ids above the largest', () => {
  const all = [
    '{"name":"Rex","categoryId":9007199254740993}',
    '{"id":5,"name":"Bella","categoryId":2,"status":"sold","x":[1]}',
    '{"id":9,"name":"Rex","categoryId":9007199254740993,"status":"available"}',
  ];
  const big = '9007199254740993';
  test.each([
    ['a.CSV', `\ufeffID;name;categoryId;Status\r\n;Rex;${big};\r\n5;Bella;2;sold\r\n9;Rex;${big};`],
    ['a.ndjson', all.join('\n')],
    ['a.json', `\ufeff\n[${all.join(',\n')}]\n`],
  ])('%s %j', async (name, content) => {
    const pets = [
      { id: 5n, ...bella },
      { id: 9n, ...rex },
      { id: 10n, ...rex },
    ];
    const seed = await readSeed(name, content);
    expect([seed.lines, 'value' in seed && seed.value]).toEqual([[], { pets, orders: [] }]);
  });

  test('a JSON object may have orders', async () => {
    const seed = await readSeed('a', `{"orders":[{"id":9007199254740993},7],"pets":[${all[1]}]}`);
    const value = { pets: [{ id: 5n, ...bella }], orders: [{ id: 9007199254740993n }, 7] };
    expect(seed).toMatchObject({ value });
    expect(await readSeed('a', '{"pets":[{"name":"Rex"}]}')).toMatchObject({
      lines: ['FILE, animal 1: category is required'],
    });
    for (const text of ['{"pets":[', '{"orders":[]}', '{"pets":[],"orders":{}}'])
      expect(await readSeed('a', text)).toMatchObject({ reason: { code: 'usage' } });
  });

  test.each(['', '[]', 'name,category\n'])('%j has no animals', async (content) => {
    expect(await readSeed('a', content)).toMatchObject({ value: { pets: [], orders: [] } });
  });
});

const ID = 'must be a whole number from 1 to 9223372036854775806';

test('every error is listed with its line', async () => {
  const rows = [
    '{"id":1,"name":"A","categoryId":1}',
    '{"id":1,"name":"B","categoryId":1}',
    '{"name":"Bella"}',
    '{"id":0,"name":"A","categoryId":1}',
    '{"id":9223372036854775807,"name":"","categoryId":1}',
    '{"name":"","categoryId":1}',
  ];
  const seed = await readSeed('a.ndjson', rows.join('\n'));
  expect(seed.lines).toEqual([
    'FILE, line 2: id 1 is already used by an earlier row',
    'FILE, line 3: category is required',
    `FILE, line 4: id 0 ${ID}`,
    `FILE, line 5: id 9223372036854775807 ${ID}`,
  ]);
  const message = `4 errors in ${seed.path}; nothing was added`;
  expect(seed).toMatchObject({ reason: { code: 'usage', message, hint: 'fix the errors above' } });
});
