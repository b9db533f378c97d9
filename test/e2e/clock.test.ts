import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { expect } from 'vitest';
import { freshMachine, petsInShell, serveCommand } from '../helpers/pets.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { testIfInstalled } from '../helpers/skip.ts';

// These tests change the system time of a command or a server with faketime.

/** The value of LD_PRELOAD that loads faketime into a process; undefined if faketime is not installed. */
const library = spawnSync('faketime', ['-f', '+0', 'printenv', 'LD_PRELOAD'], {
  encoding: 'utf8',
}).stdout?.trim();

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

testIfInstalled('faketime')(
  'if the clock of a server is set back by a day, a key without requests left is refused for a minute at most',
  async () => {
    const machine = await freshMachine();
    const offset = await machine.file('offset', '+0');
    const env = {
      LD_PRELOAD: library ?? '',
      FAKETIME_TIMESTAMP_FILE: offset,
      FAKETIME_NO_CACHE: '1',
      // A change of the system time does not change the monotonic clock.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
    const { url, key } = await serveCommand(machine, ['--ephemeral', '--plan', 'free'], { env });
    const send = () => fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${key}` } });
    const untilRefused = () => expect.poll(async () => (await send()).status).toBe(429);
    await untilRefused();
    await writeFile(offset, '-1d');
    await untilRefused();
    expect(Number((await send()).headers.get('retry-after'))).toBeLessThanOrEqual(60);
  },
);
