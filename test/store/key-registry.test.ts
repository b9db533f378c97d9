import { execFileSync } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { KeyRegistry } from '../../src/store/keys/key-registry.ts';
import { createKey, hashKey, type KeyRequest, listKeys, revokeKey } from '../../src/store/keys/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const create = (directory: string, request: KeyRequest) => createKey(directory, request, manualClock());

/** A registry. `counts` has its warnings, and how often it read the directory. */
function registryOf(directory: string, intercept: Intercept = () => {}) {
  const counts = { scans: 0, warnings: [] as string[] };
  const files = interceptFiles((name, path) => {
    if (name === 'readdir') counts.scans++;
    return intercept(name, path);
  });
  const onWarning = (warning: string) => void counts.warnings.push(warning);
  return { registry: new KeyRegistry(directory, { onWarning, files }), counts };
}

/** A registry for a directory with one key. */
async function registryWithKey(plan: KeyRequest['plan'] = 'pro', intercept?: Intercept) {
  const directory = await temporaryDirectory();
  const { key } = await create(directory, { name: 'a', plan });
  return { directory, key, ...registryOf(directory, intercept) };
}

it('does not find a revoked key after a second, but finds a new key with the same name', async () => {
  const { directory, registry, key } = await registryWithKey();
  expect(await registry.find(hashKey(key), 0)).toBeDefined();
  await revokeKey(directory, 'a');
  const second = await create(directory, { name: 'a', plan: 'free' });
  expect(await registry.find(hashKey(key), 999)).toBeUndefined();
  expect(await registry.find(hashKey(second.key), 999)).toMatchObject({ plan: 'free' });
});

it('does not find a revoked key after the clock was set back', async () => {
  const { directory, registry, key } = await registryWithKey();
  await registry.find(hashKey(key), 1_000_000);
  await revokeKey(directory, 'a');
  expect(await registry.find(hashKey(key), 10)).toBeUndefined();
});

it('reads the directory twice a second for known keys, and at most ten times more for unknown keys', async () => {
  const { directory, key, ...known } = await registryWithKey();
  const unknown = registryOf(directory);
  for (let now = 0; now < 1_000; now++) {
    await known.registry.find(hashKey(key), now);
    await unknown.registry.find(hashKey(`x${now}`), now);
  }
  expect(known.counts.scans).toBe(2);
  expect(unknown.counts.scans).toBeLessThanOrEqual(12);
});

it('reads the directory once for many concurrent calls', async () => {
  const { registry, key, counts } = await registryWithKey();
  const found = await Promise.all(Array.from({ length: 50 }, () => registry.find(hashKey(key), 0)));
  expect(found.every(Boolean)).toBe(true);
  expect(counts.scans).toBe(1);
});

it('warns once about a damaged file, and finds the other keys', async () => {
  const { directory, registry, key, counts } = await registryWithKey();
  const damaged = await create(directory, { name: 'b', plan: 'pro' });
  await writeFile(join(directory, 'keys', 'b.json'), '{');
  for (let now = 0; now < 5_000; now += 600) {
    expect(await registry.find(hashKey(key), now)).toBeDefined();
    expect(await registry.find(hashKey(damaged.key), now)).toBeUndefined();
    await writeFile(join(directory, 'keys', 'b.json'), '{'.repeat(now + 2));
  }
  expect(counts.warnings).toEqual([expect.stringContaining(join(directory, 'keys', 'b.json'))]);
});

it('finds a temporary key, which has no file', async () => {
  const directory = await temporaryDirectory();
  const { registry } = registryOf(directory);
  const key = registry.addTemporary('dev', 'free');
  expect(key).toMatch(/^pets_[\w-]{43}$/);
  expect(await registry.find(hashKey(key), 10_000)).toMatchObject({ plan: 'free' });
  expect(await readdir(directory)).toEqual([]);
});

it('still finds a key whose file temporarily cannot be read', async () => {
  let failures = 1;
  const { registry, key, counts } = await registryWithKey('free', (name) => {
    if (name === 'open read' && failures-- > 0) throw errno('EMFILE');
  });
  await registry.find(hashKey(key), 10_000);
  expect(await registry.find(hashKey(key), 11_000)).toMatchObject({ plan: 'free' });
  expect(counts.warnings).toEqual([expect.stringContaining('EMFILE')]);
});

it('finds a key that was just created, even if it is often asked for unknown keys', async () => {
  const directory = await temporaryDirectory();
  await create(directory, { name: 'first', plan: 'free' });
  const registry = new KeyRegistry(directory);
  for (let i = 0; i < 20; i++) {
    expect(await registry.find(hashKey(`unknown ${i}`), 1_000)).toBeUndefined();
    // Wait longer than the resolution of file times, so that the directory gets a new modification time.
    await new Promise((resolve) => setTimeout(resolve, 10));
    const { key } = await create(directory, { name: `key-${i}`, plan: 'free' });
    expect(await registry.find(hashKey(key), 1_000)).toMatchObject({ name: `key-${i}` });
  }
});

it('finds a key that a concurrent call reads while this call checks the directory', async () => {
  const directory = await temporaryDirectory();
  let reading: unknown;
  let checks = 0;
  const { registry } = registryOf(directory, async (name) => {
    if (name === 'version' && ++checks === 2) await reading;
  });
  await registry.load(0);
  const { key } = await create(directory, { name: 'a', plan: 'free' });
  reading = registry.find(hashKey(key), 0);
  expect(await registry.find(hashKey(key), 0)).toMatchObject({ name: 'a' });
});

it.skipIf(process.platform === 'win32')('does not wait for a named pipe in the directory', async () => {
  const { directory, registry, key, counts } = await registryWithKey();
  execFileSync('mkfifo', [join(directory, 'keys', 'pipe.json')]);
  expect(await registry.find(hashKey(key), 0)).toMatchObject({ name: 'a' });
  expect(counts.warnings).toEqual([expect.stringContaining('pipe.json')]);
  await expect(listKeys(directory)).rejects.toThrow('pipe.json');
});
