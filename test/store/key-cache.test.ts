import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { KeyFiles } from '../../src/store/journal/key-files.ts';
import { hashKey, KeyCache, KeyManager, type KeyRequest, type StoredKey } from '../../src/store/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const keysOf = (directory: string) => new KeyManager(new KeyFiles(directory), manualClock());
const create = (directory: string, request: KeyRequest) => keysOf(directory).create(request);

async function cacheWithKey(intercept: Intercept = () => {}) {
  const directory = await temporaryDirectory();
  const { key } = await create(directory, { name: 'a', plan: 'pro' });
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

it('finds keys, stored or temporary, that were added while the keys were being read', async () => {
  const [reading, released] = [gate(), gate()];
  const { directory, keys } = await cacheWithKey(async (name) => {
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

it('reads the keys twice a second for known keys, and ten times a second for unknown ones', async () => {
  const clock = manualClock();
  const key: StoredKey = {
    name: 'a',
    plan: 'free',
    sha256: hashKey('a'),
    created: '2026-11-20T12:00:00.000Z',
  };
  let reads = 0;
  const read = async () => {
    reads++;
    return [key];
  };
  const sleep = async (milliseconds: number) => clock.advance(milliseconds);
  const keys = new KeyCache(read, { clock, sleep, onWarning() {} });
  for (const [sha256, expected] of [
    [key.sha256, 2],
    [hashKey('unknown'), 11],
  ] as const) {
    clock.advance(1_000);
    reads = 0;
    for (const end = clock.elapsed() + 1_000; clock.elapsed() < end; clock.advance(1)) {
      const found = await Promise.all(Array.from({ length: 5 }, () => keys.find(sha256)));
      expect(found.every((each) => each?.name === (expected === 2 ? 'a' : undefined))).toBe(true);
    }
    expect(reads).toBeLessThanOrEqual(expected);
  }
});
