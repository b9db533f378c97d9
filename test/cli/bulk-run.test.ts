import { chmod, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { idempotencyKeyOf } from '../../src/cli/bulk/ledger.ts';
import type { BulkRun } from '../../src/cli/bulk/open-run.ts';
import type { NewPet } from '../../src/contract/schemas.ts';
import { acquireDirectoryLock } from '../../src/system/lock/directory-lock.ts';
import {
  added,
  addRows,
  animals,
  bulk,
  failed,
  inputOf,
  intent,
  pendingOf,
  refusalOf,
  SKIP,
  sha256,
  unknown,
} from '../helpers/bulk.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';

const DAY = 86_400_000;
const names = (pets: readonly NewPet[]) => pets.map(({ name }) => name);
/** Five animals, the fourth of which was corrected. */
const corrected = [...animals(3), { name: 'Corrected', categoryId: 1n }, ...animals(1, 4)];

const petsOf = (rows: string): NewPet[] =>
  [...rows].map((letter) => ({
    name: letter.toUpperCase(),
    categoryId: 1n,
    ...(letter > 'Z' && { status: 'sold' }),
  }));
const copy = { name: 'copy.csv', path: '/copy.csv' };
const piped = { name: 'standard input', path: undefined };
const otherService = { baseUrl: 'https://api.example.com/v1' };
const skipHint = (restart = '') =>
  `to add only the rows that were not added yet: pets import animals.csv --skip-added${restart}`;
const STOPPED =
  'animals.csv has changed since the run of 2026-11-20 12:00 UTC, which stopped after 2 of 5 rows';
const TWO_RUNS = {
  message:
    'copy.csv matches two earlier runs: /copy.csv (2026-11-20 12:00 UTC) by its path, ' +
    'and /animals.csv (2026-11-20 12:00 UTC) by its content',
  hint: '--skip-added continues the first run and would add 3 rows; --add-again would add all 3 rows',
};
const NO_RUN = {
  code: 'usage',
  message:
    '--skip-added: found no earlier run of animals.csv for http://127.0.0.1:7387/v1, so no row can be skipped',
  hint: 'use the path that the file had in the earlier run, or omit --skip-added if no row was added yet',
};
/** The refusal of a file that was changed after a complete run. `rows` is text such as `2 of its rows were`. */
const changed = (rows: string) => ({
  message: `animals.csv has changed; ${rows} already added on 2026-11-20 12:00 UTC`,
  hint: expect.stringContaining('(--add-again would add '),
});

/**
 * A step is a run, a number of days that pass, or the expected refusal of the run before it. A run is a text. Before the
 * arrow, it has the source (by default /animals.csv), the rows and an option; after the arrow, the rows that are sent.
 * Each letter is the name of an animal, in lower case if its status is sold. A sign after a row is the row's result in
 * `RESULTS`. Without a sign, the row is added. `…` means that the run is interrupted.
 */
type Scenario = [name: string, ...steps: (string | number | object)[]];
const RESULTS = { '': added, '-': failed, '~': unknown, '?': intent } as const;
const COMPLETE = 'ABCDE → ABCDE';
const INTERRUPTED = 'ABCDE → AB…';

it.each<Scenario>([
  ['an unchanged file resumes', INTERRUPTED, 'ABCDE → CDE', 'ABCDE → ', 'ABCDE --skip-added → '],
  ['a copy of a file resumes it', 'ABC → AB…', 'copy ABC → C', 'pipe ABC → ', 'service ABC → ABC'],
  [
    'a copy uses the ledger of the file also after a change',
    ...['ABC → ABC', 'copy ABC → ', 'copy ABCD → refused', 'copy ABCD --skip-added → D', 'ABCD → '],
  ],
  ['a restarted file resumes', COMPLETE, 'ABCDE --add-again → AB…', 'ABCDE → CDE'],
  [
    'a file that was changed after an interrupted run is refused until it is changed back',
    ...[INTERRUPTED, 'ABCDEF → refused'],
    { message: STOPPED, hint: skipHint(' (--add-again would add 2 rows a second time)') },
    ...['VWXYZ → refused', { message: STOPPED, hint: skipHint() }, 'ABCDE → CDE'],
  ],
  [
    'a rejected row is tried again, and an open outcome until it is known',
    'ABC → A-B?…',
    'ABC → A-B~…',
    'ABC → AC',
  ],
  ['a changed file is refused if its last run only has an open outcome', 'AB → A?…', 'ABC → refused'],
  ['a changed file is added if every row of its last run was rejected', 'AB → A-B-…', 'ABC → ABC'],
  [
    '--skip-added keeps unknown rows unknown, and repeats an open outcome',
    'AB → A~B?…',
    'XAB --skip-added → XB',
  ],
  ['a changed file is added if its last run sent nothing', 'ABCDE → …', 'ABCDEF → ABCDEF'],
  [
    'another path, standard input and another service are other files',
    ...[INTERRUPTED, 'copy ABCDEF → ABCDEF', 'pipe ABCDEG → ABCDEG', 'service ABCDEH → ABCDEH'],
  ],
  ['more rows at the end are a change', COMPLETE, 'ABCDEFG → refused', changed('5 of its rows were')],
  ['an old row among others is a change', COMPLETE, 'PQRSTUVA → refused', changed('one of its rows was')],
  ['a corrected row is a change', COMPLETE, 'ABCDX → refused', changed('4 of its rows were')],
  ['a row that is there twice is a change', COMPLETE, 'ABCDEA → refused', changed('5 of its rows were')],
  ['fewer rows leave nothing to add', COMPLETE, 'ABC → '],
  ['another order leaves nothing to add', COMPLETE, 'EDCBA → '],
  ['only other rows are another file', COMPLETE, 'VWXYZ → VWXYZ'],
  ['rows with another status are another file', COMPLETE, 'abcde → ABCDE'],
  ['--skip-added adds what an interrupted run has not', INTERRUPTED, 'ABCXE --skip-added → CXE', 'ABCXE → '],
  ['--skip-added adds inserted rows', 'ABC → ABC', 'XABC --skip-added → X', 'XABC → '],
  ['--skip-added adds the equal rows that are missing', 'ABA → ABA', 'AAAA --skip-added → AA', 'AAAA → '],
  ['--skip-added adds nothing if all is added', COMPLETE, 'ABC --skip-added → ', 'ABC → '],
  ['--skip-added is refused without an earlier run', 'ABCD --skip-added → refused', NO_RUN],
  [
    'a file that matches two runs is refused with what each choice does; --skip-added uses the first',
    ...['ABC → ABC', 'copy XY → XY', 'copy ABC → refused', TWO_RUNS],
    ...['copy ABC --skip-added → ABC', 'ABC → ', 'copy ABC → '],
  ],
  ['a file that matches two runs restarts', 'ABC → ABC', 'copy XY → XY', 'copy ABC --add-again → ABC'],
  ['a run is known for 30 days after its last use', 'AB → AB', 30, 'AB → ', 30.1, 'AB → AB'],
  [
    'a run while the clock is 40 days behind does not make the ledger older',
    ...['AB → AB', -40, 'AB → ', 'BC --skip-added → C', 40, 'BC → ', 'ABC --skip-added → '],
  ],
  ['an unknown row stays unknown after such a run', 'AB → A?…', -40, 'AB → A~B', 40, 'AB → '],
  [
    'a file that is run every ten days keeps its rows, and loses those that it has not had for 30 days',
    ...['AB → AB', 10, 'AV --skip-added → V', 10, 'AW --skip-added → W', 10, 'AX --skip-added → X'],
    ...[10, 'AY --skip-added → Y', 10, 'AZ --skip-added → Z', 'ABVZ --skip-added → B'],
  ],
])('%s', async (_, ...steps) => {
  const { open, clock, find } = await bulk();
  let refusal: object | undefined;
  for (const step of steps) {
    if (typeof step === 'number') clock.advance(step * DAY);
    else if (typeof step === 'object') expect(refusal).toMatchObject(step);
    else {
      const [, where, rows = '', option, expected] =
        /^(copy |pipe |service )?(\w+)( --[\w-]+)? → (.*)$/.exec(step) ?? [];
      const input = inputOf(petsOf(rows), where === 'copy ' ? copy : where === 'pipe ' ? piped : {});
      const options = {
        skipAdded: option === ' --skip-added',
        addAgain: option === ' --add-again',
        ...(where === 'service ' && otherService),
      };
      refusal = undefined;
      if (expected === 'refused') {
        const before = await find('ledger.ndjson');
        refusal = await refusalOf(open(input, options));
        expect(refusal, step).toHaveProperty('code', option ? 'usage' : 'file_changed');
        expect(await find('ledger.ndjson')).toEqual(before);
      } else {
        const sent = [...(expected ?? '').matchAll(/(\w)([-~?]?)/g)];
        const run = await open(input, options);
        const isStopped = expected?.endsWith('…');
        const pending = pendingOf(run).slice(0, isStopped ? sent.length : undefined);
        expect(pending.map(({ pet }) => pet.name).join(''), step).toBe(sent.map(([, name]) => name).join(''));
        for (const [i, row] of pending.entries())
          await run.file.append(RESULTS[sent[i]?.[2] as keyof typeof RESULTS](row));
        if (!isStopped) await run.file.append({ kind: 'finished', at: new Date(clock.now()).toISOString() });
        await run.close();
      }
    }
  }
});

describe('the same file', () => {
  it('keeps the time of its first run when it is resumed', async () => {
    const { run, open, clock } = await bulk();
    await run(animals(3), {}, 1);
    clock.advance(60_000);
    expect((await open(animals(3))).file.header.startedAt).toBe('2026-11-20T12:00:00.000Z');
  });

  it('has nothing to send in another format, with other bytes and other line numbers', async () => {
    const { run } = await bulk();
    await run(animals(3));
    const rows = inputOf(animals(3)).rows.map((row) => ({ ...row, line: row.line - 1 }));
    expect(await run(inputOf(animals(3), { sha256: sha256('ndjson'), rows }))).toEqual([]);
  });

  it('is added again with --add-again, with other idempotency keys, and resumed without it', async () => {
    const { run, open } = await bulk();
    const keys: string[] = [];
    const keysOf = (run: BulkRun) => pendingOf(run).map((row) => idempotencyKeyOf(run.file.header, row));
    const first = await open(animals(3));
    keys.push(...keysOf(first));
    await addRows(first);
    await first.close();
    const restarted = await open(animals(3), { addAgain: true });
    keys.push(...keysOf(restarted));
    expect(new Set(keys).size).toBe(6);
    expect([restarted.sent, restarted.file.header.epoch]).toEqual([3, 1]);
    await addRows(restarted, 1);
    await restarted.close();
    expect(await run(animals(3))).toEqual(names(animals(2, 1)));
  });
});

describe('--skip-added', () => {
  it('reports rows that are gone, once', async () => {
    const { run, open } = await bulk();
    await run(animals(5));
    const changed = await open(corrected, SKIP);
    expect(changed.newlyGone).toMatchObject([{ kind: 'added', line: 5 }]);
    await changed.close();
    const again = await open(corrected, SKIP);
    expect([again.newlyGone, again.plan.gone.length]).toEqual([[], 1]);
    await again.close();
    // A run with the removed row forgets that the row was removed. So the next run without the row reports it again.
    await run(animals(5), SKIP);
    expect((await open(corrected, SKIP)).newlyGone).toHaveLength(1);
  });
});

describe('a lock', () => {
  it.each([
    ['the same path', animals(6), {}],
    ['the same content under another name', animals(5), copy],
    ['the same content from a pipe', animals(5), piped],
  ])('refuses a second run of %s', async (_, pets, more) => {
    const { open } = await bulk();
    const first = await open(animals(5));
    expect(await refusalOf(open(inputOf(pets, more)))).toMatchObject({
      code: 'already_running',
      message: expect.stringMatching(`is already being added by process ${process.pid}$`),
    });
    await first.close();
    expect((await open(inputOf(animals(5), more))).plan.counts.new).toBe(5);
  });

  it('lets one run begin if several start at once', async () => {
    const { open } = await bulk();
    const all = await Promise.allSettled(Array.from({ length: 8 }, () => open(animals(3))));
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const each of all) if (each.status === 'rejected') expect(each.reason.code).toBe('already_running');
  });
});

describe('files', () => {
  it('are private, whatever the umask, and made so again', async () => {
    const { open, options } = await bulk();
    const umask = process.umask(0);
    onTestFinished(() => void process.umask(umask));
    const modes = async () => {
      const paths = ['', ...(await readdir(options.directory, { recursive: true }))];
      const found = await Promise.all(paths.map((path) => stat(join(options.directory, path))));
      // The socket of the lock has no contents, and is in a private directory.
      const all = found.filter((each) => !each.isSocket());
      return [
        ...new Set(all.map((each) => `${each.isDirectory() ? 'd' : '-'}${(each.mode & 0o777).toString(8)}`)),
      ].sort();
    };
    const run = await open(animals(1));
    expect(await modes()).toEqual(['-600', 'd700']);
    await run.close();
    const [ledger = ''] = (await readdir(join(options.directory, 'ledgers'))).map((id) =>
      join(options.directory, 'ledgers', id),
    );
    await chmod(ledger, 0o755);
    await chmod(join(ledger, 'ledger.ndjson'), 0o644);
    await open(animals(1));
    expect(await modes()).toEqual(['-600', 'd700']);
  });

  it('are synced, with every name above them, before a row can be sent', async () => {
    const { open, options } = await bulk();
    const calls: string[] = [];
    const files = interceptFiles((name, path) => void calls.push(`${name} ${path}`));
    await open(animals(1), { files });
    for (const id of await readdir(join(options.directory, 'ledgers'))) {
      const directory = join(options.directory, 'ledgers', id);
      const renamed = calls.findLastIndex((call) => call.startsWith(`rename ${directory}`));
      for (let path = directory; path !== dirname(options.directory); path = dirname(path))
        expect(calls.lastIndexOf(`syncDirectory ${path}`)).toBeGreaterThan(renamed);
    }
    const ledger = calls.filter((call) => call.includes('ledger.ndjson'));
    expect(ledger.findIndex((call) => call.startsWith('datasync'))).toBeLessThan(
      ledger.findIndex((call) => call.startsWith('rename')),
    );
  });

  it.each([
    ['open create', 'EACCES', 'permission denied', 'make the directory writable'],
    ['open create', 'ENOSPC', 'the disk is full', 'free some disk space'],
    ['mkdir', 'EROFS', 'the file system is read-only', 'make the directory writable'],
    ['rename', 'EIO', 'EIO: injected', 'make the directory writable'],
  ])('that cannot be written (%s, %s) refuse the run, and leave nothing', async (call, code, reason, fix) => {
    const { open, options, find } = await bulk();
    let isBroken = true;
    const files = interceptFiles((name) => {
      if (isBroken && name === call) throw errno(code);
    });
    expect(await refusalOf(open(animals(2), { files }))).toMatchObject({
      code: 'file_error',
      message: `cannot write ${options.directory}: ${reason}`,
      hint: expect.stringMatching(`^${fix}; .*PETS_STATE_DIR`),
    });
    expect(await find('')).not.toContainEqual(expect.stringMatching(/(ledger|pointer)\./));
    isBroken = false;
    expect((await open(animals(2), { files })).plan.counts.new).toBe(2);
  });

  it('are complete or as before, whichever call fails when a run begins', async () => {
    for (let when = 0, calls = when; calls >= when; when++) {
      const { open, run } = await bulk();
      await run(animals(3), {}, 1);
      calls = 0;
      const files = interceptFiles(() => {
        if (calls++ === when) throw errno('EIO');
      });
      await open(corrected, { ...SKIP, files })
        .then((begun) => begun.close())
        .catch(() => {});
      expect(await run(corrected, SKIP), `call ${when}`).toEqual([
        'Animal 2',
        'Animal 3',
        'Corrected',
        'Animal 5',
      ]);
    }
  });
});

describe('after 30 days', () => {
  it('a run of another file removes its ledger and its pointer, but no ledger that is in use', async () => {
    const { run, clock, find, setLastUse } = await bulk();
    await run(animals(2));
    const [ledger = ''] = await find('ledger.ndjson');
    await setLastUse();
    clock.advance(30 * DAY + 1);
    const lock = await acquireDirectoryLock(dirname(ledger));
    await setLastUse();
    clock.advance(30 * DAY + 1);
    await run(inputOf(animals(1), copy), otherService);
    expect(await find('ledger.ndjson')).toHaveLength(2);
    await lock.release();
    for (const left of [1, 1]) {
      await setLastUse();
      clock.advance(30 * DAY + 1);
      await run(inputOf(animals(1), copy), otherService);
      expect(await find('ledger.ndjson')).toHaveLength(left);
    }
    expect(await find('pointer.json')).toHaveLength(2);
  });

  it('an interrupted run still knows what it has added', async () => {
    const { run, clock, find, setLastUse } = await bulk();
    await run(animals(3), {}, 2);
    await setLastUse();
    clock.advance(1000 * DAY);
    await run(inputOf(animals(1), copy), otherService);
    expect(await find('ledger.ndjson')).toHaveLength(2);
    expect(await run(animals(3))).toEqual(['Animal 3']);
  });

  it('a ledger that cannot be removed does not matter', async () => {
    const { run, clock, find, setLastUse } = await bulk();
    await run(animals(2));
    await setLastUse();
    clock.advance(31 * DAY);
    const files = interceptFiles((name) => {
      if (name === 'unlink') throw errno('EPERM');
    });
    await run(inputOf(animals(1), copy), { ...otherService, files });
    expect(await find('ledger.ndjson')).toHaveLength(2);
  });
});

it('an entry of an animal with every digit is the same after a restart', async () => {
  const { open } = await bulk();
  const pet = { id: 2n ** 63n - 1n, name: 'Zoë "Z"\u2028\n', categoryId: 1n, colour: { hex: '#fff' } };
  const first = await open(animals(1));
  const row = pendingOf(first)[0] as never;
  await first.file.append({ ...added(row), pet } as never);
  await first.close();
  const second = await open(animals(1));
  expect(second.plan.rows).toMatchObject([{ entry: { kind: 'added', pet } }]);
});
