import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import { manualClock } from '../helpers/clock.ts';
import { animal, journalLine, noLock, openJournal } from '../helpers/store-fixtures.ts';

// Bytes that version 0.1.0 wrote. Every later version must be able to open them.
const HEADER = `"seq":0,"format":1,"id":"6f9619ff-8b86-4011-b42d-00cf4fc964ff","secret":"${'5'.repeat(64)}","created":"2026-11-20T12:00:00.000Z"}`;
const REX = '{"id":1,"name":"Rex","categoryId":3,"status":"available"}';
const TOM = '{"id":9007199254740993,"name":"Tom é","categoryId":-3,"status":"sold"}';
const ORDER = '{"id":9223372036854775807,"total":1.50}';
// The fingerprint of the scope `a`, the key `k`, the body hash ff…ff, and the secret above.
const KEY = '"key":"c6997f89c324a47a74775daa839bac5d","body":"ffffffffffffffffffffffffffffffff"';
const AT = Date.UTC(2026, 10, 20, 12);
const RECORDS = [
  `"seq":1,"at":${AT},"order":${ORDER}}`,
  `"seq":2,"at":${AT},"pets":[${REX},${TOM}],"keys":[{"pet":1,${KEY}}]}`,
];
const journalOf = (...lines: string[]) => Buffer.concat(lines.map(journalLine));

it('opens a journal of version 0.1.0 without changing it', async () => {
  const bytes = journalOf(HEADER, ...RECORDS);
  const { error, warnings, pets, orders, added, path } = await openJournal(bytes);
  expect([error, warnings]).toEqual([undefined, []]);
  expect(pets).toEqual([REX, TOM]);
  expect(orders).toEqual([ORDER]);
  expect(added).toMatchObject({ pet: expect.stringContaining('{"id":9007199254740994,') });
  expect((await readFile(path)).subarray(0, bytes.length).equals(bytes)).toBe(true);
});

describe('a journal of a newer version', () => {
  const [order = '', batch = ''] = RECORDS;
  it.each<[where: string, lines: string[], pets: string[]]>([
    ['the header', [HEADER.replace('"format":1', '"format":1,"new":{}'), order, batch], [REX, TOM]],
    ['an order record', [HEADER, order.replace(/\}$/, ',"new":1}'), batch], [REX, TOM]],
    ['a record, before the keys', [HEADER, order, batch.replace(',"keys"', ',"new":"]","keys"')], [REX, TOM]],
    ['a key', [HEADER, order, batch.replace('{"pet"', '{"new":1.50,"pet"')], [REX, TOM]],
    ['a record without keys', [HEADER, order, `"seq":2,"at":${AT},"pets":[${REX}],"keys":[]}`], [REX]],
    [
      'an animal before others, which keeps the field',
      [HEADER, order, batch.replace('"available"', '"available","new":1.50')],
      [REX.replace('"available"', '"available","new":1.50'), TOM],
    ],
  ])('is read if it has an unknown field in %s', async (_, lines, expected) => {
    const { error, pets, orders, directory } = await openJournal(journalOf(...lines));
    expect(error).toBeUndefined();
    expect(pets).toEqual(expected);
    expect(orders).toEqual([ORDER]);
    // The additional animal was added by `openJournal`.
    const again = await openJournalStore({ directory, clock: manualClock(), lock: noLock });
    expect(await again.size()).toBe(expected.length + 1);
    if (expected.length > 1) {
      const idempotency = { scope: 'a', key: 'k', bodyHash: 'f'.repeat(64) };
      const replayed = await again.add({ pet: animal(), idempotency });
      expect(replayed).toEqual({ kind: 'replayed', pet: expected[1] });
    }
    await again.close();
  });

  it.each([
    ['an unknown kind of record', [HEADER, ...RECORDS, '"seq":3,"at":1,"update":{"id":1}}'], 3],
    ['another format', [HEADER.replace('"format":1', '"format":2')], 0],
  ])('is refused, but not as damaged, if it has %s', async (_, lines, record) => {
    const bytes = journalOf(...lines);
    const { error, path } = await openJournal(bytes);
    expect(error).toBeInstanceOf(StoreError);
    expect(error?.message).toContain(path);
    expect(error?.message).toContain('newer version');
    expect(error?.message).not.toContain('damaged');
    if (record > 0) expect(error?.message).toContain(`byte ${journalOf(...lines.slice(0, record)).length}`);
    expect((await readFile(path)).equals(bytes)).toBe(true);
  });
});
