import { expect } from 'vitest';
import { freshMachine, petsInShell } from '../helpers/pets.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { testIfInstalled } from '../helpers/skip.ts';

testIfInstalled('faketime')(
  'a rate limit lasts as long for a command whose clock is a day ahead, or a day behind',
  async () => {
    const { url, requests } = await scriptedServer((_, response, count) =>
      count === 1
        ? replyError(response, 429, 'rate_limited', { 'Retry-After': '60' })
        : reply(response, 200, []),
    );
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: url, key: 'pets_k' });
    const list = async (offset: string) => {
      const { code, stderr } = await machine.shell(
        `exec faketime -f ${offset} ${petsInShell} list --max-wait 0 --json`,
      );
      return [code, /in (1 min|\d\d s)\)/.test(stderr)];
    };
    for (const offset of ['+24h', '+0', '-24h']) expect(await list(offset)).toEqual([5, true]);
    expect(requests).toHaveLength(1);
  },
);
