import { createHash } from 'node:crypto';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { KeyFiles } from '../../src/store/journal/key-files.ts';
import type { KeyRequest } from '../../src/store/keys/keys.ts';
import type { FileSystem } from '../../src/system/file-system.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const keysOf = (directory: string, files?: FileSystem) =>
  new KeyFiles(directory, { clock: manualClock(), ...(files && { files }) });
const create = (directory: string, request: KeyRequest) => keysOf(directory).create(request);

describe('an API key', () => {
  it('is returned once and stored as a hash, in a private file', async () => {
    const directory = join(await temporaryDirectory(), 'store');
    const before = process.umask(0);
    onTestFinished(() => void process.umask(before));
    const created = await create(directory, { name: 'till-1', plan: 'pro' });
    expect(created).toEqual({
      name: 'till-1',
      plan: 'pro',
      key: created.key,
      quota: { perMinute: 300, perDay: 10_000 },
    });
    expect(created.key).toMatch(/^pets_[A-Za-z0-9_-]{43}$/);
    const path = join(directory, 'keys', 'till-1.json');
    const text = await readFile(path, 'utf8');
    expect(JSON.parse(text)).toEqual({
      name: 'till-1',
      plan: 'pro',
      sha256: createHash('sha256').update(created.key).digest('hex'),
      created: '2026-11-20T12:00:00.000Z',
    });
    expect(text).not.toContain(created.key.slice(5));
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(directory, 'keys'))).mode & 0o777).toBe(0o700);
    expect(await readdir(join(directory, 'keys'))).toEqual(['till-1.json']);
  });

  it('leaves only its own file after concurrent creations, and none if it is refused', async () => {
    const directory = await temporaryDirectory();
    await expect(create(directory, { name: '../a', plan: 'pro' })).rejects.toThrow(StoreError);
    expect(await readdir(directory)).toEqual([]);
    const creating = Array.from({ length: 20 }, () => create(directory, { name: 'till', plan: 'free' }));
    await Promise.allSettled(creating);
    expect(await readdir(join(directory, 'keys'))).toEqual(['till.json']);
  });

  it.each(['../journal', 'a/../b', '', '.', 'a\u0000'])(
    'is not searched in the file system if its name is not valid: %j',
    async (name) => {
      const directory = await temporaryDirectory();
      await writeFile(join(directory, 'journal.json'), '');
      await create(directory, { name: 'b', plan: 'pro' });
      await expect(keysOf(directory).revoke(name)).rejects.toThrow('no key named');
      expect(await readdir(directory)).toContain('journal.json');
    },
  );

  it.each([
    ['not JSON', '{"name":"a"'],
    ['empty', ''],
    ['without a hash', '{"name":"a","plan":"pro","created":"2026-11-20T12:00:00.000Z"}'],
    [
      'of another key',
      `{"name":"b","plan":"pro","sha256":"${'0'.repeat(64)}","created":"2026-11-20T12:00:00.000Z"}`,
    ],
  ])('is reported as damaged if its file is %s', async (_, text) => {
    const directory = await temporaryDirectory();
    await create(directory, { name: 'a', plan: 'pro' });
    const path = join(directory, 'keys', 'a.json');
    await writeFile(path, text);
    await expect(keysOf(directory).list()).rejects.toThrow(`${path} is damaged`);
  });
});

describe('durability', () => {
  const callsOf = async (work: (directory: string, files: FileSystem) => Promise<unknown>) => {
    const directory = await temporaryDirectory();
    const calls: string[] = [];
    const files = interceptFiles(
      (name, path) => void calls.push(`${name} ${basename(path).replace(/-[0-9a-f]+$/, '')}`),
    );
    await work(directory, files);
    return calls.filter((call) => /^(datasync|link|syncDirectory keys|unlink .*json)/.test(call));
  };

  it('a key file is synced before it gets its name, and its name before the key is returned', async () => {
    const calls = await callsOf((directory, files) =>
      keysOf(directory, files).create({ name: 'a', plan: 'free' }),
    );
    expect(calls).toEqual(['datasync a.new', 'link a.new', 'syncDirectory keys']);
  });

  it('the deletion of a key file is synced before the call returns', async () => {
    const calls = await callsOf(async (directory, files) => {
      await create(directory, { name: 'a', plan: 'free' });
      await keysOf(directory, files).revoke('a');
    });
    expect(calls).toEqual(['unlink a.json', 'syncDirectory keys']);
  });

  it('a key whose name cannot be synced does not exist', async () => {
    const directory = await temporaryDirectory();
    const files = interceptFiles((name, path) => {
      if (name === 'syncDirectory' && basename(path) === 'keys') throw errno('EIO');
    });
    await expect(keysOf(directory, files).create({ name: 'a', plan: 'free' })).rejects.toThrow(/EIO/);
    expect(await readdir(join(directory, 'keys'))).toEqual([]);
    expect((await create(directory, { name: 'a', plan: 'free' })).key).toMatch(/^pets_/);
  });
});
