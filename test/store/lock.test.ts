import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, stat, utimes, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreError, StoreInUseError } from '../../src/store/errors.ts';
import { openJournalStore } from '../../src/store/journal-store.ts';
import { acquireLock, type Lock } from '../../src/store/lock.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const locker = fileURLToPath(new URL('../helpers/store-locker.ts', import.meta.url));
const claimsIn = async (directory: string) =>
  (await readdir(directory)).filter((name) => /^(lock|claim)-/.test(name));
const refusal = (attempt: Promise<Lock>) =>
  attempt.then(
    () => undefined,
    (error) => error,
  );

async function acquire(...args: Parameters<typeof acquireLock>): Promise<Lock> {
  const lock = await acquireLock(...args);
  onTestFinished(() => lock.release());
  return lock;
}

/** Another process that opens the store; `answer` is what it says of that. */
async function other(
  directory: string,
  url = '',
  mode = '',
): Promise<{ child: ChildProcess; answer: Record<string, unknown> }> {
  const child = spawn(process.execPath, ['--import', 'tsx', locker, directory, url, mode], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let text = '';
  for await (const part of child.stdout?.setEncoding('utf8') ?? []) {
    text += part;
    if (text.includes('\n')) break;
  }
  return { child, answer: JSON.parse(text) };
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

/** A claim of a process that does as it likes. */
async function stranger(directory: string, name: string, talk: (path: string) => string | undefined) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    const words = talk(name);
    if (words !== undefined) socket.end(words);
  });
  await once(server.listen(join(directory, name)), 'listening');
  onTestFinished(() => void server.close());
}

describe('a directory', () => {
  it('is had by one of many that want it at once, and the others are told who', async () => {
    const directory = await temporaryDirectory();
    const attempts = await Promise.allSettled(Array.from({ length: 30 }, () => acquire(directory)));
    expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') expect(attempt.reason).toBeInstanceOf(StoreInUseError);
    }
    expect(await claimsIn(directory)).toHaveLength(1);
  });

  it('is had by one of many processes', async () => {
    const directory = await temporaryDirectory();
    const answers = await Promise.all(Array.from({ length: 6 }, () => other(directory)));
    const names = answers.map(({ answer }) => (answer['has'] ? 'has' : answer['name'])).sort();
    expect(names).toEqual([...Array(5).fill('StoreInUseError'), 'has']);
  });

  it('is refused with the pid and the URL of who has it', async () => {
    const directory = await temporaryDirectory();
    const { child } = await other(directory, 'http://127.0.0.1:7387/v1');
    const error = await openJournalStore({ directory }).catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreInUseError);
    expect([error.pid, error.url]).toEqual([child.pid, 'http://127.0.0.1:7387/v1']);
    expect(error.message).toContain(`pid ${child.pid}`);
  });

  it('is free at once after a kill -9, time and again', async () => {
    const directory = await temporaryDirectory();
    for (let round = 1; round <= 3; round++) {
      const { child, answer } = await other(directory);
      expect(answer).toEqual({ has: true });
      await kill(child);
    }
    const store = await openJournalStore({ directory });
    expect(await store.size()).toBe(3);
    await store.close();
    expect(await claimsIn(directory)).toEqual([]);
  });

  it('does not keep alive the process that has it', async () => {
    const { child } = await other(await temporaryDirectory(), '', 'leave');
    if (child.exitCode === null) await once(child, 'exit');
    expect(child.exitCode).toBe(0);
  });

  it('is free after a release, and after an opening that failed', async () => {
    const directory = await temporaryDirectory();
    await (await acquireLock(directory)).release();
    await writeFile(join(directory, 'journal.ndjson'), 'damaged');
    await expect(openJournalStore({ directory })).rejects.toThrow('damaged');
    expect(await claimsIn(directory)).toEqual([]);
    await acquire(directory);
  });

  it('has a claim that is its own, under a umask that forbids nothing', async () => {
    const directory = await temporaryDirectory();
    const before = process.umask(0);
    onTestFinished(() => void process.umask(before));
    await acquire(directory);
    const [claim = ''] = await claimsIn(directory);
    expect((await stat(join(directory, claim))).mode & 0o777).toBe(0o600);
  });

  it('may have a path longer than a socket can', async () => {
    const directory = join(await temporaryDirectory(), 'x'.repeat(120), 'é'.repeat(100));
    await mkdir(directory, { recursive: true });
    const temporary = await temporaryDirectory();
    const lock = await acquire(directory, { temporary });
    lock.announce('http://there');
    const error = await refusal(acquire(directory, { temporary }));
    expect(error).toMatchObject({ pid: process.pid, url: 'http://there' });
    expect(await readdir(temporary)).toEqual([]);
    expect(await claimsIn(directory)).toHaveLength(1);
    await lock.release();
    expect(await claimsIn(directory)).toEqual([]);
  });

  it('is refused clearly where even the temporary directory is too long', async () => {
    const long = join(await temporaryDirectory(), 'x'.repeat(120));
    await mkdir(long);
    const error = await refusal(acquire(long, { temporary: long }));
    expect(error).toBeInstanceOf(StoreError);
    expect(error.hint).toContain('TMPDIR');
  });
});

describe('what others left in the directory', () => {
  it('is removed where its process is dead', async () => {
    const directory = await temporaryDirectory();
    const { child } = await other(directory);
    await kill(child);
    expect(await claimsIn(directory)).toEqual([expect.stringContaining(`lock-${child.pid}-`)]);
    await acquire(directory);
    expect(await claimsIn(directory)).toEqual([expect.stringContaining(`lock-${process.pid}-`)]);
  });

  it('is removed where it is a claim that never got its name, once it is a minute old', async () => {
    const directory = await temporaryDirectory();
    for (const name of ['claim-1-00000000', 'claim-2-00000000']) await writeFile(join(directory, name), '');
    const old = new Date(Date.now() - 61_000);
    await utimes(join(directory, 'claim-1-00000000'), old, old);
    await acquire(directory);
    expect(await claimsIn(directory)).toEqual(['claim-2-00000000', expect.stringContaining('lock-')]);
  });

  type Case = [what: string, talk: () => string | undefined];
  it.each<Case>([
    ['says nothing', () => undefined],
    ['says what makes no sense', () => 'hello\n'],
    ['says too much', () => '{'.repeat(100_000)],
    ['says another form', () => '{"state":"sleeping"}\n'],
    ['hangs up', () => ''],
  ])('has the directory where it listens and %s', async (_, talk) => {
    const directory = await temporaryDirectory();
    await stranger(directory, 'lock-4242-00000000', talk);
    // Nobody waits for a whole second here.
    const sleep = () => new Promise((done) => setTimeout(done, 20));
    const error = await refusal(acquire(directory, { sleep }));
    expect(error).toBeInstanceOf(StoreInUseError);
    expect(error.pid).toBe(4242);
    expect(await claimsIn(directory)).toEqual(['lock-4242-00000000']);
  });

  it('is waited for while it only claims: by the smaller name in place, by the larger one without a claim', async () => {
    for (const name of ['lock-99999999-00000000', 'lock-0-00000000']) {
      const directory = await temporaryDirectory();
      let asked = 0;
      await stranger(directory, name, () => `{"state":"${++asked < 4 ? 'claiming' : 'holding'}","pid":7}\n`);
      expect(await refusal(acquire(directory))).toMatchObject({ name: 'StoreInUseError', pid: 7 });
      expect(asked).toBe(4);
      expect(await claimsIn(directory)).toEqual([name]);
    }
  });

  it('is waited for no longer than some seconds', async () => {
    const directory = await temporaryDirectory();
    await stranger(directory, 'lock-0-00000000', () => '{"state":"claiming"}\n');
    let now = 0;
    const sleep = async (ms: number) => {
      // The patience with one that is silent: it is not.
      if (ms >= 1_000) await new Promise(() => {});
      now += 500;
    };
    const options = { now: () => now, sleep };
    const error = await refusal(acquire(directory, options));
    expect(error).toBeInstanceOf(StoreError);
    expect(error).not.toBeInstanceOf(StoreInUseError);
    expect(now).toBeLessThan(7_000);
  });
});

describe('a stranger at the socket of a lock', () => {
  it('is answered with one line, whatever it sends, and let go', async () => {
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
