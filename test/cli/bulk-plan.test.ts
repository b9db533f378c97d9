import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  animalHash,
  applyRecord,
  dropOldEntries,
  idempotencyKeyOf,
  type Ledger,
  type LedgerEntry,
} from '../../src/cli/bulk/ledger.ts';
import { countToSend, plan, type RowStatus } from '../../src/cli/bulk/plan.ts';
import type { NewPet } from '../../src/contract/schemas.ts';
import {
  API_KEY_HASH,
  added,
  animals,
  failed,
  intent,
  notSent,
  rowsOf,
  sha256,
  unknown,
} from '../helpers/bulk.ts';
import { cases } from '../helpers/cases.ts';

const HOUR = 3_600_000;
const NOW = Date.parse('2026-11-20T13:00:00Z');
const circumstances = { now: NOW, apiKeyHash: API_KEY_HASH, supportsIdempotency: true };

function ledgerOf(...entries: LedgerEntry[]): Ledger {
  const header = {
    kind: 'ledger',
    version: 1,
    baseUrl: '',
    source: '/animals.csv',
    nonce: '0'.repeat(32),
  } as const;
  const ledger: Ledger = {
    header: { ...header, epoch: 0, sha256: sha256(''), rows: 1, startedAt: '2026-11-20T12:00:00.000Z' },
    entries: new Map(),
    finishedAt: undefined,
  };
  for (const entry of entries) applyRecord(ledger, entry);
  return ledger;
}

const [rex, bella] = animals(2) as [NewPet, NewPet];
const rexRow = (n: number) => ({ hash: animalHash(rex), n });

describe('a row is', () => {
  const row = rexRow(1);
  it.each<[string, LedgerEntry[], object, RowStatus]>([
    ['new without an entry', [], {}, 'new'],
    ['new if the last attempt was not sent', [intent(row), notSent(row)], {}, 'new'],
    ['added', [intent(row), added(row)], {}, 'added'],
    ['failed', [intent(row), failed(row)], {}, 'failed'],
    ['unknown', [unknown(row)], {}, 'unknown'],
    ['ambiguous if its outcome is open', [intent(row)], {}, 'ambiguous'],
    ['ambiguous after 23 hours', [intent(row)], { now: NOW + 22 * HOUR }, 'ambiguous'],
    ['unknown after more than 23 hours', [intent(row)], { now: NOW + 22 * HOUR + 1 }, 'unknown'],
    ['unknown if the clock was set back', [intent(row)], { now: NOW - HOUR - 1 }, 'unknown'],
    ['unknown for another API key', [intent(row)], { apiKeyHash: sha256('other') }, 'unknown'],
    [
      'unknown if the service does not support keys',
      [intent(row)],
      { supportsIdempotency: false },
      'unknown',
    ],
  ])('%s', (_, entries, more, status) => {
    const planned = plan(rowsOf([rex]), ledgerOf(...entries).entries.values(), { ...circumstances, ...more });
    expect(planned.rows).toMatchObject([{ n: 1, status, line: 2, pet: rex }]);
    expect(planned.counts[status]).toBe(1);
  });
});

describe('equal rows', () => {
  const all = [added(rexRow(4)), intent(rexRow(3)), unknown(rexRow(2)), failed(rexRow(1))];

  it.each([
    [5, ['failed', 'unknown', 'ambiguous', 'added', 'new']],
    [4, ['failed', 'unknown', 'ambiguous', 'added']],
    [3, ['unknown', 'ambiguous', 'added']],
    [2, ['ambiguous', 'added']],
    [1, ['added']],
  ])('%i of them match added entries first, then ambiguous, unknown and failed ones', (count, statuses) => {
    const planned = plan(rowsOf(Array(count).fill(rex)), ledgerOf(...all).entries.values(), circumstances);
    expect(planned.rows.map(({ status }) => status)).toEqual(statuses);
    expect(planned.gone).toHaveLength(Math.max(0, 4 - count));
  });

  it('keep their own entries while the file is unchanged, whatever is between them', () => {
    const planned = plan(
      rowsOf([rex, bella, rex]),
      ledgerOf(failed(rexRow(1)), added(rexRow(2))).entries.values(),
      circumstances,
    );
    expect(planned.rows.map(({ n, status }) => [n, status])).toEqual([
      [1, 'failed'],
      [1, 'new'],
      [2, 'added'],
    ]);
  });

  it('differ by name, category and status; without a status they are available', () => {
    const pets: NewPet[] = [
      rex,
      { ...rex, status: 'available' },
      { ...rex, status: 'sold' },
      { ...rex, categoryId: 1n },
    ];
    expect(new Set(pets.map(animalHash)).size).toBe(3);
    expect(animalHash(rex)).toMatch(/^[\w-]{22}$/);
  });
});

describe('whatever was deleted, inserted or moved', () => {
  const KINDS = [added, intent, unknown, failed, notSent];
  const entries = fc.array(fc.tuple(fc.nat(2), fc.nat(KINDS.length - 1), fc.integer({ min: 1, max: 5 })));
  const rows = fc.array(fc.nat(2), { maxLength: 12 });

  it('no row is sent while an entry that may have been added is free', () => {
    fc.assert(
      fc.property(entries, rows, (known, file) => {
        const pets = animals(3);
        const ledger = ledgerOf(
          ...known.map(
            ([pet, kind, n]) => KINDS[kind]?.({ hash: animalHash(pets[pet] as NewPet), n }) as LedgerEntry,
          ),
        );
        const planned = plan(
          rowsOf(file.map((pet) => pets[pet] as NewPet)),
          ledger.entries.values(),
          circumstances,
        );
        for (const pet of pets) {
          const hash = animalHash(pet);
          const equal = planned.rows.filter((row) => row.hash === hash);
          const fresh = equal.filter(({ status }) => status === 'new' || status === 'failed').length;
          const sent = [...ledger.entries.values()].filter(
            (entry) => entry.hash === hash && !['failed', 'notSent'].includes(entry.kind),
          );
          expect(fresh).toBe(Math.max(0, equal.length - sent.length));
          expect(new Set(equal.map(({ n }) => n)).size).toBe(equal.length);
          for (const row of equal) expect(row.n > 0 && (row.status === 'new' || row.entry)).toBeTruthy();
        }
        const matched = planned.rows.filter(({ entry }) => entry).length;
        expect(planned.gone.length + matched).toBe(ledger.entries.size);
        expect(countToSend(planned)).toBeLessThanOrEqual(file.length);
      }),
      { numRuns: cases(5_000) },
    );
  });
});

describe('an idempotency key', () => {
  const header = { nonce: '0'.repeat(32), epoch: 0 };
  const row = rexRow(1);

  it('is a UUID, and differs for each ledger, epoch, animal, number and rejection', () => {
    const key = idempotencyKeyOf(header, row);
    expect(key).toMatch(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    const keys = [
      key,
      idempotencyKeyOf({ ...header, nonce: '1'.repeat(32) }, row),
      idempotencyKeyOf({ ...header, epoch: 1 }, row),
      idempotencyKeyOf(header, { ...row, hash: animalHash(bella) }),
      idempotencyKeyOf(header, rexRow(2)),
      idempotencyKeyOf(header, row, failed(row, 1)),
      idempotencyKeyOf(header, row, failed(row, 2)),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('stays the same until the row is rejected', () => {
    const key = idempotencyKeyOf(header, row);
    for (const entry of [intent(row), notSent(row), unknown(row)])
      expect(idempotencyKeyOf(header, row, entry)).toBe(key);
    expect(idempotencyKeyOf(header, row, intent(row, { idempotencyKey: 'stored' }))).toBe('stored');
  });
});

describe('at the start of a run', () => {
  const DAY = 24 * HOUR;
  const after30Days = NOW + 30 * DAY + 1;
  const gone = (entry: LedgerEntry) => ({ ...entry, goneSince: '2026-11-20T13:00:00.000Z' });
  const entries = [
    added(rexRow(1)),
    failed(rexRow(2)),
    unknown(rexRow(3)),
    intent(rexRow(4)),
    gone(added(rexRow(5))),
  ];
  const numbersAfter = (ledger: Ledger, now: number) => {
    dropOldEntries(ledger, now);
    return [...ledger.entries.values()].map(({ n }) => n);
  };

  it('settled entries are dropped if the last run finished more than 30 days ago', () => {
    const ledger = ledgerOf(...entries);
    applyRecord(ledger, { kind: 'finished', at: '2026-11-20T13:00:00.000Z' });
    expect(numbersAfter(ledger, after30Days - 1)).toEqual([1, 2, 3, 4, 5]);
    expect(numbersAfter(ledger, after30Days)).toEqual([4]);
  });

  it('those that have had no row for 30 days are dropped in any case', () => {
    const ledger = ledgerOf(...entries);
    applyRecord(ledger, { kind: 'finished', at: '2026-12-20T00:00:00.000Z' });
    expect(numbersAfter(ledger, after30Days)).toEqual([1, 2, 3, 4]);
  });

  it('nothing is dropped that an unfinished run may need, however old it is', () => {
    expect(numbersAfter(ledgerOf(...entries), NOW + 1000 * DAY)).toEqual([1, 2, 3, 4, 5]);
  });
});
