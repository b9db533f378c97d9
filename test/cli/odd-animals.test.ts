import { expect, test } from 'vitest';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply } from '../helpers/scripted-server.ts';

// Animals that the specification does not allow are kept as received.

/** An animal as JSON, and its cells in CSV. */
const odd: [name: string, json: string, csv: string][] = [
  ['an id as text', '{"id":"a-1","name":"Rex","categoryId":1,"status":"sold"}', 'a-1,Rex,1,sold'],
  [
    'integers beyond int64',
    '{"id":18446744073709551616,"name":"Rex","categoryId":-9223372036854775809,"status":"sold"}',
    '18446744073709551616,Rex,-9223372036854775809,sold',
  ],
  ['a fraction', '{"id":1.50,"name":"Rex","categoryId":1,"status":"sold"}', '1.50,Rex,1,sold'],
  ['an unknown status', '{"id":1,"name":"Rex","categoryId":1,"status":"lo\\"st"}', '1,Rex,1,"lo""st"'],
  ['a status like a method', '{"id":1,"name":"Rex","status":"toString"}', '1,Rex,,toString'],
  ['null', '{"id":1,"name":"Rex","categoryId":null,"status":null}', '1,Rex,,'],
  ['other types', '{"id":1,"name":"Rex","categoryId":"7","status":["sold"]}', '1,Rex,7,"[""sold""]"'],
];
const GOOD = '{"id":2,"name":"Bella","categoryId":2,"status":"sold"}';

test.each(odd)('%s is kept as received in every format', async (_name, json, csv) => {
  const respond = respondWith(`[${GOOD},${json}]`);
  const list = (...flags: string[]) => runAgainst(respond, ['list', ...flags]);
  expect(await list('--json')).toMatchObject({
    code: 0,
    stdout: `[${GOOD},${json}]\n`,
    stderr: '',
  });
  expect((await list('--ndjson')).stdout).toBe(`${GOOD}\n${json}\n`);
  expect((await list('--csv')).stdout).toBe(`id,name,categoryId,status\r\n2,Bella,2,sold\r\n${csv}\r\n`);
  const table = await runAgainst(respond, ['list'], { columns: 80 });
  expect([table.code, table.stdout.split('\n').length]).toEqual([0, 4]);
  const added: Handler = (_, response) => reply(response, 201, json);
  const { code, stdout } = await runAgainst(added, ['add', 'Rex', '--category', '1', '--json']);
  expect([code, stdout]).toEqual([0, `${json}\n`]);
});
