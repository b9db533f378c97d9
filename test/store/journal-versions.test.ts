import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { manualClock } from '../helpers/clock.ts';
import {
  animal,
  idempotency,
  journalLine,
  noLock,
  openJournal,
  openJournalStore,
} from '../helpers/store-fixtures.ts';

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
  const { error, warnings, pets, orders, added, path, directory } = await openJournal(bytes);
  expect([error, warnings]).toEqual([undefined, []]);
  expect(pets).toEqual([REX, TOM]);
  expect(orders).toEqual([ORDER]);
  expect(added).toMatchObject({ pet: expect.stringContaining('{"id":9007199254740994,') });
  expect((await readFile(path)).subarray(0, bytes.length).equals(bytes)).toBe(true);
  const again = await openJournalStore({ directory, clock: manualClock(), lock: noLock });
  const replayed = await again.add({ pet: animal(), idempotency: idempotency('k') });
  expect(replayed).toEqual({ kind: 'replayed', pet: TOM });
  await again.close();
});

it.each([
  ['an unknown kind of record', [HEADER, ...RECORDS, '"seq":3,"at":1,"update":{"id":1}}'], 3],
  ...[
    ['an order', ORDER, `${ORDER},"new":1`],
    ['an animal', '"available"', '"available","new":1.50'],
    ['a record', ',"keys"', ',"new":"]","keys"'],
    ['a key', '{"pet"', '{"new":1.50,"pet"'],
    ['a record after the keys', '"}]', '"}],"new":1'],
  ].map(([where, text = '', other = '']): [string, string[], number] => {
    const lines = [HEADER, ...RECORDS];
    const changed = lines.findIndex((line) => line.includes(text));
    return [
      `a new field in ${where}`,
      lines.with(changed, lines[changed]?.replace(text, other) ?? ''),
      changed,
    ];
  }),
  ['another format', [HEADER.replace('"format":1', '"format":2')], 0],
])('refuses a journal of a newer version, which it could not keep complete: %s', async (_, lines, record) => {
  const bytes = journalOf(...lines);
  const { error, path } = await openJournal(bytes);
  expect(error).toBeInstanceOf(StoreError);
  expect(error?.message).toContain(path);
  expect(error?.message).toContain('newer version');
  expect(error).toMatchObject({ hint: expect.stringContaining('use that version') });
  if (record > 0) expect(error?.message).toContain(`byte ${journalOf(...lines.slice(0, record)).length}`);
  expect((await readFile(path)).equals(bytes)).toBe(true);
});
