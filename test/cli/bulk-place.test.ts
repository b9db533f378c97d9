import { chmod, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { acquireLock } from '../../src/store/lock.ts';
import { bulk, collect } from '../helpers/bulk.ts';
import { addAll, animals, failed, HASH } from '../helpers/bulk-rows.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';

const DAY = 86_400_000;

/** The mode of every file and directory. */
async function modesIn(directory: string): Promise<Record<string, string>> {
  const names = ['', ...(await readdir(directory, { recursive: true }))];
  const entries = names.map(async (name) => {
    const status = await stat(join(directory, name));
    return [name, `${status.isDirectory() ? 'd' : '-'}${(status.mode & 0o777).toString(8)}`];
  });
  return Object.fromEntries(await Promise.all(entries));
}

async function refusalOf(work: Promise<unknown>) {
  return work.then(
    () => undefined,
    (error) => error,
  );
}

describe('what is kept', () => {
  it('is private under a umask that forbids nothing, and where it was not', async () => {
    const { open, options, jobs } = await bulk();
    const before = process.umask(0);
    onTestFinished(() => void process.umask(before));
    const check = async () => {
      const modes = await modesIn(options.directory);
      expect(Object.keys(modes).length).toBeGreaterThan(5);
      for (const [name, mode] of Object.entries(modes))
        expect([name, mode]).toEqual([name, mode.startsWith('d') ? 'd700' : '-600']);
    };
    const job = await open(animals(1));
    await check();
    await job.close();
    const directory = (await jobs())[0] ?? '';
    const widened = [options.directory, directory, join(options.directory, 'paths')];
    for (const path of widened) await chmod(path, 0o755);
    for (const name of await readdir(directory)) await chmod(join(directory, name), 0o644);
    await open(animals(1));
    await check();
  });

  it('is synced, with every name above it, before a row can be sent', async () => {
    const { open, options, jobs } = await bulk();
    const synced: string[] = [];
    const files = interceptFiles((name, path) => void (name.startsWith('sync') && synced.push(path)));
    await open(animals(1), { files });
    const directory = (await jobs())[0] ?? '';
    expect(synced).toEqual(
      expect.arrayContaining([directory, options.directory, dirname(options.directory)]),
    );
    // The name of the directory of paths too, which is made last.
    const paths = synced.indexOf(join(options.directory, 'paths'));
    expect(paths).toBeGreaterThan(0);
    expect(synced.lastIndexOf(options.directory)).toBeGreaterThan(paths);
  });

  it('has rows that are on the disk before they are those of a job', async () => {
    const { open } = await bulk();
    const calls: string[] = [];
    const files = interceptFiles((name, path) => void (/spool-/.test(path) && calls.push(name)));
    await open(animals(1), { files });
    expect(calls).toEqual(['open create', 'write', 'datasync', 'close', 'rename']);
  });

  it.each([
    ['open create', 'EACCES', 'permission denied', 'make it writable'],
    ['open create', 'ENOSPC', 'the disk is full', 'free some space there'],
    ['mkdir', 'EROFS', 'the file system is read-only', 'make it writable'],
    ['rename', 'EIO', 'EIO: planted', 'make it writable'],
  ])('is refused where %s fails with %s, and nothing is left behind', async (call, code, reason, hint) => {
    const { open, options } = await bulk();
    let broken = true;
    const files = interceptFiles((name) => {
      if (broken && name === call) throw errno(code);
    });
    expect(await refusalOf(open(animals(2), { files }))).toMatchObject({
      code: 'file_error',
      message: `cannot write ${options.directory}: ${reason}`,
      hint: expect.stringMatching(`^${hint}; .*XDG_STATE_HOME`),
    });
    const left = await readdir(options.directory, { recursive: true }).catch(() => []);
    expect(left).toEqual([]);
    broken = false;
    expect((await open(animals(2), { files })).counts().left).toBe(2);
  });

  it('is never begun twice, wherever its beginning fails', async () => {
    for (let when = 0; ; when++) {
      const { open } = await bulk();
      let call = 0;
      const files = interceptFiles(() => {
        if (call++ === when) throw errno('EIO');
      });
      const refusal = await refusalOf(open(animals(2), { files }));
      const job = refusal ? await open(animals(2)) : undefined;
      expect(job?.counts() ?? { left: 2 }).toMatchObject({ left: 2 });
      if (call <= when) break;
      if (job) expect(await addAll(job)).toHaveLength(2);
    }
  });

  it('is refused where the directory is a file', async () => {
    const { open, options } = await bulk();
    await mkdir(dirname(options.directory), { recursive: true });
    await writeFile(options.directory, '');
    expect(await refusalOf(open(animals(1)))).toMatchObject({ code: 'file_error' });
  });

  it('of two that begin in one process is had by one', async () => {
    const { open, options } = await bulk();
    const attempts = await Promise.allSettled(Array.from({ length: 8 }, () => open(animals(3))));
    expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') expect(attempt.reason).toMatchObject({ code: 'already_running' });
    }
    expect((await readdir(options.directory)).filter((name) => name.startsWith('spool'))).toEqual([]);
  });
});

describe('pruning', () => {
  it('forgets a finished job after 30 days, and its path', async () => {
    const { run, open, clock, jobs, options } = await bulk();
    await run(animals(2));
    clock.advance(30 * DAY);
    await (await open(animals(1), { baseUrl: 'http://other/v1' })).close();
    expect(await jobs()).toHaveLength(2);
    // What a kill has left there goes with it.
    const [first = '', second = ''] = await jobs();
    for (const directory of [first, second]) await writeFile(join(directory, 'progress.new'), 'torn');
    clock.advance(1);
    const job = await open(animals(2));
    expect([job.resumed, job.counts().left]).toEqual([false, 2]);
    await job.finish();
    await job.close();
    const paths = join(options.directory, 'paths');
    const old = new Date(clock.now());
    for (const name of await readdir(paths)) await utimes(join(paths, name), old, old);
    clock.advance(31 * DAY);
    await (await open(animals(1), { baseUrl: 'http://third/v1' })).close();
    // The job of the other service was never finished.
    expect(await jobs()).toHaveLength(2);
    expect(await readdir(paths)).toHaveLength(2);
  });

  it('never forgets a job that is not finished, or was taken up again', async () => {
    const { open, clock, jobs } = await bulk();
    const first = await open(animals(2));
    await addAll(first, 1);
    await first.settle(2, failed());
    await first.finish();
    await first.close();
    const second = await open(animals(2));
    await second.sending(2, { apiKeyHash: HASH });
    await second.close();
    clock.advance(1000 * DAY);
    const last = await open(animals(2));
    expect((await collect(last.pending())).map(({ row, doubt }) => [row, doubt !== undefined])).toEqual([
      [2, true],
    ]);
    expect(await jobs()).toHaveLength(1);
  });

  it('leaves a job that a process has', async () => {
    const { run, open, clock, jobs } = await bulk();
    await run(animals(2));
    const [directory = ''] = await jobs();
    const lock = await acquireLock(directory);
    clock.advance(31 * DAY);
    await (await open(animals(1), { baseUrl: 'http://other/v1' })).close();
    expect(await readdir(directory)).toEqual(expect.arrayContaining(['progress.ndjson', 'rows.ndjson']));
    await lock.release();
    await (await open(animals(1), { baseUrl: 'http://other/v1' })).close();
    expect(await jobs()).not.toContain(directory);
  });

  it('removes spools, and directories of no job, that a kill left a day ago', async () => {
    const { open, clock, options, jobs } = await bulk();
    await (await open(animals(1))).close();
    const [job = ''] = await jobs();
    const kept = ['spool-00000000000000aa.ndjson', 'a'.repeat(32), 'notes.txt', 'paths/new-aa'];
    const gone = ['spool-00000000000000bb.ndjson', 'b'.repeat(32), 'paths/new-bb'];
    for (const name of [...kept, ...gone]) {
      const path = join(options.directory, name);
      if (/^[ab]+$/.test(name)) {
        await mkdir(path);
        await writeFile(join(path, 'rows.ndjson'), '');
      } else await writeFile(path, '');
      const age = gone.includes(name) || name === 'notes.txt' ? DAY + 1000 : DAY - 1000;
      const then = new Date(clock.now() - age);
      await utimes(path, then, then);
    }
    await open(animals(1), { baseUrl: 'http://other/v1' });
    const left = await readdir(options.directory, { recursive: true });
    for (const name of kept) expect(left).toContain(name);
    for (const name of gone) expect(left).not.toContain(name);
    expect(await jobs()).toContain(job);
  });

  it('never fails the command', async () => {
    const { run, open, clock, options, jobs } = await bulk();
    await run(animals(2));
    const [old = ''] = await jobs();
    clock.advance(31 * DAY);
    await writeFile(join(options.directory, 'paths', 'c'.repeat(32)), 'damaged');
    const files = interceptFiles((name, path) => {
      if (name === 'unlink' && path.startsWith(old)) throw errno('EPERM');
    });
    const other = { baseUrl: 'http://other/v1', files };
    expect((await open(animals(1), other)).counts().left).toBe(1);
    expect(await readFile(join(options.directory, 'paths', 'c'.repeat(32)), 'utf8')).toBe('damaged');
  });
});
