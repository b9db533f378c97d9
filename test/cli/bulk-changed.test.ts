import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openJob } from '../../src/cli/bulk/job.ts';
import type { Job } from '../../src/cli/bulk/job-types.ts';
import { createSpool } from '../../src/cli/bulk/spool.ts';
import { type Bulk, bulk } from '../helpers/bulk.ts';
import { addAll, animals, failed, HASH } from '../helpers/bulk-rows.ts';

const refusalOf = (opening: Promise<Job>) =>
  opening.then(
    () => undefined,
    ({ code, message, hint }) => ({ code, message, hint }),
  );

/** What helps where so many rows of the file were added. */
const hintWith = (sent: number) => {
  const animals = sent === 1 ? 'the animal that was' : `the ${sent} animals that were`;
  const restart = sent === 0 ? '' : ` (--restart would add ${animals} sent before a second time)`;
  return `add only the rows that are not added yet: pets add --from animals.csv --skip-added${restart}`;
};

/** Adds the first rows of a file, and stops. */
async function stopAfter(
  { open }: Bulk,
  pets: Parameters<Bulk['open']>[0],
  row: number,
  options = {},
): Promise<void> {
  const job = await open(pets, options);
  await addAll(job, row);
  await job.close();
}

describe('a file that was changed', () => {
  it('before its run had ended is refused, until it is put back', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const other = animals(5, 10);
    for (const pets of [animals(6), other, animals(1)]) {
      expect(await refusalOf(store.open(pets))).toEqual({
        code: 'file_changed',
        message:
          'animals.csv has changed since the run of 2026-11-20 12:00 UTC, which stopped after 2 of 5 rows',
        hint: hintWith(Math.min(pets.length, pets === other ? 0 : 2)),
      });
    }
    expect(await store.jobs()).toHaveLength(1);
    expect((await store.open(animals(5))).counts()).toMatchObject({ added: 2, left: 3 });
  });

  it('before its run had ended is refused where only one row is in doubt', async () => {
    const store = await bulk();
    const job = await store.open(animals(2));
    await job.sending(1, { apiKeyHash: HASH });
    await job.close();
    expect(await refusalOf(store.open(animals(3)))).toMatchObject({ code: 'file_changed' });
  });

  it('is a new one where nothing of it was sent or added', async () => {
    const store = await bulk();
    await (await store.open(animals(5))).close();
    await (await store.open(animals(6))).close();
    const failing = await store.open(animals(2));
    for (const row of [1, 2]) await failing.settle(row, failed());
    await failing.finish();
    await failing.close();
    expect((await store.open(animals(3))).counts().left).toBe(3);
  });

  type Case = [what: string, pets: ReturnType<typeof animals>, holds: string | undefined];
  it.each<Case>([
    ['has more rows behind the old', animals(7), 'all 5 rows'],
    ['has fewer', animals(3), '3 rows'],
    ['begins with one of them', [...animals(1), ...animals(3, 20)], '1 row'],
    ['has them behind others', [...animals(9, 20), ...animals(5)], 'all 5 rows'],
    ['has most of them behind another', [...animals(1, 20), ...animals(3, 1)], '3 rows'],
    ['has one of them behind others', [...animals(9, 20), ...animals(1)], '1 row'],
    ['has others', animals(5, 20), undefined],
    ['has its first row mended', [{ name: 'Animal 1', categoryId: 2n ** 53n }, ...animals(4, 1)], '4 rows'],
    ['has one with a status', animals(5).map((pet) => ({ ...pet, status: 'sold' as const })), undefined],
  ])('behind its run, and %s', async (_, pets, holds) => {
    const store = await bulk();
    await store.run(animals(5));
    const opened = refusalOf(store.open(pets));
    expect(await opened).toEqual(
      holds && {
        code: 'file_changed',
        message: `animals.csv holds ${holds} of the run of 2026-11-20 12:00 UTC, which added 5 of 5`,
        hint: hintWith(holds === 'all 5 rows' ? 5 : Number.parseInt(holds, 10)),
      },
    );
  });

  it('is compared with every content that it has had', async () => {
    const store = await bulk();
    await store.run(animals(3));
    await store.run(animals(2, 20));
    expect(await refusalOf(store.open([...animals(1), ...animals(1, 30)]))).toMatchObject({
      message: expect.stringContaining('holds 1 row of the run'),
    });
    await store.run(animals(2, 40));
    expect(await refusalOf(store.open(animals(3, 19)))).toMatchObject({
      message: expect.stringContaining('holds all 2 rows of the run'),
    });
  });

  it('is compared by its rows, not by where they stand', async () => {
    const store = await bulk();
    await store.run(animals(3));
    const spool = await createSpool(store.options);
    for (const pet of animals(4)) await spool.write({ line: 900, pet });
    expect(await refusalOf(openJob(spool, 'f'.repeat(64), store.options))).toMatchObject({
      message: expect.stringContaining('holds all 3 rows'),
    });
  });

  it('is added as it is with --restart, and is from then on the one that is compared', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const job = await store.open(animals(6), { restart: true });
    expect(job.counts().left).toBe(6);
    await addAll(job, 1);
    await job.close();
    expect(await refusalOf(store.open(animals(7)))).toMatchObject({
      message: expect.stringContaining('stopped after 1 of 6 rows'),
    });
    // The old one is unfinished too; what both begin with would be added twice.
    expect(await refusalOf(store.open(animals(5)))).toMatchObject({ code: 'file_changed' });
  });

  it('and was begun with --restart goes on as that, whatever was added before it, but not behind it', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const begun = await store.open(animals(6), { restart: true });
    await addAll(begun, 1);
    await begun.close();
    const job = await store.open(animals(6));
    expect([job.resumed, job.counts()]).toEqual([true, { added: 1, failed: 0, unknown: 0, left: 5 }]);
    await job.close();
    // Put back and gone on with, the earlier content has rows that were not there before.
    await stopAfter(store, animals(5), 3, { skipAdded: true });
    expect(await refusalOf(store.open(animals(6)))).toMatchObject({ code: 'file_changed' });
  });

  it('does not hinder one that is finished, nor make it the last', async () => {
    const store = await bulk();
    await store.run(animals(5));
    await stopAfter(store, animals(5, 20), 1);
    const done = await store.open(animals(5));
    expect(done.counts()).toMatchObject({ added: 5, left: 0 });
    await done.close();
    expect(await refusalOf(store.open(animals(6, 20)))).toMatchObject({
      message: expect.stringContaining('stopped after 1 of 5 rows'),
    });
  });

  it('is another for another path, another service and standard input', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const others = [
      { source: { name: 'animals.csv', path: '/elsewhere/animals.csv' } },
      { source: { name: '-', path: undefined } },
    ];
    for (const more of others) {
      const job = await store.open(animals(6), more);
      await job.close();
    }
    expect(
      await refusalOf(store.open(animals(6), { baseUrl: 'https://api.example.com/v1' })),
    ).toBeUndefined();
  });

  it('is refused as running where its rows of before are being added', async () => {
    const store = await bulk();
    await addAll(await store.open(animals(5)), 1);
    expect(await refusalOf(store.open(animals(6)))).toMatchObject({
      code: 'already_running',
      message: `animals.csv is being added by process ${process.pid} already`,
    });
  });

  it('is refused where what it held before cannot be read', async () => {
    const store = await bulk();
    await store.run(animals(5));
    const rows = join((await store.jobs())[0] ?? '', 'rows.ndjson');
    await writeFile(rows, '{"line":2}\n');
    expect(await refusalOf(store.open(animals(6)))).toMatchObject({ code: 'damaged_file' });
    await rm(rows);
    expect(await refusalOf(store.open(animals(6)))).toMatchObject({
      code: 'file_error',
      message: `cannot read ${rows}: it does not exist`,
      hint: expect.stringContaining('--restart'),
    });
    expect((await store.open(animals(6), { restart: true })).counts().left).toBe(6);
  });

  it('is a new one where all that was known of it is gone', async () => {
    const store = await bulk();
    await store.run(animals(5));
    await rm((await store.jobs())[0] ?? '', { recursive: true });
    expect((await store.open(animals(6))).counts().left).toBe(6);
  });
});
