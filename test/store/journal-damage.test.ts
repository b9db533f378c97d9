import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { StoreDamagedError, type StoreError } from '../../src/store/errors.ts';
import { writeAll } from '../../src/store/files.ts';
import { openJournalStore } from '../../src/store/journal-store.ts';
import { manualClock } from '../helpers/clock.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { interceptFiles } from '../helpers/store-faults.ts';
import { animal, idempotency, randomOf, textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const unlocked = async () => ({ announce() {}, async release() {} });

/** A journal of a header and `count` records, a line for each. */
async function sample(count: number): Promise<{ bytes: Buffer; starts: number[] }> {
  const directory = await temporaryDirectory();
  const store = await openJournalStore({ directory, clock: manualClock(), lock: unlocked });
  for (let i = 1; i <= count; i++) {
    await store.add({ pet: animal(`n${i} é`), ...(i % 2 === 0 && { idempotency: idempotency(`k${i}`) }) });
  }
  await store.close();
  const bytes = await readFile(join(directory, 'journal.ndjson'));
  const starts = [0];
  for (let at = bytes.indexOf('\n'); at >= 0; at = bytes.indexOf('\n', at + 1)) starts.push(at + 1);
  return { bytes, starts };
}

/** Opens a store whose journal is `bytes`, and says what came of it. */
async function reopen(bytes: Uint8Array, where?: string) {
  const directory = where ?? (await temporaryDirectory());
  await mkdir(directory, { recursive: true });
  const path = join(directory, 'journal.ndjson');
  await writeFile(path, bytes);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  try {
    const store = await openJournalStore({ directory, clock: manualClock(), lock: unlocked, onWarning });
    const pets = textsOf(await store.list({ limit: 100 }));
    const added = await store.add({ pet: animal('new') });
    await store.close();
    return { directory, path, warnings, pets, added, error: undefined };
  } catch (error) {
    return { directory, path, warnings, pets: [], added: undefined, error: error as StoreError };
  }
}

/** As `reopen`, on a disk in memory. */
async function reopenQuickly(bytes: Buffer) {
  const files = new SimulatedDisk(() => 0);
  await files.mkdir('/store');
  await writeAll(await files.open('/store/journal.ndjson', 'create'), bytes, 0);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  try {
    const store = await openJournalStore({ directory: '/store', files, lock: unlocked, onWarning });
    return { pets: textsOf(await store.list({ limit: 100 })), warnings, error: undefined };
  } catch (error) {
    return { pets: [], warnings, error };
  }
}

/** A record with a checksum that is right, whatever it says. */
function record(rest: string): Buffer {
  const body = Buffer.from(rest);
  return Buffer.concat([
    Buffer.from(`{"crc":"${crc32(body).toString(16).padStart(8, '0')}",`),
    body,
    Buffer.from('\n'),
  ]);
}

const flip = (bytes: Buffer, at: number, bit = 0) => {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ (1 << bit);
  return copy;
};

describe('a torn tail', () => {
  type Case = [what: string, tear: (bytes: Buffer, last: number) => Buffer];
  const cases: Case[] = [
    ['all but one byte of the record', (bytes) => bytes.subarray(0, -2)],
    ['half of the record', (bytes, last) => bytes.subarray(0, (last + bytes.length) >> 1)],
    ['one byte of the record', (bytes, last) => bytes.subarray(0, last + 1)],
    ['a record with a byte changed', (bytes, last) => flip(bytes, last + 40)],
    ['a record with its checksum changed', (bytes, last) => flip(bytes, last + 10)],
    ['zeros in place of the record', (bytes, last) => Buffer.from(bytes).fill(0, last)],
    ['zeros in place of its beginning', (bytes, last) => Buffer.from(bytes).fill(0, last, last + 30)],
    ['zeros in place of its end', (bytes) => Buffer.from(bytes).fill(0, bytes.length - 30)],
    [
      'megabytes of zeros',
      (bytes, last) => Buffer.concat([bytes.subarray(0, last), Buffer.alloc(40_000_000)]),
    ],
    [
      'two lines, neither valid',
      (bytes, last) => Buffer.concat([flip(bytes, last + 40), Buffer.from('{"crc":"x\n')]),
    ],
    ['a single newline', (bytes, last) => Buffer.concat([bytes.subarray(0, last), Buffer.from('\n')])],
  ];

  it.each(cases)('is cut off, kept beside, and warned about: %s', async (_, tear) => {
    const { bytes, starts } = await sample(3);
    const last = starts[3] ?? 0;
    const torn = tear(bytes, last);
    const { directory, path, warnings, pets, added, error } = await reopen(torn);
    expect(error).toBeUndefined();
    expect(pets).toHaveLength(2);
    expect(added).toMatchObject({ pet: expect.stringContaining('{"id":3,') });
    expect(warnings).toEqual([expect.stringContaining(`byte ${last}`)]);
    expect(warnings[0]).toContain(join(directory, `journal.torn-${last}`));
    expect(Buffer.compare(await readFile(join(directory, `journal.torn-${last}`)), torn.subarray(last))).toBe(
      0,
    );
    const kept = await readFile(path);
    expect(kept.subarray(0, last)).toEqual(bytes.subarray(0, last));
    expect((await reopen(kept)).pets).toHaveLength(3);
  });

  it('never overwrites one that was kept before', async () => {
    const { bytes, starts } = await sample(3);
    const last = starts[3] ?? 0;
    const directory = await temporaryDirectory();
    for (const length of [10, 20, 30]) await reopen(bytes.subarray(0, last + length), directory);
    const names = (await readdir(directory)).filter((name) => name.startsWith('journal.torn')).sort();
    expect(names).toEqual([`journal.torn-${last}`, `journal.torn-${last}-2`, `journal.torn-${last}-3`]);
    const lengths = await Promise.all(
      names.map(async (name) => (await readFile(join(directory, name))).length),
    );
    expect(lengths).toEqual([10, 20, 30]);
  });

  it('is on the disk before it is cut off', async () => {
    const { bytes } = await sample(2);
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'journal.ndjson'), bytes.subarray(0, -5));
    const calls: string[] = [];
    const files = interceptFiles((name, path) => void calls.push(`${name} ${basename(path)}`));
    const store = await openJournalStore({ directory, lock: unlocked, files });
    await store.close();
    const cut = calls.indexOf('truncate journal.ndjson');
    const [write, sync, name] = [/^write journal.torn/, /^datasync journal.torn/, /^syncDirectory/].map(
      (pattern) => calls.slice(0, cut).findLastIndex((call) => pattern.test(call)),
    );
    expect([write, sync, name].every((at) => at !== undefined && at >= 0)).toBe(true);
    expect([write, sync, name]).toEqual([write, sync, name].toSorted((a = 0, b = 0) => a - b));
    expect(calls.slice(cut)).toContain('datasync journal.ndjson');
  });

  it('is no torn tail where only the newline is missing: the record is complete', async () => {
    const { bytes } = await sample(3);
    const { pets, warnings, path } = await reopen(bytes.subarray(0, -1));
    expect([pets.length, warnings]).toEqual([3, []]);
    expect((await reopen(await readFile(path))).pets).toHaveLength(4);
  });
});

describe('damage before the end', () => {
  type Case = [what: string, damage: (bytes: Buffer, starts: number[]) => Buffer, byte: number];
  const without = (bytes: Buffer, from: number, to: number) =>
    Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]);
  const cases: Case[] = [
    ['a byte of a record', (bytes, [, , two = 0]) => flip(bytes, two + 40), 2],
    ['its checksum', (bytes, [, , two = 0]) => flip(bytes, two + 9), 2],
    ['its first byte', (bytes, [, , two = 0]) => flip(bytes, two), 2],
    ['the newline between two records', (bytes, [, , two = 0]) => flip(bytes, two - 1), 1],
    ['that newline gone', (bytes, [, , two = 0]) => without(bytes, two - 1, two), 1],
    ['the newline before the last record', (bytes, [, , , , four = 0]) => flip(bytes, four - 1), 3],
    [
      'a newline in the middle of a record',
      (bytes, [, , two = 0]) => Buffer.from(bytes).fill('\n', two + 9, two + 10),
      2,
    ],
    ['a hole over a boundary', (bytes, [, , two = 0]) => Buffer.from(bytes).fill(0, two - 20, two + 20), 1],
    ['half of a record gone', (bytes, [, , two = 0]) => without(bytes, two + 30, two + 60), 2],
    [
      'megabytes of zeros between',
      (bytes, [, , two = 0]) => {
        return Buffer.concat([bytes.subarray(0, two), Buffer.alloc(20_000_000), bytes.subarray(two)]);
      },
      2,
    ],
    [
      'damage, and a last record without its newline',
      (bytes, [, , two = 0]) => flip(bytes, two + 40).subarray(0, -1),
      2,
    ],
    ['a record gone', (bytes, [, , two = 0, three = 0]) => without(bytes, two, three), 2],
    [
      'a record twice',
      (bytes, [, , two = 0, three = 0]) => {
        return Buffer.concat([bytes.subarray(0, three), bytes.subarray(two)]);
      },
      3,
    ],
    [
      'two records one after the other',
      (bytes, [, , two = 0, three = 0]) => flip(flip(bytes, two + 40), three + 40),
      2,
    ],
    [
      'a hole so long that the next mark lies across two readings of a mebibyte',
      (bytes, [, , two = 0, , four = 0]) =>
        Buffer.concat([bytes.subarray(0, two), Buffer.alloc(2 ** 20 - 2), bytes.subarray(four)]),
      2,
    ],
    ['the header', (bytes) => flip(bytes, 60), 0],
    ['the newline behind the header', (bytes, [, one = 0]) => flip(bytes, one - 1), 0],
    ['an empty file', () => Buffer.alloc(0), 0],
    ['something else altogether', () => Buffer.from('id,name\n1,Rex\n'), 0],
    ['only half a header', (bytes) => bytes.subarray(0, 100), 0],
  ];

  it.each(cases)('is refused, and nothing is changed: %s', async (_, damage, index) => {
    const { bytes, starts } = await sample(4);
    const damaged = damage(bytes, starts);
    const { path, error, directory } = await reopen(damaged);
    expect(error).toBeInstanceOf(StoreDamagedError);
    expect(error?.message).toContain(path);
    expect(error?.message).toContain(`byte ${starts[index]}:`);
    expect(error?.hint).toContain('backup');
    expect(Buffer.compare(await readFile(path), damaged)).toBe(0);
    expect(await readdir(directory)).toEqual(['journal.ndjson']);
  });

  const keyed = (keys: string) =>
    `"seq":3,"at":1795132800000,"pets":[${pet(9)}],"keys":${keys.replaceAll('HEX', '0123456789abcdef'.repeat(2))}}`;
  const pet = (id: number) => `{"id":${id},"name":"n","categoryId":1,"status":"sold"}`;
  it.each([
    ['another sequence number', `"seq":7,"at":1,"pets":[${pet(9)}]}`],
    ['an id that was given before', `"seq":3,"at":1,"pets":[${pet(2)}]}`],
    ['ids that descend', `"seq":3,"at":1,"pets":[${pet(9)},${pet(8)}]}`],
    ['no animals', '"seq":3,"at":1,"pets":[]}'],
    [
      'an id that is no int64',
      '"seq":3,"at":1,"pets":[{"id":9223372036854775808,"name":"n","categoryId":1,"status":"sold"}]}',
    ],
    ['another status', '"seq":3,"at":1,"pets":[{"id":9,"name":"n","categoryId":1,"status":"lost"}]}'],
    ['another field', '"seq":3,"at":1,"pets":[{"id":9,"name":"n","categoryId":1,"status":"sold","x":1}]}'],
    ['a name that does not end', '"seq":3,"at":1,"pets":[{"id":9,"name":"n,"categoryId":1}]}'],
    ['animals and something behind', `"seq":3,"at":1,"pets":[${pet(9)}],"x":1}`],
    ['a key without its animal', keyed('[{"pet":1,"key":"HEX","body":"HEX"}]')],
    ['a key of an animal of the record before', keyed('[{"pet":-1,"key":"HEX","body":"HEX"}]')],
    ['a key of another form', keyed('[{"pet":0,"scope":"","key":"HEX","body":"HEX"}]')],
    ['a key that is too long', keyed('[{"pet":0,"key":"HEX0","body":"HEX"}]')],
    ['a key that is not hexadecimal', keyed('[{"pet":0,"key":"HEX","body":"HEX"}]').replace('def"', 'deF"')],
    ['a key without its body', keyed('[{"pet":0,"key":"HEX"}]')],
    ['a key that does not end', keyed('[{"pet":0,"key":"HEX","body":"HEX}]')],
    ['keys that do not end', keyed('[{"pet":0,"key":"HEX","body":"HEX"}')],
    ['no keys', keyed('[]')],
    ['keys and something behind', keyed('[{"pet":0,"key":"HEX","body":"HEX"}],"x":1')],
    ['an order that is not JSON', '"seq":3,"at":1,"order":{"a":}}'],
    ['another kind of record', '"seq":3,"at":1,"cats":[]}'],
  ])('is refused also with a right checksum: %s', async (_, rest) => {
    const { bytes, starts } = await sample(2);
    const damaged = Buffer.concat([bytes, record(rest)]);
    const { path, error } = await reopen(damaged);
    expect(error).toBeInstanceOf(StoreDamagedError);
    expect(error?.message).toContain(`byte ${starts[3]}:`);
    expect(Buffer.compare(await readFile(path), damaged)).toBe(0);
  });

  it('is refused also with a right checksum, whichever byte of the form it is', async () => {
    const { bytes } = await sample(2);
    const rest = keyed('[{"pet":0,"key":"HEX","body":"HEX"}]');
    expect((await reopenQuickly(Buffer.concat([bytes, record(rest)]))).pets).toHaveLength(3);
    const name = rest.indexOf('"n"') + 1;
    for (let at = 0; at < rest.length - 1; at++) {
      if (at === name) continue;
      const other = `${rest.slice(0, at)}~${rest.slice(at + 1)}`;
      const { error } = await reopenQuickly(Buffer.concat([bytes, record(other)]));
      expect(error, other).toBeInstanceOf(StoreDamagedError);
    }
  });

  it('names a format that it does not know', async () => {
    const { bytes } = await sample(0);
    const header = JSON.parse(bytes.toString());
    const rest = JSON.stringify({ ...header, format: 2, crc: undefined }).slice(1);
    const { error } = await reopen(record(rest));
    expect(error).toBeInstanceOf(StoreDamagedError);
    expect(error?.message).toContain('format 2');
  });
});

describe('a flipped bit', () => {
  const FLIPS = Number(process.env['PETS_BIT_FLIPS'] ?? 2_000);

  it(`never loses the middle without a word: ${FLIPS} of them`, {
    timeout: FLIPS * 10 + 20_000,
  }, async () => {
    const { bytes, starts } = await sample(6);
    const last = starts[6] ?? 0;
    const intact = (await reopenQuickly(bytes)).pets;
    expect(intact).toHaveLength(6);
    const random = randomOf(20261120);
    for (let i = 0; i < FLIPS; i++) {
      const at = Math.floor(random() * bytes.length);
      const bit = Math.floor(random() * 8);
      const { error, pets, warnings } = await reopenQuickly(flip(bytes, at, bit));
      const isAsItShould =
        at < last
          ? error instanceof StoreDamagedError
          : warnings.length === 1 && pets.join() === intact.slice(0, 5).join();
      if (!isAsItShould) expect.fail(`bit ${bit} of byte ${at}: ${error ?? pets.length}`);
    }
  });
});
