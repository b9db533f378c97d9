import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreError, StoreFailedError } from '../../src/store/errors.ts';
import { type JournalOptions, type JournalStore, openJournalStore } from '../../src/store/journal-store.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import { animal, idempotency, textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const lines = async (directory: string) =>
  (await readFile(join(directory, 'journal.ndjson'), 'utf8')).split('\n');
const everything = async (store: JournalStore) => textsOf(await store.list({ limit: 1000 }));

async function open(directory: string, options: Partial<JournalOptions> = {}): Promise<JournalStore> {
  const store = await openJournalStore({ directory, clock: manualClock(), ...options });
  onTestFinished(() => store.close());
  return store;
}

describe('a journal', () => {
  it('comes back byte for byte, with its id and its secret', async () => {
    const directory = await temporaryDirectory();
    const first = await open(directory);
    const names = ['Rex', 'é"\\\n', '猫'.repeat(200), ''];
    const added = await Promise.all(names.map((name) => first.add({ pet: animal(name) })));
    await first.close();
    const before = await readFile(join(directory, 'journal.ndjson'));
    const second = await open(directory);
    expect([second.id, second.secret]).toEqual([first.id, first.secret]);
    expect(await everything(second)).toEqual(added.map((outcome) => 'pet' in outcome && outcome.pet));
    expect(await readFile(join(directory, 'journal.ndjson'))).toEqual(before);
    expect(await second.add({ pet: animal() })).toMatchObject({ pet: expect.stringContaining('{"id":5,') });
  });

  it('brings a seed back: animals, orders, and the next id', async () => {
    const directory = await temporaryDirectory();
    const first = await open(directory);
    const pets = Array.from({ length: 2300 }, (_, i) => ({ id: BigInt(2 * i), ...animal(`n${i}`) }));
    await first.seed({ pets, orders: [{ id: 9223372036854775807n }, [1]] });
    await first.add({ pet: animal('later') });
    await first.close();
    const second = await open(directory);
    expect(await second.size()).toBe(2301);
    expect(await second.orders()).toEqual(['{"id":9223372036854775807}', '[1]']);
    expect(await second.get(4599n)).toContain('later');
  });

  it('writes readable lines, one for all that came together', async () => {
    const directory = await temporaryDirectory();
    const store = await open(directory);
    await Promise.all(
      ['a', 'b'].map((name) => store.add({ pet: animal(name), idempotency: idempotency(name) })),
    );
    const [header = '', batch = '', ...rest] = await lines(directory);
    expect(JSON.parse(header)).toMatchObject({ seq: 0, format: 1, id: store.id, secret: store.secret });
    expect(JSON.parse(batch)).toMatchObject({
      seq: 1,
      at: Date.UTC(2026, 10, 20, 12),
      pets: [{ id: 1, name: 'a' }, { id: 2 }],
      keys: [{ pet: 0, key: expect.stringMatching(/^[0-9a-f]{32}$/), body: 'f'.repeat(32) }, { pet: 1 }],
    });
    expect(rest).toEqual(['']);
  });

  it('puts at most a thousand animals, or a mebibyte, into one line', async () => {
    const directory = await temporaryDirectory();
    const store = await open(directory);
    await Promise.all(Array.from({ length: 1500 }, () => store.add({ pet: animal() })));
    await Promise.all(Array.from({ length: 5 }, () => store.add({ pet: animal('x'.repeat(300_000)) })));
    const counts = (await lines(directory)).slice(1, -1).map((line) => JSON.parse(line).pets.length);
    expect(counts).toEqual([1000, 500, 3, 2]);
  });

  it('remembers keys after a restart, for what is left of their 24 hours', async () => {
    const directory = await temporaryDirectory();
    const clock = manualClock();
    const addition = { pet: animal(), idempotency: idempotency('k') };
    const first = await open(directory, { clock });
    const added = await first.add(addition);
    await first.close();
    clock.advance(24 * 3_600_000 - 1);
    const second = await open(directory, { clock });
    expect(await second.add(addition)).toEqual({ ...added, kind: 'replayed' });
    await second.close();
    clock.advance(1);
    const third = await open(directory, { clock });
    expect((await third.add(addition)).kind).toBe('added');
  });

  it('is for its owner alone, under a umask that forbids nothing', async () => {
    const directory = join(await temporaryDirectory(), 'deep', 'store');
    const before = process.umask(0);
    onTestFinished(() => void process.umask(before));
    const store = await open(directory);
    await store.seed({ pets: [{ id: 1n, ...animal() }], orders: [] });
    const modeOf = async (path: string) => (await stat(path)).mode & 0o777;
    expect(await modeOf(directory)).toBe(0o700);
    expect(await modeOf(join(directory, '..'))).toBe(0o700);
    for (const name of await readdir(directory))
      expect(await modeOf(join(directory, name)), name).toBe(0o600);
  });

  it('removes what a killed writer left, and nothing else', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'journal.new-0123456789abcdef'), 'half');
    await writeFile(join(directory, 'notes.txt'), 'mine');
    await open(directory);
    const names = await readdir(directory);
    expect(names).toContain('notes.txt');
    expect(names.filter((name) => name.startsWith('journal.new'))).toEqual([]);
  });

  it('refuses a record that no line could hold, and goes on', async () => {
    const store = await open(await temporaryDirectory());
    await expect(store.add({ pet: animal('x'.repeat(9_000_000)) })).rejects.toThrow(StoreError);
    expect(await store.add({ pet: animal() })).toMatchObject({ pet: expect.stringContaining('{"id":1,') });
  });

  it.each(['ENOTDIR', 'EACCES'])('says what to do about %s', async (code) => {
    const files = interceptFiles((name) => {
      if (name === 'readdir') throw errno(code);
    });
    const error = await open(await temporaryDirectory(), { files }).catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreError);
    expect(error.message).toContain(code);
    expect(error.hint).toContain('--data');
  });

  it('refuses a path that is a file', async () => {
    const path = join(await temporaryDirectory(), 'file');
    await writeFile(path, '');
    await expect(open(path)).rejects.toThrow(StoreError);
    await expect(open(join(path, 'below'))).rejects.toThrow(StoreError);
  });

  it('opens in a directory that was there before', async () => {
    const directory = join(await temporaryDirectory(), 'there');
    await mkdir(directory);
    await chmod(directory, 0o750);
    expect(await (await open(directory)).size()).toBe(0);
  });
});

describe('an animal that is not synced', () => {
  it('is seen by nobody, and acknowledged to nobody', async () => {
    let isHeld = false;
    let release = () => {};
    const held = new Promise<void>((done) => {
      release = done;
    });
    let reached = () => {};
    const syncing = new Promise<void>((done) => {
      reached = done;
    });
    const files = interceptFiles(async (name) => {
      if (!isHeld || name !== 'datasync') return;
      reached();
      await held;
    });
    const store = await open(await temporaryDirectory(), { files });
    isHeld = true;
    let isDone = false;
    const adding = store.add({ pet: animal() }).then(() => {
      isDone = true;
    });
    await syncing;
    const later = store.add({ pet: animal('later') });
    await new Promise(setImmediate);
    expect([isDone, await store.size(), await store.get(1n), await everything(store)]).toEqual([
      false,
      0,
      undefined,
      [],
    ]);
    isHeld = false;
    release();
    await adding;
    await later;
    expect(await store.size()).toBe(2);
  });
});

describe('a write that fails', () => {
  type Case = [what: string, name: string, code: string];
  const cases: Case[] = [
    ['a full disk', 'write', 'ENOSPC'],
    ['a broken disk', 'write', 'EIO'],
    ['a sync that fails', 'datasync', 'EIO'],
    ['a sync on a full disk', 'datasync', 'ENOSPC'],
  ];

  /** A store with three animals, the third of which meets the error. */
  async function failing(name: string, code: string, maxWrite?: number) {
    let countdown = Number.POSITIVE_INFINITY;
    const intercept: Intercept = (called) => {
      if (called === name && --countdown < 0) throw errno(code);
    };
    const failures: StoreFailedError[] = [];
    const directory = await temporaryDirectory();
    const store = await open(directory, {
      files: interceptFiles(intercept, maxWrite),
      onFailure: (error) => failures.push(error),
    });
    await store.add({ pet: animal('one') });
    countdown = maxWrite ? 2 : 0;
    const attempts = await Promise.allSettled([
      store.add({ pet: animal('two') }),
      store.add({ pet: animal('three') }),
    ]);
    return { directory, store, failures, attempts };
  }

  it.each(cases)('stops the store: %s (%s, %s)', async (_, name, code) => {
    const { directory, store, failures, attempts } = await failing(name, code);
    expect(failures).toHaveLength(1);
    expect(failures[0]?.message).toContain(join(directory, 'journal.ndjson'));
    expect(failures[0]?.message).toContain(code);
    expect(failures[0]?.hint).toMatch(/start again/);
    for (const attempt of attempts) expect(attempt).toMatchObject({ reason: failures[0] });
    for (const call of [
      () => store.add({ pet: animal() }),
      () => store.list({ limit: 1 }),
      () => store.get(1n),
      () => store.orders(),
      () => store.size(),
      () => store.seed({ pets: [], orders: [] }),
    ]) {
      await expect(call()).rejects.toThrow(StoreFailedError);
    }
    expect(failures).toHaveLength(1);
  });

  it('is told to everybody who waits, the batches behind it too', async () => {
    let isBroken = false;
    const files = interceptFiles((name) => {
      if (isBroken && name === 'datasync') throw errno('EIO');
    });
    const store = await open(await temporaryDirectory(), { files });
    isBroken = true;
    const attempts = await Promise.allSettled(
      Array.from({ length: 2500 }, () => store.add({ pet: animal() })),
    );
    const reasons = attempts.map((attempt) => attempt.status === 'rejected' && attempt.reason);
    expect(reasons.every((reason) => reason instanceof StoreFailedError)).toBe(true);
  });

  it.each([
    ['write', 'ENOSPC'],
    ['datasync', 'EIO'],
  ])('keeps what was acknowledged, whatever became of the rest: %s', async (name, code) => {
    const { directory, store } = await failing(name, code, name === 'write' ? 30 : undefined);
    await store.close();
    const again = await open(directory);
    expect((await everything(again))[0]).toContain('"one"');
    expect([1, 3]).toContain(await again.size());
  });

  it('goes on after short writes, and leaves nothing out', async () => {
    const directory = await temporaryDirectory();
    const store = await open(directory, { files: interceptFiles(() => {}, 7) });
    await store.add({ pet: animal('a long enough name') });
    await store.close();
    expect(await everything(await open(directory))).toHaveLength(1);
  });

  it.each(['EIO', 'ENOSPC'])('is met at every single call: %s', async (code) => {
    for (let failAt = 0, isOver = false; !isOver; failAt++) {
      let calls = 0;
      const files = interceptFiles(() => {
        if (calls++ === failAt) throw errno(code);
      });
      const directory = join(await temporaryDirectory(), 'store');
      const acknowledged: string[] = [];
      try {
        const store = await openJournalStore({ directory, files });
        try {
          await store.seed({ pets: [{ id: 5n, ...animal() }], orders: [{}] });
          acknowledged.push(...(await everything(store)));
          for (const name of ['a', 'b']) {
            const outcome = await store.add({ pet: animal(name) });
            if (outcome.kind === 'added') acknowledged.push(outcome.pet);
          }
        } finally {
          await store.close();
        }
        isOver = calls <= failAt;
      } catch (error) {
        expect(error).toBeInstanceOf(StoreError);
        expect((error as Error).message).toContain(code);
      }
      const again = await openJournalStore({ directory });
      expect((await everything(again)).slice(0, acknowledged.length)).toEqual(acknowledged);
      await again.close();
    }
  });
});
