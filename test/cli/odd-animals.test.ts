import { expect, test } from 'vitest';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

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

test('pets get accepts the id of the animal as text', async () => {
  const respond: Handler = ({ url }, response) =>
    reply(response, 200, { id: url?.split('/').at(-1), name: 'Rex', status: null });
  const { code, stdout } = await runAgainst(respond, ['get', '7', '8', '--json']);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject([{ id: '7' }, { id: '8' }]);
});

test('pets import adds all rows, and knows them in the next run', async () => {
  const machine = await freshMachine();
  const server = await scriptedServer(({ method }, response, count) => {
    if (method === 'GET') return reply(response, 200, [{ id: 'a', name: 'Rex', status: 'lost' }]);
    const { name } = JSON.parse(server.requests[count - 1]?.body ?? '');
    reply(response, 201, `{"id":"a${count}","name":"${name}","categoryId":null,"price":1.50,"status":"new"}`);
  });
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k' });
  const file = await machine.file('a.csv', 'name,category\nRex,1\nBella,2\n');
  const first = await machine.pets(['import', file, '--json']);
  expect(first.code).toBe(0);
  const again = await machine.pets(['import', file, '--json']);
  expect(again).toMatchObject({ code: 0, stdout: first.stdout.replaceAll('}}', '},"before":true}') });
  expect(first.stdout).toContain('{"id":"a3","name":"Bella","categoryId":null,"status":"new","price":1.50}');
  expect(server.requests.filter(({ method }) => method === 'POST')).toHaveLength(2);
});
