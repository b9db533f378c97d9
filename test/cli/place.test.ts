import { expect, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

// Before something is written a person sees where to.

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
  return { ...ran, host: new URL(baseUrl).host, server };
}

test('the profile and the host, on a terminal', async () => {
  const { stderr, host } = await added([...ADD, '--profile', 'staging'], { columns: 80 });
  expect(stderr).toContain(`note: adding at ${host} (profile staging)\n`);
});

test('also on a dumb one, and where the key is from the environment', async () => {
  const { stderr, host } = await added(ADD, { columns: 80, env: { PETS_API_KEY: KEY, TERM: 'dumb' } });
  expect(stderr).toContain(`note: adding at ${host} (key from PETS_API_KEY)\n`);
});

test('not for a script', async () => {
  const { stderr } = await added([...ADD, '--profile', 'staging'], {});
  expect(stderr).toBe('');
});

test('--dry-run says it too, and sends nothing', async () => {
  const { stderr, host, server } = await added([...ADD, '--profile', 'staging', '--dry-run'], {});
  expect(stderr).toBe(`note: nothing is sent: this would be added at ${host} (profile staging)\n`);
  expect(server.requests).toEqual([]);
});
