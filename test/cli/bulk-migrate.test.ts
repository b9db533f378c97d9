import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { idempotencyKeyOf } from '../../src/cli/bulk/ledger.ts';
import type { BulkRun } from '../../src/cli/bulk/open-run.ts';
import type { NewPet } from '../../src/contract/schemas.ts';
import { acquireDirectoryLock } from '../../src/system/lock/directory-lock.ts';
import { animals, type Bulk, bulk, inputOf, refusalOf, SKIP, sha256 } from '../helpers/bulk.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';

// The fixtures were written by version 0.1 for the files of test/helpers/bulk.ts.
const FIXTURES = new URL('../fixtures/bulk-old-format/', import.meta.url).pathname;

async function old(name: string): Promise<Bulk> {
  const store = await bulk();
  store.clock.advance(600_000);
  await cp(join(FIXTURES, name), store.options.directory, { recursive: true });
  return store;
}

const statuses = ({ plan }: BulkRun) => plan.rows.map(({ status }) => status).join(' ');
const [rex, bella] = animals(2) as [NewPet, NewPet];
const changed = [...animals(3), { name: 'Mended', categoryId: 1n }, ...animals(1, 4)];
const copy = { name: 'copy.csv', path: '/copy.csv' };
const piped = { name: 'standard input', path: undefined };

describe('what version 0.1 kept of', () => {
  it.each([
    ['an interrupted run', 'interrupted', inputOf(animals(5)), 'added added ambiguous new new'],
    ['a complete run', 'finished', inputOf(animals(3)), 'added added added'],
    ['failed and unknown rows', 'failed', inputOf(animals(5)), 'added failed unknown added added'],
    ['a changed file', 'changed', inputOf(changed), 'added added ambiguous added new'],
    ['a restarted file', 'restarted', inputOf(animals(6)), 'added new new new new new'],
    ['equal rows', 'equal-rows', inputOf([rex, bella, rex, rex]), 'added new failed new'],
    ['a copied file', 'copied', inputOf(animals(3)), 'added added added'],
    ['the copy', 'copied', inputOf(animals(2, 10), copy), 'added added'],
    ['piped rows', 'piped', inputOf(animals(3), piped), 'added added new'],
    ['piped rows that are a file now', 'piped', inputOf(animals(3)), 'added added new'],
  ])('%s is known', async (_, fixture, input, expected) => {
    const store = await old(fixture);
    const run = await store.open(input);
    expect(statuses(run)).toBe(expected);
    await run.close();
    expect((await readdir(store.options.directory)).sort()).toEqual(['ledgers']);
    // Once: nothing is left to migrate.
    expect(statuses(await store.open(input))).toBe(expected);
  });

  it('an open outcome is repeated with the key that was sent, also from a later content of the file', async () => {
    for (const [fixture, input] of [
      ['interrupted', animals(5)],
      ['changed', changed],
    ] as const) {
      const { file, plan } = await (await old(fixture)).open(input);
      const row = plan.rows[2] as BulkRun['plan']['rows'][number];
      const progress = (await readdir(join(FIXTURES, fixture), { recursive: true })).filter((path) =>
        path.endsWith('progress.ndjson'),
      );
      const texts = await Promise.all(
        progress.map((path) => readFile(join(FIXTURES, fixture, path), 'utf8')),
      );
      expect(texts.join('')).toContain(
        `"row":3,"status":"sending","idempotencyKey":"${idempotencyKeyOf(file.header, row, row.entry)}"`,
      );
    }
  });

  it('an unknown row keeps its key and its message', async () => {
    const { plan } = await (await old('failed')).open(animals(5));
    expect(plan.rows[2]?.entry).toMatchObject({
      kind: 'unknown',
      idempotencyKey: 'key-of-row-3',
      message: 'lost',
    });
  });

  // Written by the command of version 0.1: backup.csv, a copy of animals.csv, was interrupted after three of five rows.
  // Then animals.csv was corrected, and added with --skip-added, with the fifth row of backup.csv.
  it('an interrupted file has the rows that were sent for another file linked with it', async () => {
    const store = await old('linked');
    const { baseUrl } = JSON.parse(
      await readFile(join(FIXTURES, 'linked/paths/8c5ffc9ce60339f1f0976b17fe06352e'), 'utf8'),
    );
    const fileOf = (file: string, names: string[]) =>
      inputOf(
        names.map((name) => ({ name, categoryId: 1n })),
        {
          path: `/tmp/shop/${file}`,
          sha256: sha256(`name,category\n${names.map((name) => `${name},1\n`).join('')}`),
        },
      );
    const five = ['Animal 1', 'Animal 2', 'Animal 3', 'Animal 4', 'Animal 5'];
    const run = await store.open(fileOf('backup.csv', five), { baseUrl });
    expect(statuses(run)).toBe('added added added new added');
    expect(run.newlyGone).toEqual([]);
    await run.close();
    const corrected = fileOf('animals.csv', five.with(3, 'Corrected'));
    expect(await store.run(corrected, { baseUrl })).toEqual([]);
    const putBack = fileOf('animals.csv', five);
    expect(await refusalOf(store.open(putBack, { baseUrl }))).toMatchObject({ code: 'file_changed' });
  });

  it('a changed file is refused, and added with --skip-added without what was added', async () => {
    const store = await old('changed');
    expect(await refusalOf(store.open(animals(5)))).toMatchObject({ code: 'file_changed' });
    expect(await store.run(animals(5), SKIP)).toEqual(['Animal 3', 'Animal 4', 'Animal 5']);
    expect(await store.run(changed)).toEqual([]);
  });

  it('a run with --restart disregards what was added before it', async () => {
    const store = await old('restarted');
    expect(await store.run(animals(6))).toHaveLength(5);
    expect(await store.run([...animals(2), ...animals(4)], SKIP)).toEqual(['Animal 1', 'Animal 2']);
  });

  it('a run of more than 30 days ago is forgotten, unless it was interrupted', async () => {
    for (const [fixture, count] of [
      ['finished', 3],
      ['interrupted', 3],
    ] as const) {
      const store = await old(fixture);
      store.clock.advance(31 * 86_400_000);
      expect(await store.run(animals(fixture === 'finished' ? 3 : 5))).toHaveLength(count);
    }
  });
});

describe('the migration', () => {
  it('is completed by the next run, whichever call fails', async () => {
    for (const [fixture, input] of [
      ['changed', changed],
      ['copied', animals(3)],
    ] as const) {
      for (let when = 0, calls = when; calls >= when; when += 3) {
        const store = await old(fixture);
        calls = 0;
        const files = interceptFiles(() => {
          if (calls++ === when) throw errno('EIO');
        });
        await store
          .open(input, { files })
          .then((run) => run.close())
          .catch(() => {});
        const run = await store.open(input);
        expect(statuses(run), `${fixture}, call ${when}`).toMatch(
          fixture === 'changed' ? /^added added ambiguous added new$/ : /^added added added$/,
        );
        await run.close();
        expect(await store.run(inputOf(animals(2, 10), copy), fixture === 'changed' ? {} : {})).toHaveLength(
          fixture === 'changed' ? 2 : 0,
        );
      }
    }
  }, 120_000);

  it('waits for a run of version 0.1', async () => {
    const store = await old('interrupted');
    const [job = ''] = (await readdir(store.options.directory)).filter((name) => /^[0-9a-f]{32}$/.test(name));
    const lock = await acquireDirectoryLock(join(store.options.directory, job));
    expect(await refusalOf(store.open(animals(5)))).toMatchObject({ code: 'already_running' });
    await lock.release();
    expect(statuses(await store.open(animals(5)))).toBe('added added ambiguous new new');
  });

  it('reads a torn progress file up to its last complete line, and refuses a damaged one', async () => {
    const store = await old('interrupted');
    const [job = ''] = (await readdir(store.options.directory)).filter((name) => /^[0-9a-f]{32}$/.test(name));
    const path = join(store.options.directory, job, 'progress.ndjson');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace('"sending"', '"resting"'));
    expect(await refusalOf(store.open(animals(5)))).toMatchObject({
      code: 'damaged_file',
      message: `${path}, written by an earlier version of pets, is damaged`,
    });
    await writeFile(path, text.slice(0, -20));
    expect(statuses(await store.open(animals(5)))).toBe('added added ambiguous ambiguous new');
  });
});
