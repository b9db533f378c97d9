import { createHash, randomBytes } from 'node:crypto';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { type Files, realFiles } from '../../src/store/files.ts';
import { KeyRegistry } from '../../src/store/key-registry.ts';
import { createKey, hashKey, type KeyRequest, listKeys, revokeKey } from '../../src/store/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const create = (directory: string, request: KeyRequest) =>
  createKey(directory, request, { clock: manualClock(), random: randomBytes });

describe('a key', () => {
  it('is shown once, and kept as a hash in a file of its own', async () => {
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

  it('has the quota that was agreed, with the plan enterprise', async () => {
    const directory = await temporaryDirectory();
    const quota = { perMinute: 1, perDay: 10 ** 15 };
    expect((await create(directory, { name: 'a', plan: 'enterprise', quota })).quota).toEqual(quota);
    expect((await create(directory, { name: 'b', plan: 'enterprise' })).quota).toEqual({
      perMinute: 1e9,
      perDay: 1e12,
    });
    expect(await listKeys(directory)).toMatchObject([{ name: 'a', ...quota }, { name: 'b' }]);
  });

  const enterprise = (perMinute: number, perDay: number) => ({
    name: 'a',
    plan: 'enterprise' as const,
    quota: { perMinute, perDay },
  });
  it.each<[string, unknown]>([
    ['no name', { name: '', plan: 'pro' }],
    ['a path', { name: '../a', plan: 'pro' }],
    ['a separator', { name: 'a/b', plan: 'pro' }],
    ['a hidden file', { name: '.a', plan: 'pro' }],
    ['capitals', { name: 'Till', plan: 'pro' }],
    ['a newline', { name: 'a\n', plan: 'pro' }],
    ['a NUL', { name: 'a\u0000', plan: 'pro' }],
    ['a name of 65', { name: 'a'.repeat(65), plan: 'pro' }],
    ['an unknown plan', { name: 'a', plan: 'gold' }],
    ['a quota with another plan', { name: 'a', plan: 'pro', quota: { perMinute: 1, perDay: 1 } }],
    ['half a quota', { name: 'a', plan: 'enterprise', quota: { perMinute: 1 } }],
    ['a quota of 0', enterprise(0, 1)],
    ['a negative quota', enterprise(1, -1)],
    ['a quota of 1.5', enterprise(1.5, 1)],
    ['a quota above 10^15', enterprise(1, 10 ** 15 + 1)],
    ['a quota that is no number', enterprise(Number.NaN, 1)],
  ])('is not made of %s', async (_, request) => {
    const directory = await temporaryDirectory();
    await expect(create(directory, request as KeyRequest)).rejects.toThrow(StoreError);
    expect(await readdir(directory)).toEqual([]);
  });

  it('is made once, of twenty that want its name at once', async () => {
    const directory = await temporaryDirectory();
    const attempts = await Promise.allSettled(
      Array.from({ length: 20 }, () => create(directory, { name: 'till', plan: 'free' })),
    );
    const made = attempts.filter((attempt) => attempt.status === 'fulfilled');
    expect(made).toHaveLength(1);
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') expect(attempt.reason.message).toBe('a key named till exists');
    }
    expect((await listKeys(directory))[0]?.sha256).toBe(hashKey(made[0]?.value.key ?? ''));
    expect(await readdir(join(directory, 'keys'))).toEqual(['till.json']);
  });

  it('can be revoked once, and then made anew', async () => {
    const directory = await temporaryDirectory();
    await create(directory, { name: 'a', plan: 'pro' });
    await create(directory, { name: 'b', plan: 'pro' });
    await revokeKey(directory, 'a');
    expect((await listKeys(directory)).map(({ name }) => name)).toEqual(['b']);
    const error = await revokeKey(directory, 'a').catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreError);
    expect(error.hint).toContain('b');
    await create(directory, { name: 'a', plan: 'pro' });
  });

  it.each(['../journal', 'a/../b', '', '.', 'a\u0000'])(
    'of the name %j is not looked for in the file system',
    async (name) => {
      const directory = await temporaryDirectory();
      await writeFile(join(directory, 'journal.json'), '');
      await create(directory, { name: 'b', plan: 'pro' });
      await expect(revokeKey(directory, name)).rejects.toThrow('no key named');
      expect(await readdir(directory)).toContain('journal.json');
    },
  );

  it('is none where the store has none', async () => {
    expect(await listKeys(await temporaryDirectory())).toEqual([]);
  });

  it.each([
    ['not JSON', '{"name":"a"'],
    ['empty', ''],
    ['without its hash', '{"name":"a","plan":"pro","created":"2026-11-20T12:00:00.000Z"}'],
    [
      'of another name',
      `{"name":"b","plan":"pro","sha256":"${'0'.repeat(64)}","created":"2026-11-20T12:00:00.000Z"}`,
    ],
  ])('whose file is %s is named', async (_, text) => {
    const directory = await temporaryDirectory();
    await create(directory, { name: 'a', plan: 'pro' });
    const path = join(directory, 'keys', 'a.json');
    await writeFile(path, text);
    await expect(listKeys(directory)).rejects.toThrow(`${path} is damaged`);
  });
});

describe('the registry of keys', () => {
  /** A registry that counts how often it reads the directory. */
  function registryOf(directory: string) {
    const figures = { scans: 0, warnings: [] as string[] };
    const files = {
      ...realFiles,
      readdir: (path: string) => {
        figures.scans++;
        return realFiles.readdir(path);
      },
    };
    return {
      registry: new KeyRegistry(directory, {
        onWarning: (warning) => void figures.warnings.push(warning),
        files,
      }),
      figures,
    };
  }

  it('finds a key by its hash, and no other', async () => {
    const directory = await temporaryDirectory();
    const { key } = await create(directory, { name: 'a', plan: 'business' });
    const { registry } = registryOf(directory);
    expect(await registry.find(hashKey(key), 0)).toMatchObject({ name: 'a', plan: 'business' });
    expect(await registry.find(hashKey('pets_x'), 0)).toBeUndefined();
  });

  it('finds a key that was only just made', async () => {
    const directory = await temporaryDirectory();
    const { registry } = registryOf(directory);
    await registry.find(hashKey('other'), 0);
    const { key } = await create(directory, { name: 'a', plan: 'pro' });
    expect(await registry.find(hashKey(key), 100)).toBeDefined();
  });

  it('refuses a revoked key within a second, and takes its successor of the same name', async () => {
    const directory = await temporaryDirectory();
    const first = await create(directory, { name: 'a', plan: 'pro' });
    const { registry } = registryOf(directory);
    expect(await registry.find(hashKey(first.key), 0)).toBeDefined();
    await revokeKey(directory, 'a');
    const second = await create(directory, { name: 'a', plan: 'free' });
    expect(await registry.find(hashKey(first.key), 999)).toBeUndefined();
    expect(await registry.find(hashKey(second.key), 999)).toMatchObject({ plan: 'free' });
  });

  it('does not keep a revoked key because the clock was set back', async () => {
    const directory = await temporaryDirectory();
    const { key } = await create(directory, { name: 'a', plan: 'pro' });
    const { registry } = registryOf(directory);
    await registry.find(hashKey(key), 1_000_000);
    await revokeKey(directory, 'a');
    expect(await registry.find(hashKey(key), 10)).toBeUndefined();
  });

  it('reads twice a second for good keys, and ten times more at most for unknown ones', async () => {
    const directory = await temporaryDirectory();
    const { key } = await create(directory, { name: 'a', plan: 'pro' });
    const good = registryOf(directory);
    const bad = registryOf(directory);
    for (let now = 0; now < 1_000; now++) {
      await good.registry.find(hashKey(key), now);
      await bad.registry.find(hashKey(`x${now}`), now);
    }
    expect(good.figures.scans).toBe(2);
    expect(bad.figures.scans).toBeLessThanOrEqual(12);
  });

  it('reads once for many that ask at once', async () => {
    const directory = await temporaryDirectory();
    const { key } = await create(directory, { name: 'a', plan: 'pro' });
    const { registry, figures } = registryOf(directory);
    const found = await Promise.all(Array.from({ length: 50 }, () => registry.find(hashKey(key), 0)));
    expect(found.every(Boolean)).toBe(true);
    expect(figures.scans).toBe(1);
  });

  it('goes on with the good keys where a file is damaged, and warns once', async () => {
    const directory = await temporaryDirectory();
    const { key } = await create(directory, { name: 'a', plan: 'pro' });
    const damaged = await create(directory, { name: 'b', plan: 'pro' });
    await writeFile(join(directory, 'keys', 'b.json'), '{');
    const { registry, figures } = registryOf(directory);
    for (let now = 0; now < 5_000; now += 600) {
      expect(await registry.find(hashKey(key), now)).toBeDefined();
      expect(await registry.find(hashKey(damaged.key), now)).toBeUndefined();
      await writeFile(join(directory, 'keys', 'b.json'), '{'.repeat(now + 2));
    }
    expect(figures.warnings).toEqual([expect.stringContaining(join(directory, 'keys', 'b.json'))]);
  });

  it('knows a temporary key that is in no file', async () => {
    const directory = await temporaryDirectory();
    const { registry } = registryOf(directory);
    const key = registry.addTemporary('free');
    expect(key).toMatch(/^pets_[\w-]{43}$/);
    expect(await registry.find(hashKey(key), 10_000)).toMatchObject({ plan: 'free' });
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('what is told of a key is on the disk', () => {
  const callsOf = async (work: (directory: string, files: Files) => Promise<unknown>) => {
    const directory = await temporaryDirectory();
    const calls: string[] = [];
    const files = interceptFiles(
      (name, path) => void calls.push(`${name} ${basename(path).replace(/-[0-9a-f]+$/, '')}`),
    );
    await work(directory, files);
    return calls.filter((call) => /^(datasync|link|syncDirectory keys|unlink .*json)/.test(call));
  };
  const options = (files: Files) => ({ clock: manualClock(), random: randomBytes, files });

  it('its file is synced before it has its name, and the name before the key is shown', async () => {
    const calls = await callsOf((directory, files) =>
      createKey(directory, { name: 'a', plan: 'free' }, options(files)),
    );
    expect(calls).toEqual(['datasync a.new', 'link a.new', 'syncDirectory keys']);
  });

  it('its removal is synced before the revocation is told', async () => {
    const calls = await callsOf(async (directory, files) => {
      await create(directory, { name: 'a', plan: 'free' });
      await revokeKey(directory, 'a', files);
    });
    expect(calls).toEqual(['unlink a.json', 'syncDirectory keys']);
  });

  it('one that could not be made is not there', async () => {
    const directory = await temporaryDirectory();
    const files = interceptFiles((name, path) => {
      if (name === 'syncDirectory' && basename(path) === 'keys') throw errno('EIO');
    });
    await expect(createKey(directory, { name: 'a', plan: 'free' }, options(files))).rejects.toThrow(/EIO/);
    expect(await readdir(join(directory, 'keys'))).toEqual([]);
    expect((await create(directory, { name: 'a', plan: 'free' })).key).toMatch(/^pets_/);
  });
});

it('a file that cannot be read for a moment costs no key', async () => {
  const directory = await temporaryDirectory();
  const { key } = await create(directory, { name: 'a', plan: 'free' });
  const warnings: string[] = [];
  let failures = 1;
  const files = interceptFiles((name) => {
    if (name === 'open read' && failures-- > 0) throw errno('EMFILE');
  });
  const registry = new KeyRegistry(directory, { onWarning: (warning) => void warnings.push(warning), files });
  await registry.find(hashKey(key), 10_000);
  expect(await registry.find(hashKey(key), 11_000)).toMatchObject({ plan: 'free' });
  expect(warnings).toEqual([expect.stringContaining('EMFILE')]);
});
