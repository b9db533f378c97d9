import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { idempotencyKeyOf } from '../../src/cli/bulk/ledger.ts';
import type { BulkRun } from '../../src/cli/bulk/open-run.ts';
import type { NewPet } from '../../src/contract/schemas.ts';
import { acquireDirectoryLock } from '../../src/system/lock/directory-lock.ts';
import { animals, BASE_URL, type Bulk, bulk, inputOf, refusalOf, SKIP, sha256 } from '../helpers/bulk.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';

// The fixtures were written by version 0.1 for the files of test/helpers/bulk.ts.
const FIXTURES = new URL('../fixtures/bulk-old-format/', import.meta.url).pathname;

async function old(name: string): Promise<Bulk> {
  const store = await bulk();
  store.clock.advance(600_000);
  await cp(join(FIXTURES, name), store.options.directory, { recursive: true });
  return store;
}

const DAY = 86_400_000;
const statuses = ({ plan }: BulkRun) => plan.rows.map(({ status }) => status).join(' ');
const [rex, bella] = animals(2) as [NewPet, NewPet];
const changed = [...animals(3), { name: 'Mended', categoryId: 1n }, ...animals(1, 4)];
const copy = { name: 'copy.csv', path: '/copy.csv' };
const piped = { name: 'standard input', path: undefined };

describe('what version 0.1 kept of', () => {
  it.each([
    ['an interrupted run', 'interrupted', inputOf(animals(5)), 'added added ambiguous new new'],
    ['one of more than 30 days ago', 'interrupted', inputOf(animals(5)), 'added added unknown new new', 31],
    ['a complete run', 'finished', inputOf(animals(3)), 'added added added'],
    ['failed and unknown rows', 'failed', inputOf(animals(5)), 'added failed unknown added added'],
    ['a changed file', 'changed', inputOf(changed), 'added added ambiguous added new'],
    ['a restarted file', 'restarted', inputOf(animals(6)), 'added new new new new new'],
    ['equal rows', 'equal-rows', inputOf([rex, bella, rex, rex]), 'added new failed new'],
    ['a copied file', 'copied', inputOf(animals(3)), 'added added added'],
    ['the copy', 'copied', inputOf(animals(2, 10), copy), 'added added'],
    ['piped rows', 'piped', inputOf(animals(3), piped), 'added added new'],
    ['piped rows that are a file now', 'piped', inputOf(animals(3)), 'added added new'],
  ])('%s is known', async (_, fixture, input, expected, days = 0) => {
    const store = await old(fixture);
    store.clock.advance(days * DAY);
    const run = await store.open(input);
    expect(statuses(run)).toBe(expected);
    await run.close();
    expect((await readdir(store.options.directory)).sort()).toEqual(['ledgers']);
    // The second run has nothing to migrate.
    expect(statuses(await store.open(input))).toBe(expected);
  });

  it('a complete run of more than 30 days ago is forgotten', async () => {
    const store = await old('finished');
    store.clock.advance(31 * DAY);
    expect(await store.run(animals(3))).toHaveLength(3);
  });

  it.each([
    ['', 'interrupted', animals(5)],
    [', also from a later content of the file', 'changed', changed],
  ])('an open outcome is repeated with the key that was sent%s', async (_, fixture, pets) => {
    const store = await old(fixture);
    const texts = await Promise.all(
      (await store.find('progress.ndjson')).map((path) => readFile(path, 'utf8')),
    );
    const { file, plan } = await store.open(pets);
    const key = idempotencyKeyOf(file.header, plan.rows[2] as never, plan.rows[2]?.entry);
    expect(texts.join('')).toContain(`"row":3,"status":"sending","idempotencyKey":"${key}"`);
  });

  it('an unknown row keeps its key and its message', async () => {
    const { plan } = await (await old('failed')).open(animals(5));
    const kept = { kind: 'unknown', idempotencyKey: 'key-of-row-3', message: 'lost' };
    expect(plan.rows[2]?.entry).toMatchObject(kept);
  });

  // backup.csv is a copy of animals.csv. Version 0.1 was interrupted after it had added three of the five rows of
  // backup.csv. Then it added animals.csv, with a corrected fourth row, and so added the fifth row of both files.
  it('an interrupted file has the rows that were sent for another file linked with it', async () => {
    const store = await old('linked');
    const five = ['Animal 1', 'Animal 2', 'Animal 3', 'Animal 4', 'Animal 5'];
    const open = async (path: string, names: string[]) => {
      const pets = names.map((name) => ({ name, categoryId: 1n }));
      const content = sha256(`name,category\n${names.map((name) => `${name},1\n`).join('')}`);
      const baseUrl = 'http://127.0.0.1:40151/v1';
      const run = await store.open(inputOf(pets, { path: `/tmp/shop/${path}`, sha256: content }), {
        baseUrl,
      });
      await run.close();
      return [statuses(run), run.newlyGone.length];
    };
    expect(await open('backup.csv', five)).toEqual(['added added added new added', 0]);
    expect(await open('animals.csv', five.with(3, 'Corrected'))).toEqual([
      'added added added added added',
      0,
    ]);
    expect(await refusalOf(open('animals.csv', five))).toMatchObject({ code: 'file_changed' });
  });

  it('the same path at another service is known, too', async () => {
    const store = await old('interrupted');
    const { directory } = store.options;
    const other = { baseUrl: 'https://api.example.com/v1' };
    const [progress = ''] = await store.find('progress.ndjson');
    const [index = ''] = await readdir(join(directory, 'paths'));
    const copy = async (from: string, to: string) => {
      const text = (await readFile(from, 'utf8')).replaceAll(BASE_URL, other.baseUrl);
      await writeFile(to, text.replaceAll(basename(dirname(progress)), 'f'.repeat(32)));
    };
    await cp(dirname(progress), join(directory, 'f'.repeat(32)), { recursive: true });
    await copy(progress, join(directory, 'f'.repeat(32), 'progress.ndjson'));
    await copy(join(directory, 'paths', index), join(directory, 'paths', 'f'.repeat(32)));
    for (const options of [{}, other])
      expect(await refusalOf(store.open(changed, options))).toMatchObject({ code: 'file_changed' });
  });

  it('a changed file is refused, and added with --skip-added without what was added', async () => {
    const store = await old('changed');
    expect(await refusalOf(store.open(animals(5)))).toMatchObject({ code: 'file_changed' });
    expect(await store.run(animals(5), SKIP)).toEqual(['Animal 3', 'Animal 4', 'Animal 5']);
    expect(await store.run(changed)).toEqual([]);
  });

  it('a run with --add-again disregards what was added before it', async () => {
    const store = await old('restarted');
    expect(await store.run(animals(6))).toHaveLength(5);
    expect(await store.run([...animals(2), ...animals(4)], SKIP)).toEqual(['Animal 1', 'Animal 2']);
  });
});

describe('the migration', () => {
  it.each([
    ['changed', changed, 'added added ambiguous added new', 2],
    ['copied', animals(3), 'added added added', 0],
  ])(
    'of a file that was %s is completed by the next run, whichever call fails',
    async (...args) => {
      const [fixture, pets, expected, leftOfCopy] = args;
      for (let when = 0, calls = when; calls >= when; when += 3) {
        const store = await old(fixture);
        calls = 0;
        const files = interceptFiles(() => {
          if (calls++ === when) throw errno('EIO');
        });
        await store.open(pets, { files }).then(
          (run) => run.close(),
          () => {},
        );
        const run = await store.open(pets);
        expect(statuses(run), `call ${when}`).toBe(expected);
        await run.close();
        expect(await store.run(inputOf(animals(2, 10), copy))).toHaveLength(leftOfCopy);
      }
    },
    120_000,
  );

  it('waits for a run of version 0.1', async () => {
    const store = await old('interrupted');
    const [progress = ''] = await store.find('progress.ndjson');
    const lock = await acquireDirectoryLock(dirname(progress));
    expect(await refusalOf(store.open(animals(5)))).toMatchObject({ code: 'already_running' });
    await lock.release();
    expect(statuses(await store.open(animals(5)))).toBe('added added ambiguous new new');
  });

  it('reads a torn progress file up to its last complete line, and refuses a damaged one', async () => {
    const store = await old('interrupted');
    const [path = ''] = await store.find('progress.ndjson');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace('"sending"', '"resting"'));
    const message = `${path}, written by an earlier version of pets, is damaged`;
    expect(await refusalOf(store.open(animals(5)))).toMatchObject({ code: 'damaged_file', message });
    await writeFile(path, text.slice(0, -20));
    expect(statuses(await store.open(animals(5)))).toBe('added added ambiguous ambiguous new');
  });
});
