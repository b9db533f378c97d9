import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, petsInShell } from '../helpers/pets.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { testWithMounts } from '../helpers/skip.ts';

const FALLBACK = `pets-state-${process.geteuid?.()}`;

/** A machine, and a service that responds to the first request with success and then with 429. */
async function limitedMachine() {
  const machine = await freshMachine();
  const server = await scriptedServer((_, response, count) => {
    if (count > 1) replyError(response, 429, 'rate_limited', { 'Retry-After': '30' });
    else reply(response, 200, [], { 'Idempotency-Supported': 'true' });
  });
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_key_12345' };
  return { machine, server, env };
}

const THREE_LISTS = `for i in 1 2 3; do ${petsInShell} list --json --max-wait 0; echo $?; done`;
const CODES = expect.stringMatching(/^\[\]\n0\n5\n5\n$/);

const READ_ONLY = 'mount --bind "$STATE" "$STATE" && mount -o remount,bind,ro "$STATE"';
const FULL =
  'mount -t tmpfs -o nr_inodes=2 none "$STATE" && mkdir "$STATE/services" && ! mkdir "$STATE/x" 2>/dev/null';

testWithMounts.each([
  ['is on a read-only file system', READ_ONLY],
  ['is on a full disk', FULL],
])('if the state directory %s, commands share the cool-down elsewhere', async (_what, mount) => {
  const { machine, server, env } = await limitedMachine();
  const state = join(machine.home, '.local', 'state', 'pets');
  const line = `mkdir -p "$STATE" && export STATE && unshare -m sh -c '${mount} && ${THREE_LISTS}'`;
  const { stdout, stderr } = await machine.shell(line, { env: { ...env, STATE: state } });
  expect([stdout, server.requests.length], stderr).toEqual([CODES, 2]);
  expect(stderr).not.toContain('writable');
});

testWithMounts(
  'a run whose state directory has become read-only is not started again elsewhere',
  async () => {
    const { machine, server, env } = await limitedMachine();
    await machine.file('animals.csv', 'name,category\nRex,1\nMax,2\n');
    const add = `${petsInShell} import animals.csv --json --max-wait 0 --no-retry; echo $?`;
    const state = join(machine.home, '.local', 'state', 'pets');
    const line = `${add}; unshare -m sh -c '${READ_ONLY} && ${add}'`;
    const { stdout, stderr } = await machine.shell(line, { env: { ...env, STATE: state } });
    const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
    expect(stdout).toMatch(/\n1\n$/);
    expect(error).toMatchObject({ code: 'file_error', message: expect.stringContaining('read-only') });
    expect(server.requests.length).toBeLessThanOrEqual(2);
    expect(await readdir(join(machine.home, FALLBACK)).catch(() => [])).toEqual([]);
  },
);

test('a user whom the system does not know needs no HOME', async () => {
  const { machine, env } = await limitedMachine();
  const script = `const os = require('node:os');
    os.homedir = os.userInfo = () => { throw new Error('uv_os_homedir returned ENOENT'); };`;
  const NODE_OPTIONS = `--require ${await machine.file('unknown.cjs', script)}`;
  const options = { env: { ...env, NODE_OPTIONS, PETS_STATE_DIR: join(machine.home, 'state') } };
  expect(await machine.command(['list', '--json'], options)).toMatchObject({ code: 0, stdout: '[]\n' });
});
