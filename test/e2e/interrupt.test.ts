import { once } from 'node:events';
import { expect, test } from 'vitest';
import { gate } from '../helpers/gate.ts';
import { freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

const ERROR = { code: 'rate_limited', message: 'slow down', status: 429 };

test.each([
  ['while a read waits for a rate limit', ['list'], true],
  ['while a read waits for a response', ['list'], false],
  ['while a creation waits for a rate limit', ['add', 'Rex', '--category', '3'], true],
])('SIGINT %s: exit code 130', async (_name, args, isRateLimited) => {
  const waiting = gate();
  const server = await scriptedServer((_, response) => {
    if (isRateLimited) reply(response, 429, ERROR, { 'Retry-After': '60' });
    else waiting.open();
  });
  const machine = await freshMachine();
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key' };
  const child = machine.startCommand([...args, '--json'], { env });
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    stderr += chunk;
    waiting.open();
  });
  await waiting.opened;
  child.kill('SIGINT');
  const [code] = await once(child, 'close');
  expect([code, stdout]).toEqual([130, '']);
  const lines = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.at(-1)).toMatchObject({ error: { code: 'interrupted' } });
  if (isRateLimited) expect(lines[0]).toMatchObject({ wait: { reason: 'rate limit' } });
  expect(server.requests).toHaveLength(1);
});
