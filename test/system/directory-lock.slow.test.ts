import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { acquireDirectoryLock, type DirectoryLock, findLockOwner } from '../../src/system/directory-lock.ts';
import { LockError } from '../../src/system/file-system.ts';
import { openJournalStore } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const locker = fileURLToPath(new URL('../helpers/store-locker.ts', import.meta.url));
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

/** Opens a store in another process. `report` is what that process (helpers/store-locker.ts) prints. */
async function openInChild(
  directory: string,
  url = '',
  mode = '',
): Promise<{ child: ChildProcess; report: Record<string, unknown> }> {
  const child = spawn(process.execPath, ['--import', 'tsx', locker, directory, url, mode], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let text = '';
  for await (const part of child.stdout?.setEncoding('utf8') ?? []) {
    text += part;
    if (text.includes('\n')) break;
  }
  return { child, report: JSON.parse(text) };
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
    const results = children.map(({ report }) => (report['isOpen'] ? 'open' : report['name'])).sort();
    expect(results).toEqual([...Array(5).fill('StoreError'), 'open']);
  });

  it('does not keep its process alive', async () => {
    const { child } = await openInChild(await temporaryDirectory(), '', 'exit');
    if (child.exitCode === null) await once(child, 'exit');
    expect(child.exitCode).toBe(0);
  });

  it('succeeds after a release, and after a store failed to open', async () => {
    const directory = await temporaryDirectory();
    await (await acquireDirectoryLock(directory)).release();
    await writeFile(join(directory, 'journal.ndjson'), 'damaged');
    await expect(openJournalStore({ directory })).rejects.toThrow('damaged');
    expect(await claimsIn(directory)).toEqual([]);
    await acquire(directory);
  });

  it('creates a socket that other users can ask for its state, whatever the umask', async () => {
    const directory = await temporaryDirectory();
    const umask = process.umask(0o177);
    onTestFinished(() => void process.umask(umask));
    await acquire(directory);
    const [claim = ''] = await claimsIn(directory);
    expect((await stat(join(directory, claim))).mode & 0o777).toBe(0o666);
  });

  it.runIf(process.platform === 'linux')(
    'works in a directory whose path is too long for a socket',
    async () => {
      const directory = join(await temporaryDirectory(), 'x'.repeat(120), 'é'.repeat(100));
      await mkdir(directory, { recursive: true });
      const lock = await acquire(directory);
      lock.announce('http://there');
      const error = await errorOf(acquire(directory));
      expect(error).toMatchObject({ owner: { pid: process.pid, url: 'http://there' } });
      expect(await claimsIn(directory)).toHaveLength(1);
      await lock.release();
      expect(await claimsIn(directory)).toEqual([]);
    },
  );

  it.each<[string, () => string | undefined]>([
    ['sends nothing', () => undefined],
    ['sends text that is not JSON', () => 'hello\n'],
    ['sends too much', () => '{'.repeat(100_000)],
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

  it.each(['{"state":"claiming"}\n', ''])(
    'gives up after a few seconds if a process sends only %j',
    async (text) => {
      const directory = await temporaryDirectory();
      await fakeClaim(directory, 'lock-0-00000000', () => text);
      let now = 0;
      const sleep = async () => {
        now += 500;
      };
      const error = await errorOf(acquire(directory, { now: () => now, sleep }));
      expect(error).toBeInstanceOf(LockError);
      expect(error.owner).toBeUndefined();
      expect(now).toBeLessThan(7_000);
    },
  );

  it('sends one line to a client of its socket, whatever the client sends', async () => {
    const directory = await temporaryDirectory();
    const lock = await acquire(directory);
    lock.announce('http://here');
    const [name = ''] = await claimsIn(directory);
    const socket = connect(join(directory, name)).on('error', () => {});
    socket.write('x'.repeat(1_000_000));
    let text = '';
    for await (const part of socket.setEncoding('utf8')) text += part;
    expect(JSON.parse(text)).toEqual({ state: 'holding', pid: process.pid, url: 'http://here' });
  });
});

describe('findLockOwner', () => {
  it('names the process that holds the lock, also in a directory with a long path', async () => {
    const directory = join(await temporaryDirectory(), 'x'.repeat(120));
    await mkdir(directory);
    expect(await findLockOwner(directory)).toBeUndefined();
    const lock = await acquire(directory);
    expect(await findLockOwner(directory)).toMatchObject({ pid: process.pid });
    lock.announce('http://there');
    expect(await findLockOwner(directory)).toMatchObject({ pid: process.pid, url: 'http://there' });
    expect(await claimsIn(directory)).toHaveLength(1);
    await lock.release();
    expect(await findLockOwner(directory)).toBeUndefined();
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
