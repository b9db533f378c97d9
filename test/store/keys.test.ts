import { createHash } from 'node:crypto';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { KeyFiles } from '../../src/store/journal/key-files.ts';
import { hashKey, type KeyRequest } from '../../src/store/keys/keys.ts';
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

  it('can have its own quota with the enterprise plan', async () => {
    const directory = await temporaryDirectory();
    const quota = { perMinute: 1, perDay: 10 ** 15 };
    expect((await create(directory, { name: 'a', plan: 'enterprise', quota })).quota).toEqual(quota);
    expect((await create(directory, { name: 'b', plan: 'enterprise' })).quota).toEqual({
      perMinute: 1e9,
      perDay: 1e12,
    });
    expect(await keysOf(directory).list()).toMatchObject([{ name: 'a', ...quota }, { name: 'b' }]);
  });

  const enterprise = (perMinute: number, perDay: number) => ({
    name: 'a',
    plan: 'enterprise' as const,
    quota: { perMinute, perDay },
  });
  it.each<[string, unknown]>([
    ['an empty name', { name: '', plan: 'pro' }],
    ['a path as its name', { name: '../a', plan: 'pro' }],
    ['a name with a separator', { name: 'a/b', plan: 'pro' }],
    ['a name that starts with a dot', { name: '.a', plan: 'pro' }],
    ['a name with capitals', { name: 'Till', plan: 'pro' }],
    ['a name with a newline', { name: 'a\n', plan: 'pro' }],
    ['a name with a NUL', { name: 'a\u0000', plan: 'pro' }],
    ['a name of 65 characters', { name: 'a'.repeat(65), plan: 'pro' }],
    ['an unknown plan', { name: 'a', plan: 'gold' }],
    ['a quota with another plan', { name: 'a', plan: 'pro', quota: { perMinute: 1, perDay: 1 } }],
    ['half a quota', { name: 'a', plan: 'enterprise', quota: { perMinute: 1 } }],
    ['a quota of 0', enterprise(0, 1)],
    ['a negative quota', enterprise(1, -1)],
    ['a quota of 1.5', enterprise(1.5, 1)],
    ['a quota above 10^15', enterprise(1, 10 ** 15 + 1)],
    ['a quota that is not a number', enterprise(Number.NaN, 1)],
  ])('is not created with %s', async (_, request) => {
    const directory = await temporaryDirectory();
    await expect(create(directory, request as KeyRequest)).rejects.toThrow(StoreError);
    expect(await readdir(directory)).toEqual([]);
  });

  it('is created once by twenty concurrent calls with the same name', async () => {
    const directory = await temporaryDirectory();
    const attempts = await Promise.allSettled(
      Array.from({ length: 20 }, () => create(directory, { name: 'till', plan: 'free' })),
    );
    const created = attempts.filter((attempt) => attempt.status === 'fulfilled');
    expect(created).toHaveLength(1);
    for (const attempt of attempts) {
      if (attempt.status === 'rejected')
        expect(attempt.reason.message).toBe('a key named till already exists');
    }
    expect((await keysOf(directory).list())[0]?.sha256).toBe(hashKey(created[0]?.value.key ?? ''));
    expect(await readdir(join(directory, 'keys'))).toEqual(['till.json']);
  });

  it('can be revoked once, and then created again', async () => {
    const directory = await temporaryDirectory();
    await create(directory, { name: 'a', plan: 'pro' });
    await create(directory, { name: 'b', plan: 'pro' });
    await keysOf(directory).revoke('a');
    expect((await keysOf(directory).list()).map(({ name }) => name)).toEqual(['b']);
    const error = await keysOf(directory)
      .revoke('a')
      .catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreError);
    expect(error.hint).toContain('b');
    await create(directory, { name: 'a', plan: 'pro' });
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

  it('is not listed in a new store', async () => {
    expect(await keysOf(await temporaryDirectory()).list()).toEqual([]);
  });

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
