import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { freshMachine, petsInShell } from '../helpers/pets.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

const hasFaketime = spawnSync('faketime', ['--version']).error === undefined;

test.skipIf(!hasFaketime)(
  'a rate limit that was met while the clock was a day ahead does not block later commands',
  async () => {
    const { url, requests } = await scriptedServer((_, response, count) =>
      count === 1
        ? replyError(response, 429, 'rate_limited', { 'Retry-After': '60' })
        : reply(response, 200, []),
    );
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: url, key: 'pets_k' });
    const ahead = await machine.shell(`exec faketime -f +24h ${petsInShell} list --max-wait 0 --json`);
    const { error } = JSON.parse(ahead.stderr.trim().split('\n').at(-1) ?? '');
    expect([ahead.code, Date.parse(error.until) > Date.now() + 3_600_000]).toEqual([5, true]);
    expect(await machine.command(['list', '--max-wait', '0'])).toMatchObject({ code: 0, stderr: '' });
    expect(requests).toHaveLength(2);
  },
);
