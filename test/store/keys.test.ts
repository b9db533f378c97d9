import { createHash } from 'node:crypto';
import { cp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../src/store/errors.ts';
import { journalLocation } from '../../src/store/journal/journal-location.ts';
import { KeyFiles } from '../../src/store/journal/key-files.ts';
import { hashKey, KeyManager, type KeyRequest } from '../../src/store/keys.ts';
import type { FileSystem } from '../../src/system/file-system.ts';
import { manualClock } from '../helpers/clock.ts';
import { interceptFiles } from '../helpers/store-faults.ts';
import { openAsServer } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const keysOf = (directory: string, files?: FileSystem) =>
  new KeyManager(new KeyFiles(directory, files), manualClock());
const create = (directory: string, request: KeyRequest) => keysOf(directory).create(request);

describe('an API key', () => {
  it('is returned once and stored as a hash', async () => {
    const directory = await temporaryDirectory();
    const created = await create(directory, { name: 'till-1', plan: 'pro' });
    const path = join(directory, 'keys', 'till-1.json');
    const text = await readFile(path, 'utf8');
    expect(JSON.parse(text)).toEqual({
      name: 'till-1',
      plan: 'pro',
      sha256: createHash('sha256').update(created.key).digest('hex'),
      created: '2026-11-20T12:00:00.000Z',
    });
    expect(text).not.toContain(created.key.slice(5));
    expect(await readdir(join(directory, 'keys'))).toEqual(['till-1.json']);
  });

  it('is reported as damaged if its file is not JSON, incomplete, or that of another key', async () => {
    const directory = await temporaryDirectory();
    await create(directory, { name: 'a', plan: 'pro' });
    const path = join(directory, 'keys', 'a.json');
    const text = await readFile(path, 'utf8');
    for (const damaged of ['{"name":"a"', '', text.replace('sha256', 'sha'), text.replace('"a"', '"b"')]) {
      await writeFile(path, damaged);
      await expect(keysOf(directory).list()).rejects.toThrow(`${path} is damaged`);
    }
  });

  it('is on the disk before it is returned, as is its deletion before that is reported', async () => {
    const directory = await temporaryDirectory();
    const calls: string[] = [];
    const files = interceptFiles(
      (name, path) => void calls.push(`${name} ${basename(path).replace(/-[0-9a-f]+$/, '')}`),
    );
    const keys = keysOf(directory, files);
    await keys.create({ name: 'a', plan: 'free' });
    await keys.revoke('a');
    expect(calls.filter((call) => /^(datasync|link|syncDirectory keys|unlink .*json)/.test(call))).toEqual([
      ...['datasync a.new', 'link a.new', 'syncDirectory keys'],
      ...['unlink a.json', 'syncDirectory keys'],
    ]);
  });
});

/** Opens a store with the key `till` as a server does. */
async function openServer() {
  const directory = join(await temporaryDirectory(), 'store');
  const clock = manualClock();
  const location = journalLocation(directory, clock);
  const failures: Error[] = [];
  const warnings: string[] = [];
  const backend = await openAsServer(location, {
    clock,
    sleep: async () => {},
    onWarning: (message) => warnings.push(message),
    onFailure: (error) => failures.push(error),
  });
  const { key } = await location.manageKeys((keys) => keys.create({ name: 'till', plan: 'free' }));
  expect(await backend.keys.find(hashKey(key))).toMatchObject({ name: 'till' });
  return { directory, clock, backend, failures, warnings, sha256: hashKey(key) };
}

/** Copies a directory without the sockets of its lock. */
const copy = (from: string, to: string) =>
  cp(from, to, { recursive: true, filter: (path) => !basename(path).startsWith('lock-') });

describe.skipIf(process.platform === 'win32')('after the directory was moved', () => {
  const replacements: [string, (directory: string, other: string) => Promise<unknown>][] = [
    ['nothing', async () => {}],
    ['only its keys', (directory) => copy(`${directory}.x/keys`, join(directory, 'keys'))],
    ['another store', (directory, other) => rename(other, directory)],
    ['a copy', (directory) => copy(`${directory}.x`, directory)],
  ];
  it.each(replacements)('a server accepts no key, and stops: in its place is %s', async (_, replace) => {
    const other = await openServer();
    await other.backend.close();
    const { directory, clock, backend, failures, sha256 } = await openServer();
    await rename(directory, `${directory}.x`);
    await replace(directory, other.directory);
    clock.advance(100);
    await expect(backend.keys.find(other.sha256)).rejects.toThrow(StoreUnavailableError);
    clock.advance(899);
    await expect(backend.keys.find(sha256)).rejects.toThrow(/journal.ndjson was moved, replaced or deleted/);
    await expect(backend.keys.list()).rejects.toThrow(StoreUnavailableError);
    expect(failures).toEqual([expect.objectContaining({ message: expect.stringContaining(directory) })]);
  });
});

it('while the directory of the keys cannot be read, a server accepts no key, and reports it once', async () => {
  const { directory, clock, backend, failures, warnings, sha256 } = await openServer();
  const keys = join(directory, 'keys');
  await rename(keys, `${keys}.x`);
  await writeFile(keys, '');
  for (let i = 0; i < 3; i++) {
    clock.advance(1_000);
    await expect(backend.keys.find(sha256)).rejects.toThrow(StoreUnavailableError);
    await expect(backend.keys.find(sha256)).rejects.toMatchObject({ outcome: 'not_done' });
  }
  expect(warnings).toEqual([expect.stringContaining(keys)]);
  await rm(keys);
  await rename(`${keys}.x`, keys);
  expect(await backend.keys.find(sha256)).toMatchObject({ name: 'till' });
  expect(failures).toEqual([]);
});
