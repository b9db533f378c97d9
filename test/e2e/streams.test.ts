import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

test('every row error and the final error reach a slow reader', async () => {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: 'http://127.0.0.1:9/v1', key: 'pets_k' });
  const file = await machine.file('a.csv', `name,category\n${'Rex,x\n'.repeat(20_000)}`);
  const child = machine.startCommand(['add', '--from', file, '--json'], { stdin: '' });
  const closed = once(child, 'close');
  await sleep(600);
  const lines = (await text(child.stderr as NonNullable<typeof child.stderr>)).trimEnd().split('\n');
  const [code] = await closed;
  expect([code, lines.length]).toEqual([2, 20_001]);
  expect(JSON.parse(lines.at(-1) ?? '').error).toMatchObject({ code: 'usage' });
});

test('rows that failed cause exit code 8, also if the results are not read to their end', async () => {
  let id = 0;
  const server = await scriptedServer((request, response) => {
    if (request.method === 'GET') return reply(response, 200, []);
    const pet = JSON.parse(server.requests.at(-1)?.body ?? '');
    if (pet.name === 'animal 3') reply(response, 400, { code: 'bad', message: 'no', status: 400 });
    else reply(response, 201, { id: ++id, ...pet });
  });
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k' });
  const rows = Array.from({ length: 900 }, (_, i) => `animal ${i},1\n`).join('');
  await machine.file('a.csv', `name,category\n${rows}`);
  const { stderr } = await machine.shell(
    '{ pets add --from a.csv --json; echo "code $?" >&2; } | head -c 10',
  );
  expect(stderr).toContain('added 899 of 900 rows; 1 failed');
  expect(stderr).toContain('code 8');
});
