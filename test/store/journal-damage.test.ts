import { readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { journalLocation } from '../../src/store/journal/journal-location.ts';
import { createFile } from '../../src/system/file-system.ts';
import { cases } from '../helpers/cases.ts';
import { manualClock } from '../helpers/clock.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';
import {
  animal,
  idempotency,
  journalLine,
  noLock,
  openJournal,
  openJournalStore,
  randomOf,
  textsOf,
  withId,
} from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

/** A journal with one animal per record, and the offsets at which its lines start and the last one ends. */
async function sampleJournal(count: number): Promise<{ bytes: Buffer; starts: number[] }> {
  const directory = await temporaryDirectory();
  const store = await openJournalStore({ directory, clock: manualClock(), lock: noLock });
  for (let i = 1; i <= count; i++) {
    await store.add({ pet: animal(`n${i} é`), ...(i % 2 === 0 && { idempotency: idempotency(`k${i}`) }) });
  }
  await store.close();
  const bytes = await readFile(join(directory, 'journal.ndjson'));
  const starts = [0];
  for (let at = bytes.indexOf('\n'); at >= 0; at = bytes.indexOf('\n', at + 1)) starts.push(at + 1);
  return { bytes, starts };
}

/** Like `openJournal`, on a faster disk in memory, and without adding an animal. */
async function openInMemory(bytes: Buffer) {
  const files = new SimulatedDisk(() => 0);
  await files.mkdir('/store');
  await createFile(files, '/store/journal.ndjson', [bytes]);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  try {
    const store = await openJournalStore({ directory: '/store', files, lock: noLock, onWarning });
    return { pets: textsOf(await store.list({ limit: 100 })), warnings, error: undefined };
  } catch (error) {
    return { pets: [], warnings, error: error as StoreError };
  }
}

function flipBit(bytes: Buffer, at: number, bit = 0): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ (1 << bit);
  return copy;
}

const pet = (id: number) => `{"id":${id},"name":"n","categoryId":1,"status":"sold"}`;
const cut = (bytes: Buffer, from: number, to: number) =>
  Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]);
const insert = (bytes: Buffer, at: number, more: Buffer | string) =>
  Buffer.concat([bytes.subarray(0, at), Buffer.from(more), bytes.subarray(at)]);

describe('a torn end', () => {
  /** `nextId` is higher than every id that can be in the torn end, whose animals have at least 49 bytes and a comma. */
  it.each<[string, nextId: number, (bytes: Buffer, last: number) => Buffer]>([
    ['all but one byte of the record', 5, (bytes) => bytes.subarray(0, -2)],
    ['half of the record', 4, (bytes, last) => bytes.subarray(0, (last + bytes.length) >> 1)],
    ['a record with a changed byte', 5, (bytes, last) => flipBit(bytes, last + 40)],
    ['zeros instead of the record', 5, (bytes, last) => Buffer.from(bytes).fill(0, last)],
    [
      'megabytes of zeros',
      300_003,
      (bytes, last) => insert(bytes.subarray(0, last), last, Buffer.alloc(15_000_000)),
    ],
    ['two invalid lines', 5, (bytes, last) => insert(flipBit(bytes, last + 40), bytes.length, '{"crc":"x\n')],
  ])('is moved to a backup, reported, and its ids are not issued again: %s', async (...row) => {
    const [, nextId, damage] = row;
    const { bytes, starts } = await sampleJournal(3);
    const last = starts[3] ?? 0;
    const damaged = damage(bytes, last);
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'journal.ndjson'), damaged);
    const { tornEnd } = await journalLocation(directory, manualClock()).check();
    expect(tornEnd).toEqual({ start: last, bytes: damaged.length - last });
    const { path, warnings, pets, added, error } = await openJournal(damaged, directory);
    expect(error).toBeUndefined();
    expect(pets).toHaveLength(2);
    expect(added).toMatchObject(withId(BigInt(nextId)));
    const [backup = ''] = (await readdir(directory)).filter((name) =>
      name.startsWith(`journal.torn-${last}-`),
    );
    expect(warnings).toEqual([
      expect.stringContaining(
        `its bytes ${last} to ${damaged.length} were moved to ${join(directory, backup)}; if another program changed the file, they may contain animals that were acknowledged`,
      ),
    ]);
    expect((await readFile(join(directory, backup))).equals(damaged.subarray(last))).toBe(true);
    const kept = await readFile(path);
    expect(kept.subarray(0, last)).toEqual(bytes.subarray(0, last));
    const again = await openJournal(kept);
    expect(again.pets).toHaveLength(3);
    expect(again.warnings).toEqual([]);
  });

  it('does not free its ids if nothing is added before the next start, or the process is killed before it is removed', async () => {
    const { bytes, starts } = await sampleJournal(3);
    const directory = await temporaryDirectory();
    const path = join(directory, 'journal.ndjson');
    await writeFile(path, flipBit(bytes, (starts[3] ?? 0) + 10));
    const files = interceptFiles((name) => {
      if (name === 'truncate') throw errno('EIO');
    });
    await expect(openJournalStore({ directory, lock: noLock, files })).rejects.toThrow('i/o error');
    for (let start = 0; start < 2; start++)
      await (await openJournalStore({ directory, clock: manualClock(), lock: noLock })).close();
    const { pets, added } = await openJournal(await readFile(path));
    expect(pets).toHaveLength(2);
    // The torn end could contain 2 animals, and its rest 1.
    expect(added).toMatchObject(withId(6n));
  });

  it('is removed only after its backup, and then the record that keeps its ids, are on the disk', async () => {
    const { bytes } = await sampleJournal(2);
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'journal.ndjson'), bytes.subarray(0, -5));
    const calls: string[] = [];
    const files = interceptFiles((name, path) => void calls.push(`${name} ${basename(path)}`));
    const store = await openJournalStore({ directory, lock: noLock, files });
    await store.close();
    const truncated = calls.indexOf('truncate journal.ndjson');
    const order = [
      /^write journal.torn/,
      /^datasync journal.torn/,
      /^syncDirectory/,
      /^write journal.ndjson/,
      /^datasync journal.ndjson/,
    ].map((pattern) => calls.slice(0, truncated).findLastIndex((call) => pattern.test(call)));
    expect(order[0]).toBeGreaterThanOrEqual(0);
    expect(order).toEqual(order.toSorted((one, other) => one - other));
  });

  it('does not include a record that lacks only its newline', async () => {
    const { bytes } = await sampleJournal(3);
    const { pets, warnings, path } = await openJournal(bytes.subarray(0, -1));
    expect([pets.length, warnings]).toEqual([3, []]);
    expect((await openJournal(await readFile(path))).pets).toHaveLength(4);
  });
});

describe('damage before the end', () => {
  /** The offsets of the records; the header is at 0. */
  type Starts = Record<'two' | 'three' | 'four', number>;
  it.each<[string, damage: (bytes: Buffer, starts: Starts) => Buffer, record: number]>([
    ['a missing newline', (bytes, { two }) => cut(bytes, two - 1, two), 1],
    ['an additional newline', (bytes, { two }) => Buffer.from(bytes).fill('\n', two + 9, two + 10), 2],
    ['zeros across two records', (bytes, { two }) => Buffer.from(bytes).fill(0, two - 20, two + 20), 1],
    [
      'more after it than a write can leave',
      (bytes, { two }) => insert(bytes.subarray(0, two), two, Buffer.alloc(2 ** 24 + 1, 'x')),
      2,
    ],
    [
      'a record that follows in the same line, and zeros',
      (bytes, { two, three, four }) =>
        Buffer.concat([bytes.subarray(0, two + 50), bytes.subarray(three, four - 1), Buffer.alloc(100)]),
      2,
    ],
    ['a missing record', (bytes, { two, three }) => cut(bytes, two, three), 2],
    ['a duplicate record', (bytes, { two, three }) => insert(bytes, three, bytes.subarray(two, three)), 3],
    ['two records in a row', (bytes, { two, three }) => flipBit(flipBit(bytes, two + 40), three + 40), 2],
    [
      'zeros up to a record that starts at the boundary of two reads',
      (bytes, { two, four }) =>
        Buffer.concat([bytes.subarray(0, two), Buffer.alloc(2 ** 20 - 2), bytes.subarray(four)]),
      2,
    ],
    ['an empty file', () => Buffer.alloc(0), 0],
    ['a file of another format', () => Buffer.from('id,name\n1,Rex\n'), 0],
  ])('is refused without changing the file: %s', async (_, damage, record) => {
    const { bytes, starts } = await sampleJournal(4);
    const [, , two = 0, three = 0, four = 0] = starts;
    const damaged = damage(bytes, { two, three, four });
    const { path, error, directory } = await openJournal(damaged);
    expect(error).toBeInstanceOf(StoreError);
    expect(error?.message).toContain(`${path} is damaged at byte ${starts[record]}:`);
    expect(error?.hint).toContain('backup');
    expect((await readFile(path)).equals(damaged)).toBe(true);
    expect(await readdir(directory)).toEqual(['journal.ndjson']);
  });

  const withKeys = (keys: string) =>
    `"seq":3,"at":1795132800000,"pets":[${pet(9)}],"keys":${keys.replaceAll('HEX', '0123456789abcdef'.repeat(2))}}`;
  it.each([
    ['another sequence number', `"seq":7,"at":1,"pets":[${pet(9)}]}`],
    ['an id that exists', `"seq":3,"at":1,"pets":[${pet(2)}]}`],
    ['descending ids', `"seq":3,"at":1,"pets":[${pet(9)},${pet(8)}]}`],
    ['no animals', '"seq":3,"at":1,"pets":[]}'],
    ['an id above int64', `"seq":3,"at":1,"pets":[${pet(9).replace('9', '9223372036854775808')}]}`],
    ['a key without an animal', withKeys('[{"pet":1,"key":"HEX","body":"HEX"}]')],
    ['a key of an earlier record', withKeys('[{"pet":-1,"key":"HEX","body":"HEX"}]')],
    ['an order that is not JSON', '"seq":3,"at":1,"order":{"a":}}'],
  ])('is refused even with a valid checksum: %s', async (_, rest) => {
    const { bytes, starts } = await sampleJournal(2);
    const damaged = Buffer.concat([bytes, journalLine(rest)]);
    const { path, error } = await openJournal(damaged);
    expect(error).toBeInstanceOf(StoreError);
    expect(error?.message).toContain(`${path} is damaged at byte ${starts[3]}:`);
    expect((await readFile(path)).equals(damaged)).toBe(true);
  });

  it('is refused even with a valid checksum, for every byte of a record', async () => {
    const { bytes } = await sampleJournal(2);
    const rest = withKeys('[{"pet":0,"key":"HEX","body":"HEX"}]');
    expect((await openInMemory(Buffer.concat([bytes, journalLine(rest)]))).pets).toHaveLength(3);
    for (let at = 0; at < rest.length - 1; at++) {
      const changed = `${rest.slice(0, at)}~${rest.slice(at + 1)}`;
      // Another name of the animal is valid.
      if (changed.includes('"name":"~"')) continue;
      const { error } = await openInMemory(Buffer.concat([bytes, journalLine(changed)]));
      expect(error?.message, changed).toContain('is damaged at byte');
    }
  });

  const flips = cases(2_000, 'PETS_BIT_FLIPS');
  it(`is refused for a flipped bit anywhere: ${flips} bits`, { timeout: flips * 10 + 20_000 }, async () => {
    const { bytes, starts } = await sampleJournal(6);
    const last = starts[6] ?? 0;
    const intact = (await openInMemory(bytes)).pets;
    expect(intact).toHaveLength(6);
    const random = randomOf(20261120);
    for (let i = 0; i < flips; i++) {
      const at = Math.floor(random() * bytes.length);
      const bit = Math.floor(random() * 8);
      const { error, pets, warnings } = await openInMemory(flipBit(bytes, at, bit));
      // Damage in the last record looks like a torn write.
      const isExpected =
        at < last
          ? error?.message.includes('is damaged at byte')
          : warnings.length === 1 && pets.join() === intact.slice(0, 5).join();
      if (!isExpected) expect.fail(`bit ${bit} of byte ${at}: ${error ?? pets.length}`);
    }
  });
});
