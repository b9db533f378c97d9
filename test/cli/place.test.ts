import { expect, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

// Before the program adds an animal, it shows a person which service it uses.

const KEY = 'pets_secret_k2mX';
const ADD = ['add', 'Rex', '--category', '3', '--color', 'never'];

async function added(argv: readonly string[], options: { columns?: number; env?: Record<string, string> }) {
  const server = await scriptedServer((_request, response) =>
    reply(response, 201, { id: 1, name: 'Rex', categoryId: 3, status: 'available' }),
  );
  const baseUrl = server.url;
  const files = { 'staging.json': JSON.stringify({ baseUrl, key: KEY }) };
  const env = options.env && { PETS_BASE_URL: baseUrl, ...options.env };
  const ran = await runInTerminal(argv, { ...options, files, ...(env && { env }) });
  expect(ran.code).toBe(0);
  return { ...ran, host: new URL(baseUrl).host };
}

const staging = ['--profile', 'staging'];

test.each<[string, string[], { columns?: number; env?: Record<string, string> }, string]>([
  ['a terminal', staging, { columns: 80 }, 'note: adding at HOST (profile staging)\n'],
  [
    'a dumb terminal, with the key from PETS_API_KEY',
    [],
    { columns: 80, env: { PETS_API_KEY: KEY, TERM: 'dumb' } },
    'note: adding at HOST (key from PETS_API_KEY)\n',
  ],
  ['a pipe', staging, {}, ''],
])('printed on %s', async (_name, flags, options, notice) => {
  const { stderr, host } = await added([...ADD, ...flags], options);
  expect(stderr).toBe(notice.replace('HOST', host));
});
