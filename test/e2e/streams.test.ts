import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { shell } from '../helpers/shell.ts';

test('every fault, and the error behind them, reaches a reader that takes its time', async () => {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: 'http://127.0.0.1:9/v1', key: 'pets_k' });
  await writeFile(join(machine.home, 'a.csv'), `name,category\n${'Rex,x\n'.repeat(20_000)}`);
  const child = machine.start(['add', '--from', 'a.csv', '--json'], { stdin: '' });
  await new Promise((resolve) => setTimeout(resolve, 600));
  let text = '';
  child.stderr?.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  const [code] = await once(child, 'close');
  const lines = text.trimEnd().split('\n');
  expect([code, lines.length]).toEqual([2, 20_001]);
  expect(JSON.parse(lines.at(-1) ?? '').error).toMatchObject({ code: 'usage' });
});

test('rows that failed make exit code 8 also where nobody reads the results to their end', async () => {
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
  await writeFile(join(machine.home, 'a.csv'), `name,category\n${rows}`);
  const { stderr } = await shell(
    machine,
    '{ pets add --from a.csv --json; echo "code $?" >&2; } | head -c 10',
  );
  expect(stderr).toContain('899 of 900 rows are added; 1 failed');
  expect(stderr).toContain('code 8');
});
