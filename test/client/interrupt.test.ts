import { once } from 'node:events';
import { expect, test } from 'vitest';
import { gate } from '../helpers/gate.ts';
import { freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

// The built command, with a real signal and real waits that nobody waits for.

const ERROR = { code: 'rate_limited', message: 'slow down', status: 429 };

test.each([
  ['while it waits for a rate limit', ['list'], 1],
  ['while it waits for an answer', ['list'], 0],
  ['while a creation waits for a rate limit', ['add', 'Rex', '--category', '3'], 1],
])('Ctrl-C %s ends the command with 130', async (_name, args, answers) => {
  const asked = gate();
  const server = await scriptedServer((_, response) => {
    if (answers > 0) reply(response, 429, ERROR, { 'Retry-After': '60' });
    else asked.open();
  });
  const machine = await freshMachine();
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key' };
  const child = machine.start([...args, '--json'], { env });
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    stderr += chunk;
    asked.open();
  });
  await asked.opened;
  child.kill('SIGINT');
  const [code] = await once(child, 'close');
  expect([code, stdout]).toEqual([130, '']);
  const lines = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.at(-1)).toMatchObject({ error: { code: 'interrupted' } });
  if (answers > 0) expect(lines[0]).toMatchObject({ wait: { reason: 'rate limit' } });
  expect(server.requests).toHaveLength(1);
});
