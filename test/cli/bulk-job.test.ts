import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Job, RowResult } from '../../src/cli/bulk/job-types.ts';
import { RowStates } from '../../src/cli/bulk/row-states.ts';
import { createSpool } from '../../src/cli/bulk/spool.ts';
import { bulk, collect, contentOf } from '../helpers/bulk.ts';
import { addAll, added, animals, failed, HASH, sha256 } from '../helpers/bulk-rows.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';

const unknown = (key: string): RowResult => ({ status: 'unknown', idempotencyKey: key, message: 'lost' });
const keys = (rows: { idempotencyKey: string }[]) => rows.map(({ idempotencyKey }) => idempotencyKey);
const pendingRows = async (job: Job) => (await collect(job.pending())).map(({ row }) => row);

describe('a job', () => {
  it('hands out every row in order, with its line, its digits and a key of its own', async () => {
    const { open } = await bulk();
    const pets = [
      { name: 'Zoë "Z"\u2028\n\ud800', categoryId: -(2n ** 63n), status: 'sold' as const },
      ...animals(2),
    ];
    const job = await open(pets);
    const pending = await collect(job.pending());
    expect(pending.map(({ row, line, pet }) => ({ row, line, pet }))).toEqual(
      pets.map((pet, i) => ({ row: i + 1, line: i + 2, pet })),
    );
    expect(new Set(keys(pending)).size).toBe(3);
    for (const key of keys(pending))
      expect(key).toMatch(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    expect(pending.every((row) => row.doubt === undefined)).toBe(true);
    expect([job.rows, job.resumed, job.finishedAt]).toEqual([3, false, undefined]);
    expect(job.counts()).toEqual({ added: 0, failed: 0, unknown: 0, left: 3 });
  });

  it('goes on where it stopped', async () => {
    const { open, clock } = await bulk();
    const first = await open(animals(5));
    await addAll(first, 2);
    await first.close();
    clock.advance(60_000);
    const second = await open(animals(5));
    expect(second.resumed).toBe(true);
    expect(second.startedAt.toISOString()).toBe('2026-11-20T12:00:00.000Z');
    expect(second.counts()).toEqual({ added: 2, failed: 0, unknown: 0, left: 3 });
    expect(await pendingRows(second)).toEqual([3, 4, 5]);
  });

  it('keeps key, first send and API key of a row in doubt, however often it is tried', async () => {
    const { open, clock } = await bulk();
    let job = await open(animals(2));
    const [first] = await collect(job.pending());
    await job.sending(1, { apiKeyHash: HASH });
    const sentAt = clock.now();
    for (const other of [sha256('other key'), HASH]) {
      await job.close();
      clock.advance(3_600_000);
      job = await open(animals(2));
      expect(job.counts().left).toBe(2);
      const [again] = await collect(job.pending());
      expect(again).toEqual({ ...first, doubt: { sentAt, apiKeyHash: HASH } });
      await job.sending(1, { apiKeyHash: other });
    }
  });

  it('tries a row that failed again in a later run, under a fresh key, and not in this one', async () => {
    const { open } = await bulk();
    const seen: string[] = [];
    for (let run = 1; run <= 3; run++) {
      const job = await open(animals(2));
      const [first] = await collect(job.pending());
      expect(first?.row).toBe(1);
      expect(first?.doubt).toBeUndefined();
      seen.push(first?.idempotencyKey ?? '');
      await job.sending(1, { apiKeyHash: HASH });
      await job.settle(1, failed());
      expect(await pendingRows(job)).toEqual([2]);
      await job.close();
    }
    expect(new Set(seen).size).toBe(3);
    const job = await open(animals(2));
    await job.sending(1, { apiKeyHash: HASH });
    const key = keys(await collect(job.pending()))[0];
    await job.close();
    expect(keys(await collect((await open(animals(2))).pending()))[0]).toBe(key);
    expect(seen).not.toContain(key);
  });

  it('names a row by the same key where the line that said so was lost', async () => {
    const { open, jobs } = await bulk();
    const job = await open(animals(1));
    const before = keys(await collect(job.pending()));
    await job.sending(1, { apiKeyHash: HASH });
    await job.close();
    const path = join((await jobs())[0] ?? '', 'progress.ndjson');
    await writeFile(path, `${(await readFile(path, 'utf8')).split('\n')[0]}\n`);
    const again = await collect((await open(animals(1))).pending());
    expect([keys(again), again[0]?.doubt]).toEqual([before, undefined]);
  });

  it('has the last result of every row, in order and with every digit', async () => {
    const { open } = await bulk();
    const pet = {
      id: 2n ** 63n - 1n,
      name: 'Rex',
      categoryId: 1n,
      colour: { hex: '#fff' },
      weight: 2n ** 70n,
    };
    const settle = async (job: Job) => {
      await job.settle(2, { status: 'added', pet });
      await job.sending(1, { apiKeyHash: HASH });
      await job.settle(1, failed('first'));
      await job.settle(3, unknown('key-3'));
      await job.sending(4, { apiKeyHash: HASH });
    };
    const first = await open(animals(5));
    await settle(first);
    await first.close();
    const job = await open(animals(5));
    await job.sending(1, { apiKeyHash: HASH });
    await job.settle(1, failed('second'));
    const results = await collect(job.results());
    expect(results.map(({ row, line, result }) => [row, line, result])).toEqual([
      [1, 2, failed('second')],
      [2, 3, { status: 'added', pet }],
      [3, 4, unknown('key-3')],
      [4, 5, undefined],
      [5, 6, undefined],
    ]);
    expect(results.map((row) => row.pet)).toEqual(animals(5));
    expect(job.counts()).toEqual({ added: 1, failed: 1, unknown: 1, left: 2 });
    expect(await pendingRows(job)).toEqual([4, 5]);
  });

  it('reads results and rows that are longer than what is read at once', async () => {
    const { open } = await bulk();
    const pets = ['x', 'y'].map((letter) => ({ name: letter.repeat(600_000), categoryId: 1n }));
    const job = await open([...pets, ...animals(3)]);
    for (const row of [2, 1, 5]) {
      await job.settle(row, {
        status: 'added',
        pet: { id: 1n, categoryId: 1n, name: String(row).repeat(700_000) },
      });
    }
    await job.close();
    const results = await collect((await open([...pets, ...animals(3)])).results());
    const names = results.map(({ result }) => (result?.status === 'added' ? result.pet.name[0] : undefined));
    expect(names).toEqual(['1', '2', undefined, undefined, '5']);
    expect(results.map(({ pet }) => pet.name.length)).toEqual([600_000, 600_000, 8, 8, 8]);
  });

  it('is finished from when that was said, until a row is tried again', async () => {
    const { open, clock } = await bulk();
    const first = await open(animals(1));
    await first.settle(1, failed());
    expect(first.finishedAt).toBeUndefined();
    await first.finish();
    const at = clock.now();
    await first.close();
    clock.advance(1000);
    const second = await open(animals(1));
    await second.finish();
    expect(second.finishedAt?.getTime()).toBe(at);
    await second.sending(1, { apiKeyHash: HASH });
    expect(second.finishedAt).toBeUndefined();
    await second.close();
    expect((await open(animals(1))).finishedAt).toBeUndefined();
  });

  it('is that of a content for a service, whatever the file is called', async () => {
    const { run, open } = await bulk();
    await run(animals(2));
    const copy = { name: 'copy.csv', path: '/copy.csv' };
    const renamed = await open(animals(2), { source: copy });
    expect([renamed.resumed, renamed.counts().added]).toEqual([true, 2]);
    await renamed.close();
    expect((await open(animals(2), { source: { name: '-', path: undefined } })).resumed).toBe(true);
    expect((await open(animals(2), { baseUrl: 'https://api.example.com/v1' })).resumed).toBe(false);
    expect((await open(animals(3), { source: { name: '-', path: undefined } })).resumed).toBe(false);
  });

  it('begins anew with --restart, under other keys', async () => {
    const { open, run } = await bulk();
    const before = keys(await run(animals(3)));
    const job = await open(animals(3), { restart: true });
    expect([job.resumed, job.counts().left]).toEqual([false, 3]);
    const after = keys(await collect(job.pending()));
    expect(after).toHaveLength(3);
    expect(after.filter((key) => before.includes(key))).toEqual([]);
    await job.close();
    expect((await open(animals(3))).counts().left).toBe(3);
  });

  it('refuses other rows of the same bytes', async () => {
    const { open } = await bulk();
    await (await open(animals(3))).close();
    const content = contentOf(animals(3));
    for (const rows of [animals(2), animals(3, 7)]) {
      await expect(open(rows, { content })).rejects.toMatchObject({
        code: 'file_changed',
        message: 'animals.csv was read as other rows in the run of 2026-11-20 12:00 UTC',
      });
    }
  });

  type Loss = [what: string, lose: (path: string) => Promise<void>];
  it.each<Loss>([
    ['missing', (path) => rm(path)],
    ['short', async (path) => writeFile(path, (await readFile(path)).subarray(0, 40))],
    ['damaged', (path) => writeFile(path, 'hello\n')],
  ])('has its rows from the input again where they are %s', async (_, lose) => {
    const { open, jobs } = await bulk();
    const first = await open(animals(3));
    await addAll(first, 1);
    await first.close();
    await lose(join((await jobs())[0] ?? '', 'rows.ndjson'));
    const job = await open(animals(3));
    expect((await collect(job.pending())).map(({ pet }) => pet)).toEqual(animals(3).slice(1));
  });

  it('tells of rows that are damaged or cut short under it', async () => {
    const { open, jobs } = await bulk();
    const job = await open(animals(3));
    const path = join((await jobs())[0] ?? '', 'rows.ndjson');
    const lines = (await readFile(path, 'utf8')).split('\n');
    await writeFile(path, `${lines.slice(0, 2).join('\n')}\n`);
    await expect(collect(job.pending())).rejects.toMatchObject({ code: 'damaged_file' });
    await writeFile(path, `${lines[0]}\n{"line":3}\n${lines[2]}\n`);
    await expect(collect(job.results())).rejects.toThrow(`${path} is damaged in line 2: pet is required`);
  });

  it('with a million rows has a few bytes for each', () => {
    const before = process.memoryUsage().arrayBuffers;
    const states = new RowStates(1_000_000);
    states.set(1_000_000, 2, 2 ** 40);
    expect([states.state(1_000_000), states.offset(1_000_000)]).toEqual([2, 2 ** 40]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(14e6);
  });
});

describe('a send', () => {
  it('is on the disk before it is said to be, and so is a result', async () => {
    const calls: string[] = [];
    const files = interceptFiles((name, path) => void (path.endsWith('progress.ndjson') && calls.push(name)));
    const { open } = await bulk();
    const job = await open(animals(1), { files });
    for (const act of [() => job.sending(1, { apiKeyHash: HASH }), () => job.settle(1, added(1))]) {
      calls.length = 0;
      await act();
      expect(calls.slice(-2)).toEqual(['write', 'datasync']);
    }
  });

  it.each([
    ['write', 'ENOSPC', 'the disk is full'],
    ['datasync', 'EIO', 'EIO: planted'],
  ])('is refused where the %s fails with %s, and so is all that follows', async (call, code, reason) => {
    const { open, jobs } = await bulk();
    let broken = false;
    const files = interceptFiles((name, path) => {
      if (broken && name === call && path.endsWith('progress.ndjson')) throw errno(code);
    });
    const job = await open(animals(3), { files });
    await addAll(job, 1);
    broken = true;
    const path = join((await jobs())[0] ?? '', 'progress.ndjson');
    const refusal = { code: 'file_error', message: `cannot write ${path}: ${reason}` };
    await expect(job.sending(2, { apiKeyHash: HASH })).rejects.toMatchObject(refusal);
    broken = false;
    await expect(job.sending(2, { apiKeyHash: HASH })).rejects.toMatchObject(refusal);
    expect(job.counts()).toEqual({ added: 1, failed: 0, unknown: 0, left: 2 });
    await job.close();
    expect(await pendingRows(await open(animals(3)))).toEqual([2, 3]);
  });

  it('leaves nothing half-written that a later run could not read', async () => {
    const { open } = await bulk();
    let writes = Number.POSITIVE_INFINITY;
    const files = interceptFiles((name, path) => {
      if (name === 'write' && path.endsWith('progress.ndjson') && writes-- <= 0) throw errno('ENOSPC');
    }, 20);
    const job = await open(animals(2), { files });
    writes = 3;
    await expect(job.sending(1, { apiKeyHash: HASH })).rejects.toMatchObject({ code: 'file_error' });
    await job.close();
    expect(await pendingRows(await open(animals(2)))).toEqual([1, 2]);
  });

  type Change = [what: string, change: (path: string) => Promise<void>];
  it.each<Change>([
    ['removed', (path) => rm(path)],
    [
      'replaced',
      async (path) => {
        await writeFile(`${path}.new`, await readFile(path));
        await rename(`${path}.new`, path);
      },
    ],
    ['changed', (path) => writeFile(path, 'hello\n', { flag: 'a' })],
  ])('is refused where the progress was %s under the run', async (_, change) => {
    const { open, jobs } = await bulk();
    const job = await open(animals(3));
    await job.sending(1, { apiKeyHash: HASH });
    await change(join((await jobs())[0] ?? '', 'progress.ndjson'));
    // In doubt already: there is nothing to write, and yet nothing would be remembered.
    for (const row of [1, 2]) {
      await expect(job.sending(row, { apiKeyHash: HASH })).rejects.toMatchObject({ code: 'file_error' });
    }
  });
});

describe('a spool', () => {
  it('leaves nothing when it is discarded', async () => {
    const { options } = await bulk();
    const spool = await createSpool(options);
    for (const pet of animals(5000)) await spool.write({ line: 1, pet });
    expect(await readdir(options.directory)).toHaveLength(1);
    await spool.discard();
    expect(await readdir(options.directory)).toEqual([]);
  });

  it('that cannot be written is an error that names the directory', async () => {
    const { options } = await bulk();
    const files = interceptFiles((name) => {
      if (name === 'write') throw errno('ENOSPC');
    });
    const spool = await createSpool({ ...options, files });
    const writing = async () => {
      for (const pet of animals(5000)) await spool.write({ line: 1, pet });
    };
    await expect(writing()).rejects.toMatchObject({
      code: 'file_error',
      message: `cannot write ${options.directory}: the disk is full`,
    });
  });
});
