import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { acquireDirectoryLock, type DirectoryLock, findLockOwner } from '../../src/system/directory-lock.ts';
import { openJournalStore } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const claimsIn = async (directory: string) =>
  (await readdir(directory)).filter((name) => /^(lock|claim)-/.test(name));
const errorOf = (attempt: Promise<unknown>) =>
  attempt.then(
    () => undefined,
    (error) => error,
  );

async function acquire(...args: Parameters<typeof acquireDirectoryLock>): Promise<DirectoryLock> {
  const lock = await acquireDirectoryLock(...args);
  onTestFinished(() => lock.release());
  return lock;
}

/** Opens a store, prints the result, and then waits until it is killed. */
const OPENER = `
import { openJournalStore } from './test/helpers/store-fixtures.ts';
openJournalStore({ directory: process.argv[1] }).then(
  (store) => setInterval(() => store, 1000) && console.log('open'),
  (error) => console.log(error.name),
);`;

/** Opens a store in another process. `result` is `open`, or the name of an error. */
async function openInChild(directory: string): Promise<{ child: ChildProcess; result: string }> {
  const args = ['--import', 'tsx', '--input-type=module', '--eval', OPENER, directory];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [result] = await once(child.stdout, 'data');
  return { child, result: String(result).trim() };
}

/** Listens like another process that claims the lock. Sends `reply()` to each client; undefined sends nothing. */
async function fakeClaim(directory: string, name: string, reply: () => string | undefined) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    const text = reply();
    if (text !== undefined) socket.end(text);
  });
  await once(server.listen(join(directory, name)), 'listening');
  onTestFinished(() => void server.close());
}

describe('acquireDirectoryLock', () => {
  it('gives the lock to one of many concurrent attempts', async () => {
    const directory = await temporaryDirectory();
    const attempts = await Promise.allSettled(
      Array.from({ length: 30 }, () => acquire(directory, { now: () => 0, probeTimeout: 60_000 })),
    );
    expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') expect(attempt.reason.owner).toBeDefined();
    }
    expect(await claimsIn(directory)).toHaveLength(1);
  });

  it('gives the lock to one of many processes', async () => {
    const directory = await temporaryDirectory();
    const children = await Promise.all(Array.from({ length: 6 }, () => openInChild(directory)));
    const results = children.map(({ result }) => result).sort();
    expect(results).toEqual([...Array(5).fill('StoreError'), 'open']);
  });

  it('succeeds after a release, and after a store failed to open', async () => {
    const directory = await temporaryDirectory();
    await (await acquireDirectoryLock(directory)).release();
    await writeFile(join(directory, 'journal.ndjson'), 'damaged');
    await expect(openJournalStore({ directory })).rejects.toThrow('damaged');
    expect(await claimsIn(directory)).toEqual([]);
    await acquire(directory);
  });

  it.each<[string, () => string | undefined]>([
    ['sends nothing', () => undefined],
    ['sends text that is not JSON', () => 'hello\n'],
    ['sends an unknown state', () => '{"state":"sleeping"}\n'],
  ])('fails if the other process %s', async (_, reply) => {
    const directory = await temporaryDirectory();
    await fakeClaim(directory, 'lock-4242-00000000', reply);
    const error = await errorOf(acquire(directory, { probeTimeout: 20 }));
    expect(error).toMatchObject({ name: 'LockError', owner: { pid: 4242 } });
    expect(await claimsIn(directory)).toEqual(['lock-4242-00000000']);
  });

  it.each(['lock-99999999-00000000', 'lock-0-00000000'])(
    'waits while another process is claiming, with a smaller or larger name: %s',
    async (name) => {
      const directory = await temporaryDirectory();
      let probes = 0;
      const reply = () => `{"state":"${++probes < 4 ? 'claiming' : 'holding'}","pid":7}\n`;
      await fakeClaim(directory, name, reply);
      const error = await errorOf(acquire(directory));
      expect(error).toMatchObject({ name: 'LockError', owner: { pid: 7 } });
      expect(probes).toBe(4);
      expect(await claimsIn(directory)).toEqual([name]);
    },
  );
});

describe('findLockOwner', () => {
  it('names the process that holds the lock, even in a directory whose path is too long for a socket', async () => {
    const directory = join(await temporaryDirectory(), 'x'.repeat(120), 'é'.repeat(100));
    await mkdir(directory, { recursive: true });
    expect(await findLockOwner(directory)).toBeUndefined();
    const lock = await acquire(directory);
    expect(await findLockOwner(directory)).toEqual({ pid: process.pid });
    lock.announce('http://there');
    const owner = { pid: process.pid, url: 'http://there' };
    expect(await findLockOwner(directory)).toEqual(owner);
    expect(await errorOf(acquire(directory))).toMatchObject({ owner });
    expect(await claimsIn(directory)).toHaveLength(1);
    await lock.release();
    expect(await findLockOwner(directory)).toBeUndefined();
    expect(await claimsIn(directory)).toEqual([]);
  });

  it('finds no owner in a directory that does not exist, is not a directory, or whose server was killed', async () => {
    const directory = await temporaryDirectory();
    const file = join(directory, 'file');
    await writeFile(file, '');
    for (const path of [file, join(directory, 'missing')]) expect(await findLockOwner(path)).toBeUndefined();
    const { child } = await openInChild(directory);
    expect(await findLockOwner(directory)).toMatchObject({ pid: child.pid });
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await findLockOwner(directory)).toBeUndefined();
  });
});
