import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Job, RowResult } from '../../src/cli/bulk/job-types.ts';
import { type Bulk, bulk, collect, contentOf } from '../helpers/bulk.ts';
import { addAll, added, animals, failed, HASH, sha256 } from '../helpers/bulk-rows.ts';
import { simulateTakeOver } from '../helpers/bulk-take-over.ts';
import { interceptFiles } from '../helpers/store-faults.ts';

const SKIP = { skipAdded: true };
const unknown: RowResult = { status: 'unknown', idempotencyKey: 'key', message: 'lost' };

const pendingRows = async (job: Job) => (await collect(job.pending())).map(({ row }) => row);
const refusalOf = (opening: Promise<Job>) =>
  opening.then(
    () => undefined,
    ({ code, message, hint }) => ({ code, message, hint }),
  );

/** Adds the first rows of a file, and stops. */
async function stopAfter({ open }: Bulk, pets: Parameters<Bulk['open']>[0], row: number, more = {}) {
  const job = await open(pets, more);
  await addAll(job, row);
  await job.close();
}

/** Five animals, of which the fourth was mended. */
const mended = [...animals(3), { name: 'Mended', categoryId: 1n }, ...animals(1, 4)] satisfies ReturnType<
  typeof animals
>;

describe('--skip-added adds of a file that was changed', () => {
  it('what an interrupted run of it has not added', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const job = await store.open(mended, SKIP);
    expect([job.resumed, job.taken, job.counts()]).toEqual([
      false,
      2,
      { added: 2, failed: 0, unknown: 0, left: 3 },
    ]);
    expect((await addAll(job)).map(({ pet }) => pet.name)).toEqual(['Animal 3', 'Mended', 'Animal 5']);
    const results = await collect(job.results());
    expect(results.slice(0, 2).map(({ line, result }) => [line, result])).toEqual([
      [2, added(1)],
      [3, added(2)],
    ]);
  });

  it('what has failed and was mended, and what is new', async () => {
    const store = await bulk();
    const first = await store.open(animals(5));
    for (const row of [1, 2, 3, 5]) await first.settle(row, added(row));
    await first.settle(4, failed());
    await first.finish();
    await first.close();
    const job = await store.open([{ name: 'New', categoryId: 1n }, ...mended], SKIP);
    expect((await addAll(job)).map(({ pet }) => pet.name)).toEqual(['New', 'Mended']);
    await job.close();
    // One that has failed and was left as it is, too.
    const again = await store.open(animals(5), SKIP);
    expect(await pendingRows(again)).toEqual([4]);
  });

  it('as many of equal rows as are missing', async () => {
    const store = await bulk();
    const [rex, bella] = animals(2) as [(typeof mended)[0], (typeof mended)[0]];
    await store.run([rex, bella, rex]);
    const job = await store.open([rex, rex, bella, rex, rex], SKIP);
    expect(await pendingRows(job)).toEqual([4, 5]);
  });

  it('as many as are missing, also when it is run again', async () => {
    const store = await bulk();
    const [rex, bella] = animals(2) as [(typeof mended)[0], (typeof mended)[0]];
    await stopAfter(store, [rex, bella], 1);
    const pets = [rex, rex, bella];
    await (await store.open(pets, SKIP)).close();
    const job = await store.open(pets, SKIP);
    expect([job.taken, await pendingRows(job)]).toEqual([0, [2, 3]]);
  });

  it('none that it has added itself, and that keeps its own animal', async () => {
    const store = await bulk();
    await store.run(animals(1));
    const begun = await store.open(animals(2), { restart: true });
    await begun.sending(1, { apiKeyHash: HASH });
    await begun.settle(1, added(77));
    await begun.close();
    const job = await store.open(animals(2), SKIP);
    expect([job.taken, (await collect(job.results()))[0]?.result]).toEqual([0, added(77)]);
  });

  it('with what is surest of a row: of two that are equal, and of one that two runs know', async () => {
    const store = await bulk();
    const [rex] = animals(1) as [(typeof mended)[0]];
    const first = await store.open([rex, rex, ...animals(1, 5)]);
    await first.settle(1, unknown);
    await addAll(first, 2);
    await first.sending(3, { apiKeyHash: HASH });
    await first.close();
    const second = [rex, ...animals(1, 5)];
    const job = await store.open(second, SKIP);
    expect((await collect(job.results()))[0]?.result).toEqual(added(2));
    await job.close();
    // The first run settles what the second has in doubt as well, and is not the file's last.
    const backup = { source: { name: 'backup.csv', path: '/backup.csv' } };
    const again = await store.open([rex, rex, ...animals(1, 5)], { ...SKIP, ...backup });
    await addAll(again);
    await again.close();
    const third = await store.open([...animals(1, 5), ...animals(1, 9)], SKIP);
    expect(await pendingRows(third)).toEqual([2]);
    expect((await collect(third.results()))[0]?.result).toEqual(added(3));
  });

  it('what no run of any content that it has had has added', async () => {
    const store = await bulk();
    await store.run(animals(2));
    await store.run(animals(2, 10));
    await store.run([...animals(3), ...animals(2, 10)], SKIP);
    const job = await store.open([...animals(4), ...animals(3, 10)], SKIP);
    // Taken over twice, they were sent once: a second one like it is new.
    expect(await pendingRows(job)).toEqual([4, 7]);
    await job.close();
    const twice = await store.open([...animals(3), ...animals(3)], SKIP);
    expect(await pendingRows(twice)).toEqual([4, 5, 6]);
  });

  it('an animal of another category or status, but none that only says that it is available', async () => {
    const store = await bulk();
    const [rex] = animals(1) as [(typeof mended)[0]];
    await store.run(animals(3));
    const job = await store.open(
      [
        { ...rex, categoryId: 1n },
        { ...rex, status: 'sold' },
        { ...rex, status: 'available' },
      ],
      SKIP,
    );
    expect(await pendingRows(job)).toEqual([1, 2]);
  });

  it('nothing where all is added', async () => {
    const store = await bulk();
    await store.run(animals(5));
    const job = await store.open(animals(3), SKIP);
    expect([job.counts(), await pendingRows(job)]).toEqual([
      { added: 3, failed: 0, unknown: 0, left: 0 },
      [],
    ]);
  });

  it('not what an earlier run has left unknown: it stays so', async () => {
    const store = await bulk();
    const first = await store.open(animals(2));
    await first.settle(1, unknown);
    await first.close();
    const job = await store.open(animals(3), SKIP);
    expect(await pendingRows(job)).toEqual([2, 3]);
    expect((await collect(job.results()))[0]?.result).toEqual(unknown);
  });

  it('a row in doubt only as the earlier run would: with the key, the time and the API key of its send', async () => {
    const store = await bulk();
    const first = await store.open(animals(2));
    await addAll(first, 1);
    const [, before] = await Promise.all([first.sending(2, { apiKeyHash: HASH }), collect(first.pending())]);
    const sentAt = store.clock.now();
    await first.close();
    store.clock.advance(3_600_000);
    const pets = [...animals(1, 20), ...animals(2)];
    for (const more of [SKIP, SKIP, {}]) {
      const job = await store.open(pets, more);
      const pending = await collect(job.pending());
      expect(pending.map(({ row, doubt }) => [row, doubt])).toEqual([
        [1, undefined],
        [3, { sentAt, apiKeyHash: HASH }],
      ]);
      expect(pending[1]?.idempotencyKey).toBe(before.at(-1)?.idempotencyKey);
      await job.close();
    }
    // Settled here, it is settled for a third content, which sees the doubt of the first as well.
    const job = await store.open(pets);
    await addAll(job);
    await job.close();
    expect(await pendingRows(await store.open(animals(3), SKIP))).toEqual([3]);
  });
});

describe('a run with --skip-added that was interrupted', () => {
  it('goes on with the same command, with or without it', async () => {
    for (const more of [SKIP, {}]) {
      const store = await bulk();
      await stopAfter(store, animals(5), 2);
      await stopAfter(store, mended, 3, SKIP);
      const job = await store.open(mended, more);
      expect([job.resumed, job.taken, await pendingRows(job)]).toEqual([true, 0, [4, 5]]);
    }
  });

  it('keeps the earlier content, put back, from being added further than that: also under another name', async () => {
    const sources = [
      { name: 'animals.csv', path: '/animals.csv' },
      { name: 'backup.csv', path: '/backup.csv' },
      { name: 'standard input', path: undefined },
    ];
    for (const source of sources) {
      const store = await bulk();
      await stopAfter(store, animals(5), 2);
      await store.run(mended, SKIP);
      expect(await refusalOf(store.open(animals(5), { source }))).toMatchObject({ code: 'file_changed' });
      const job = await store.open(animals(5), { ...SKIP, source });
      expect(await pendingRows(job)).toEqual([4]);
    }
  });

  it('is refused where an earlier run of the file is on its way, and keeps that one from its rows while it is', async () => {
    const store = await bulk();
    const running = await store.open(animals(5));
    await addAll(running, 2);
    expect(await refusalOf(store.open(mended, SKIP))).toMatchObject({ code: 'already_running' });
    await running.close();
    await store.open(mended, SKIP);
    const source = { name: 'backup.csv', path: '/backup.csv' };
    expect(await refusalOf(store.open(animals(5), { source }))).toMatchObject({ code: 'already_running' });
  });

  it('and whose earlier run was tidied away since, still knows what it has taken', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const [first = ''] = await store.jobs();
    await stopAfter(store, mended, 3, SKIP);
    await rm(first, { recursive: true });
    expect(await pendingRows(await store.open(animals(7), SKIP))).toEqual([4, 5, 6, 7]);
  });

  it('never adds a row twice nor leaves one out, wherever it was killed', async () => {
    let kills = 0;
    for (let when = 0; when === kills; ) {
      const next = Array.from({ length: 10 }, () => killedAt(when++));
      kills += (await Promise.all(next)).filter(Boolean).length;
    }
    expect(kills).toBeGreaterThan(60);
  }, 60_000);
});

/**
 * Adds a file that was changed, of which one row is added and one in doubt, by a process that is killed at its n-th call
 * of the file system, then by others to the end. Whether it was killed.
 */
async function killedAt(when: number): Promise<boolean> {
  const store = await bulk();
  const first = await store.open(animals(3));
  await addAll(first, 1);
  await first.sending(2, { apiKeyHash: HASH });
  const keyInDoubt = (await collect(first.pending()))[0]?.idempotencyKey;
  await first.close();
  let [calls, isKilled] = [0, false];
  const files = interceptFiles(() => {
    isKilled ||= calls++ === when;
    if (isKilled) throw new Error('killed');
  });
  const pets = [...animals(1, 10), ...animals(3)];
  const sent: string[] = [];
  const run = async (more: object) => {
    const job = await store.open(pets, more);
    try {
      for await (const { row, pet, idempotencyKey } of job.pending()) {
        await job.sending(row, { apiKeyHash: HASH });
        sent.push(`${pet.name} ${idempotencyKey}`);
        await job.settle(row, added(row));
      }
      await job.finish();
    } finally {
      await job.close().catch(() => {});
    }
  };
  await run({ ...SKIP, files }).catch(() => {});
  // Without the option it goes on, or is refused.
  const refusal = when % 2 === 0 && (await run({}).catch((error) => error));
  if (refusal) expect(refusal).toMatchObject({ code: 'file_changed' });
  await run(SKIP);
  expect([...new Set(sent)].sort(), `killed at call ${when}`).toEqual([
    expect.stringContaining('Animal 11 '),
    `Animal 2 ${keyInDoubt}`,
    expect.stringContaining('Animal 3 '),
  ]);
  // The first content, put back, has nothing to send but what it has in doubt.
  const back = await store.open(animals(3), SKIP);
  expect((await collect(back.pending())).map((each) => each.idempotencyKey)).toEqual([keyInDoubt]);
  return isKilled;
}

describe('what is taken over', () => {
  it('is on the disk, and known to the job that it comes from, before the job can send', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const [first = ''] = await store.jobs();
    const calls: string[] = [];
    const nameOf = (path: string) => path.replace(`${first}/`, 'first ').replace(/.*\//, '');
    const files = interceptFiles((name, path) => void calls.push(`${name} ${nameOf(path)}`));
    await store.open(mended, { ...SKIP, files });
    const at = (call: string) => {
      expect(calls).toContain(call);
      return calls.lastIndexOf(call);
    };
    expect(at('datasync progress.new')).toBeGreaterThan(at('write progress.new'));
    expect(at('rename progress.new')).toBeGreaterThan(at('datasync progress.new'));
    const synced = calls.findIndex((call, i) => i > at('rename progress.new') && call.startsWith('sync'));
    expect(synced).toBeGreaterThan(0);
    // Of the index the entries of both jobs, and at last that of the path.
    const renamed = [...calls.keys()].filter((i) => calls[i]?.startsWith('rename new-'));
    expect(renamed).toHaveLength(3);
    expect(renamed[1]).toBeLessThan(at('open change first progress.ndjson'));
    expect(renamed[2]).toBeGreaterThan(synced);
  });

  it('is there whole after a power failure, or not at all, and what was there before in any case', async () => {
    const seeds = Number(process.env['PETS_POWER_LOSS_SEEDS'] ?? 1_000);
    const sum = { done: 0, found: 0 };
    for (let seed = 0; seed < seeds; seed++) {
      const { done, found } = await simulateTakeOver(seed);
      sum.done += done;
      sum.found += found;
    }
    // The stories must have had something in them.
    expect(sum.done).toBeGreaterThan(seeds / 20);
    expect(sum.found).toBeGreaterThan(sum.done);
    expect(sum.found).toBeLessThan(seeds);
  }, 60_000);

  it('is nothing where no run is known: then it is refused, as rows may have been added', async () => {
    const store = await bulk();
    await store.run(animals(3));
    const elsewhere = { source: { name: 'copy.csv', path: '/copy.csv' } };
    expect(await refusalOf(store.open(animals(4), { ...SKIP, ...elsewhere }))).toEqual({
      code: 'usage',
      message: `no earlier run of copy.csv is known for ${store.options.baseUrl}: which rows it has added cannot be told`,
      hint: 'give it the path that it had then; or, where nothing of it was added yet, leave out --skip-added',
    });
    expect((await readdir(store.options.directory)).filter((name) => name.startsWith('spool'))).toEqual([]);
    // Known by its content.
    expect((await store.open(animals(3), { ...SKIP, ...elsewhere })).counts().added).toBe(3);
  });

  it('is refused where it is damaged, and then nothing of it is taken', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const path = join((await store.jobs())[0] ?? '', 'progress.ndjson');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace(`"id":${2n ** 60n + 1n}`, '"id":"x"'));
    expect(await refusalOf(store.open(mended, SKIP))).toMatchObject({ code: 'damaged_file' });
    await writeFile(path, text);
    expect(await pendingRows(await store.open(mended, SKIP))).toEqual([3, 4, 5]);
  });

  it('is read by the rows that the content had, whatever its format', async () => {
    const store = await bulk();
    await stopAfter(store, animals(5), 2);
    const content = sha256(contentOf(animals(5)) + 1);
    expect(await pendingRows(await store.open(animals(5), { ...SKIP, content }))).toEqual([3, 4, 5]);
  });
});
