import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, petsInShell } from '../helpers/pets.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { testWithMounts } from '../helpers/skip.ts';

/** A machine, and a service that responds to the first request with success and then with 429. */
async function limitedMachine() {
  const machine = await freshMachine();
  const { url, requests } = await scriptedServer((_, response, count) => {
    if (count > 1) replyError(response, 429, 'rate_limited', { 'Retry-After': '30' });
    else reply(response, 200, [], { 'Idempotency-Supported': 'true' });
  });
  const STATE = join(machine.home, '.local', 'state', 'pets');
  return { machine, requests, env: { PETS_BASE_URL: url, PETS_API_KEY: 'pets_key_12345', STATE } };
}

testWithMounts.each([
  ['is on a read-only file system', 'mount --bind "$STATE" "$STATE" && mount -o remount,bind,ro "$STATE"'],
  ['is on a full disk', 'mount -t tmpfs -o nr_inodes=2 none "$STATE" && mkdir "$STATE/services"'],
])('if the state directory %s, commands share the cool-down elsewhere', async (_what, mount) => {
  const { machine, requests, env } = await limitedMachine();
  const lists = `for i in 1 2 3; do ${petsInShell} list --json --max-wait 0; echo $?; done`;
  const line = `mkdir -p "$STATE" && unshare -m sh -c '${mount} && ${lists}'`;
  const { stdout, stderr } = await machine.shell(line, { env });
  expect([stdout, requests.length], stderr).toEqual(['[]\n0\n5\n5\n', 2]);
  expect(stderr).not.toContain('writable');
});

test('a user whom the system does not know needs no HOME', async () => {
  const { machine, env } = await limitedMachine();
  const script = `const os = require('node:os');
    os.homedir = os.userInfo = () => { throw new Error('uv_os_homedir returned ENOENT'); };`;
  const NODE_OPTIONS = `--require ${await machine.file('unknown.cjs', script)}`;
  const options = { env: { ...env, NODE_OPTIONS, PETS_STATE_DIR: env.STATE } };
  expect(await machine.command(['list', '--json'], options)).toMatchObject({ code: 0, stdout: '[]\n' });
  expect(await machine.command(['use', 'staging'], options)).toMatchObject({ code: 0 });
});
