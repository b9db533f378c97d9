import { expect, test } from 'vitest';
import { startInTerminal } from '../helpers/context.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

// `pets list --all --ndjson` requests each page before it writes the previous one.

const LINE = '{"id":1,"name":"Rex","categoryId":3,"status":"sold"}\n';
const first: Handler = (_, response) =>
  reply(response, 200, `[${LINE}]`, { Link: '</v1/pets?page=2>; rel="next"' });
const ARGUMENTS = ['list', '--all', '--ndjson'];

test.each([
  [
    'large integers and any name',
    '{"id":9223372036854775807,"name":"a\\"\\n\u{1f415}","categoryId":-1,"status":"sold"}',
  ],
  ['an unknown field', '{"id":1,"name":"Rex","categoryId":3,"status":"sold","weight":1.50}'],
  ['an animal without a status', '{"id":1,"name":"Rex","categoryId":3}'],
  ['an unknown field instead of the status', '{"id":1,"name":"Rex","categoryId":3,"age":2}'],
])('%s is printed unchanged', async (_name, line) => {
  const { stdout } = await runAgainst(respondWith(`[${line}]`), ARGUMENTS);
  expect(stdout).toBe(`${line}\n`);
});

test('a page is written before the next one arrives, and Ctrl-C exits while waiting for it', async () => {
  const server = await scriptedServer((request, response, count) => {
    if (count === 1) first(request, response, count);
  });
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key' };
  const { ended, raise, stdout, handlersLeft } = await startInTerminal(ARGUMENTS, { env });
  await expect.poll(() => [stdout(), server.requests.length]).toEqual([LINE, 2]);
  raise('SIGINT');
  expect([await ended, stdout(), handlersLeft()]).toEqual([130, LINE, 0]);
});

test('if the reader closes the pipe, the command exits with 0 and prints no error', async () => {
  const server = await scriptedServer((request, response, count) => {
    if (count === 1) first(request, response, count);
  });
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k' });
  const { stdout, stderr } = await machine.shell('{ pets list --all --ndjson; echo "code $?" >&2; } | true');
  expect([stdout, stderr]).toEqual(['', 'code 0\n']);
});
