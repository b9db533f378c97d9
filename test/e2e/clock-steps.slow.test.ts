import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, serve, serveCommand } from '../helpers/pets.ts';

// These tests change the system time of a running server with faketime. test/server/bans.test.ts has the same for bans.

/** The value of LD_PRELOAD that loads faketime into a process; undefined if faketime is not installed. */
const library = spawnSync('faketime', ['-f', '+0', 'printenv', 'LD_PRELOAD'], {
  encoding: 'utf8',
}).stdout?.trim();

/** A machine whose store has one API key. Its system time differs from the real time by an offset, such as `+1d`. */
async function machineWithClock(quota: readonly string[]) {
  const machine = await freshMachine();
  const offset = await machine.file('offset', '+0');
  const env = {
    LD_PRELOAD: library ?? '',
    FAKETIME_TIMESTAMP_FILE: offset,
    FAKETIME_NO_CACHE: '1',
    // A change of the system time does not change the monotonic clock.
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
  const data = ['--data', join(machine.home, 'store')];
  await (await serve(machine, [...data, '--no-profile'])).end('SIGTERM');
  const added = await machine.pets([
    'keys',
    'add',
    'shop',
    '--plan',
    'enterprise',
    ...quota,
    ...data,
    '--json',
  ]);
  const { key } = JSON.parse(added.stdout);
  return {
    setOffset: (text: string) => writeFile(offset, text),
    async start() {
      const service = await serveCommand(machine, data, { env });
      const send = async () => {
        const response = await fetch(`${service.url}/pets`, { headers: { Authorization: `Bearer ${key}` } });
        const { code } = (await response.json()) as { code?: string };
        return { code, retryAfter: Number(response.headers.get('retry-after')) };
      };
      /** Sends requests until the response has this error code. */
      const sendUntil = (code: string) => expect.poll(async () => (await send()).code).toBe(code);
      return { ...service, send, sendUntil };
    },
  };
}

describe.skipIf(!library)('if the clock is set back by a day', () => {
  test.each([
    ['minute', 60, ['--per-minute', '1', '--per-day', '1000000']],
    ['day', 86_400, ['--per-minute', '1000000', '--per-day', '1']],
  ])('a key without requests left is refused until the end of its %s', async (_name, seconds, quota) => {
    const { setOffset, start } = await machineWithClock(quota);
    const { send, sendUntil } = await start();
    await sendUntil('rate_limited');
    await setOffset('-1d');
    await sendUntil('rate_limited');
    expect((await send()).retryAfter).toBeLessThanOrEqual(seconds);
  });
});
