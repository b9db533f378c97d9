import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startProgram } from '../helpers/context.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

/** A user whose home directory cannot be created, and a service. `limit` is the number of requests before a 429. */
async function homeless({ limit = Number.POSITIVE_INFINITY } = {}) {
  const temporary = await temporaryDirectory();
  const server = await scriptedServer((_, response, count) => {
    if (count > limit) replyError(response, 429, 'rate_limited', { 'Retry-After': '30' });
    else reply(response, 200, []);
  });
  const start = (argv: readonly string[], env: Record<string, string> = {}, stdin = '') =>
    startProgram(argv, {
      env: { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_key', ...env },
      homeDirectory: '/proc/nohome',
      stdin,
      temporaryDirectory: temporary,
    });
  async function run(...options: Parameters<typeof start>) {
    const { ended, stderr } = start(...options);
    const code = await ended;
    return { code, stderr: stderr() };
  }
  return { temporary, fallback: join(temporary, `pets-state-${process.geteuid?.()}`), server, start, run };
}

const LIST = ['list', '--json', '--max-wait', '0'];

/** How often the output says that no state directory is writable. */
const noticesIn = (stderr: string) => stderr.split('none of these directories can be used').length - 1;

test.each(['the directory for temporary files', 'PETS_STATE_DIR'])(
  'without a home directory, 14 commands in a row with --max-wait 0 send one request after the limit: %s',
  async (place) => {
    const { server, run, temporary, fallback } = await homeless({ limit: 2 });
    const own = await temporaryDirectory();
    const env: Record<string, string> = place.includes('_') ? { [place]: own } : {};
    const results = [];
    for (let i = 0; i < 16; i++) results.push(await run(LIST, env));
    expect(results.map(({ code }) => code)).toEqual([0, 0, ...Array(14).fill(5)]);
    expect(server.requests).toHaveLength(3);
    expect(results.map(({ stderr }) => noticesIn(stderr))).toEqual(Array(16).fill(0));
    const used = place === 'PETS_STATE_DIR' ? own : fallback;
    expect(await readdir(used)).toEqual(['services']);
    expect(await readdir(temporary)).toEqual(used === fallback ? [expect.stringContaining('state')] : []);
  },
);

test('if nothing is writable, a command prints one note', async () => {
  const { fallback, run } = await homeless();
  await writeFile(fallback, '');
  for (const argv of [['list'], ['list', '--json'], ['list', '--all']]) {
    const { code, stderr } = await run(argv);
    expect([code, noticesIn(stderr)]).toEqual([0, 1]);
    expect(stderr).toContain(`/proc/nohome/.local/state/pets, ${fallback}. Set PETS_STATE_DIR`);
  }
});

const CONFIG_HINT = 'check this path and the free disk space, or set PETS_CONFIG_DIR to another directory';
test.each([
  ['login --no-verify', /^cannot write .*prod[.]json: /, CONFIG_HINT],
  [
    'serve --port 0',
    /^cannot open the store in \S+: no such file or directory$/,
    'check each part of the path, and that its disk is mounted; or choose another directory',
  ],
])('without a home directory, pets %s exits with 1 and a hint', async (line, message, hint) => {
  const { run } = await homeless();
  const { code, stderr } = await run(`${line} --json`.split(' '), {}, 'pets_key');
  const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
  expect(code).toBe(1);
  expect(error).toMatchObject({ message: expect.stringMatching(message), hint });
});

test('without a home directory, pets serve warns, and accepts the key that it prints', async () => {
  const { start, temporary } = await homeless();
  const program = start(['serve', '--port', '0', '--data', join(temporary, 'store'), '--json']);
  await expect.poll(program.stdout).toContain('"listening"');
  const { url, key } = JSON.parse(program.stdout().split('\n')[0] ?? '');
  expect((await fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${key}` } })).status).toBe(200);
  const add =
    /cannot use \S+[.]key: no such .* no permanent API key was created; to create one: pets keys add laptop --data \S+store"/;
  expect(program.stderr()).toMatch(add);
  expect(program.stderr()).toContain('to start without it: --no-profile');
  program.raise('SIGTERM');
  expect(await program.ended).toBe(0);
});
