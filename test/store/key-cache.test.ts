import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { KeyFiles } from '../../src/store/journal/key-files.ts';
import { hashKey, KeyCache, KeyManager, type KeyRequest } from '../../src/store/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const keysOf = (directory: string) => new KeyManager(new KeyFiles(directory), manualClock());
const create = (directory: string, request: KeyRequest) => keysOf(directory).create(request);

async function cacheWithKey(plan: KeyRequest['plan'] = 'pro', intercept: Intercept = () => {}) {
  const directory = await temporaryDirectory();
  const { key } = await create(directory, { name: 'a', plan });
  const warnings: string[] = [];
  const clock = manualClock();
  const keyFiles = new KeyFiles(directory, interceptFiles(intercept));
  const keys = new KeyCache(() => keyFiles.read(), {
    clock,
    sleep: async (milliseconds) => clock.advance(milliseconds),
    onWarning: (warning) => void warnings.push(warning),
  });
  return { directory, key, keys, clock, warnings };
}

it('does not find a revoked key after the clock was set back', async () => {
  const { directory, keys, clock, key } = await cacheWithKey();
  await keys.find(hashKey(key));
  await keysOf(directory).revoke('a');
  clock.step(-1_000_000);
  clock.advance(999);
  expect(await keys.find(hashKey(key))).toBeUndefined();
});

it('warns once about a damaged file, and finds the other keys', async () => {
  const { directory, keys, clock, key, warnings } = await cacheWithKey();
  const damaged = await create(directory, { name: 'b', plan: 'pro' });
  await writeFile(join(directory, 'keys', 'b.json'), '{');
  for (let i = 0; i < 8; i++) {
    expect(await keys.find(hashKey(key))).toBeDefined();
    expect(await keys.find(hashKey(damaged.key))).toBeUndefined();
    await writeFile(join(directory, 'keys', 'b.json'), '{'.repeat(i + 2));
    clock.advance(600);
  }
  expect(warnings).toEqual([expect.stringContaining(join(directory, 'keys', 'b.json'))]);
});

it('does not find a revoked key if another one has its name and cannot be read', async () => {
  let isReadable = true;
  const { directory, keys, clock, key, warnings } = await cacheWithKey('free', (name) => {
    if (name === 'open read' && !isReadable) throw errno('EACCES');
  });
  expect(await keys.find(hashKey(key))).toMatchObject({ plan: 'free' });
  await keysOf(directory).revoke('a');
  const other = await create(directory, { name: 'a', plan: 'pro' });
  isReadable = false;
  clock.advance(1_000);
  expect(await keys.find(hashKey(key))).toBeUndefined();
  isReadable = true;
  clock.advance(1_000);
  expect(await keys.find(hashKey(other.key))).toMatchObject({ plan: 'pro' });
  expect(warnings).toEqual([expect.stringContaining('EACCES')]);
});

it('finds keys, stored or temporary, that were added while the keys were being read', async () => {
  const [reading, released] = [gate(), gate()];
  const { directory, keys } = await cacheWithKey('pro', async (name) => {
    if (name !== 'readdir') return;
    reading.open();
    await released.opened;
  });
  const unknown = keys.find('0');
  const temporary = keys.find(hashKey('my own key'));
  await reading.opened;
  const { key } = await create(directory, { name: 'b', plan: 'free' });
  const found = keys.find(hashKey(key));
  keys.addTemporary('(fixed)', 'free', 'my own key');
  released.open();
  expect(await found).toMatchObject({ name: 'b' });
  expect(await temporary).toMatchObject({ name: '(fixed)' });
  expect(await unknown).toBeUndefined();
});
