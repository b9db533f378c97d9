import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { KeyRegistry } from '../../src/store/key-registry.ts';
import { createKey, hashKey, listKeys } from '../../src/store/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// What a registry meets whose store is in use by others, good and bad.

const create = (directory: string, name: string) =>
  createKey(directory, { name, plan: 'free' }, { clock: manualClock(), random: randomBytes });

it('knows a key that was just made, though others have guessed keys all the time', async () => {
  const directory = await temporaryDirectory();
  await create(directory, 'first');
  const registry = new KeyRegistry(directory);
  for (let i = 0; i < 20; i++) {
    expect(await registry.find(hashKey(`guess ${i}`), 1_000)).toBeUndefined();
    // Longer than the tick of a file system's clock.
    await new Promise((resolve) => setTimeout(resolve, 10));
    const { key } = await create(directory, `key-${i}`);
    expect(await registry.find(hashKey(key), 1_000)).toMatchObject({ name: `key-${i}` });
  }
});

it.skipIf(process.platform === 'win32')(
  'does not wait for a pipe that somebody put among the keys',
  async () => {
    const directory = await temporaryDirectory();
    const { key } = await create(directory, 'good');
    execFileSync('mkfifo', [join(directory, 'keys', 'pipe.json')]);
    const warnings: string[] = [];
    const registry = new KeyRegistry(directory, { onWarning: (message) => warnings.push(message) });
    expect(await registry.find(hashKey(key), 0)).toMatchObject({ name: 'good' });
    expect(warnings).toEqual([expect.stringContaining('pipe.json')]);
    await expect(listKeys(directory)).rejects.toThrow('pipe.json');
  },
);
