import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { animalHash, type LedgerEntry, LedgerRecord } from '../../src/cli/bulk/ledger.ts';
import type { PlannedRow } from '../../src/cli/bulk/plan.ts';
import { idsAscend, settle } from '../../src/cli/bulk/settle.ts';
import { waitBeforeListing } from '../../src/cli/bulk/settle-rows.ts';
import type { NewPet, ReceivedPet } from '../../src/contract/schemas.ts';
import { readStored } from '../../src/store/stored-json.ts';
import { added, intent, unknown } from '../helpers/bulk.ts';
import { cases } from '../helpers/cases.ts';

const rex: NewPet = { name: 'Rex', categoryId: 3n };

/** Equal rows with an unknown outcome. Each has the highest id that its run knew when it sent the row. */
const rowsOf = (highestIds: (number | undefined)[], pet = rex): PlannedRow[] =>
  highestIds.map((highestId, i) => {
    const id = { hash: animalHash(pet), n: i + 1 };
    const entry = { ...unknown(id), ...(highestId !== undefined && { highestId: BigInt(highestId) }) };
    return { ...id, line: i + 1, pet, status: 'unknown', entry };
  });

type Id = number | string;
const idOf = (id: Id) => (typeof id === 'number' ? BigInt(id) : id);
const animal = (id: Id, more: Partial<ReceivedPet> = {}): ReceivedPet => ({
  ...rex,
  status: 'available',
  ...more,
  id: idOf(id),
});

const verdictsOf = (
  rows: PlannedRow[],
  listing: ReceivedPet[],
  { known = [], ascending = true }: { known?: Id[]; ascending?: boolean } = {},
) => {
  const verdicts = settle(rows, listing, { knownIds: new Set(known.map(String)), ascending });
  return rows.map((row) => {
    const verdict = verdicts.get(row);
    if (verdict?.result === 'added') return `added ${verdict.pet.id}`;
    return verdict?.result === 'unknown'
      ? `unknown ${verdict.candidates.map(({ id }) => id).join(' ')}`
      : verdict?.result;
  });
};

describe('an unknown row', () => {
  it.each<[string, ReceivedPet[], object, string]>([
    ['is not added if there is no equal animal', [], {}, 'notAdded'],
    ['is added if there is one new equal animal', [animal(11)], {}, 'added 11'],
    ['is not added if the only equal animal existed before', [animal(10)], {}, 'notAdded'],
    ['is added if an equal animal existed before, too', [animal(5), animal(11)], {}, 'added 11'],
    ['stays unknown if another client added an equal animal', [animal(11), animal(14)], {}, 'unknown 14 11'],
    ['is added if an animal is listed twice', [animal(11), animal(11)], {}, 'added 11'],
    ['is not added if the animal belongs to another row', [animal(11)], { known: [11] }, 'notAdded'],
    ['is not added if the known id is text', [animal(11)], { known: ['11'] }, 'notAdded'],
    ['stays unknown if ids do not ascend', [animal(5)], { ascending: false }, 'unknown 5'],
    ['is not added without an equal animal, even if ids do not ascend', [], { ascending: false }, 'notAdded'],
    ['stays unknown if the id is text', [animal('x')], {}, 'unknown x'],
    ['stays unknown if the id of an equal animal is text', [animal('x'), animal(11)], {}, 'unknown x 11'],
    ['is not added if a text id is known', [animal('x')], { known: ['x'] }, 'notAdded'],
    ['is added without a status', [animal(11, { status: null })], {}, 'added 11'],
    ['stays unknown if the status differs', [animal(11, { status: 'sold' })], {}, 'unknown 11'],
    ['stays unknown if the category is missing', [animal(11, { categoryId: null })], {}, 'unknown 11'],
    ['is not added if the category differs', [animal(11, { categoryId: 4n })], {}, 'notAdded'],
    ['stays unknown if the name is written differently', [animal(11, { name: ' REX' })], {}, 'unknown 11'],
    ['is not added if the name differs', [animal(11, { name: 'Rexy' })], {}, 'notAdded'],
    ['is added if a similar animal is new, too', [animal(11), animal(12, { name: 'rex' })], {}, 'added 11'],
  ])('%s', (_, listing, options, verdict) => {
    expect(verdictsOf(rowsOf([10]), listing, options)).toEqual([verdict]);
  });

  it('stays unknown if no id was known before it was sent', () => {
    expect(verdictsOf(rowsOf([undefined]), [animal(11)])).toEqual(['unknown 11']);
    expect(verdictsOf(rowsOf([undefined]), [])).toEqual(['notAdded']);
  });

  it('has at most 20 candidates, those with the highest ids', () => {
    const listing = Array.from({ length: 30 }, (_, i) => animal(i + 1));
    const [row] = rowsOf([0]);
    const verdict = settle([row as PlannedRow], listing, { knownIds: new Set(), ascending: true }).get(
      row as PlannedRow,
    );
    expect(verdict).toEqual({ result: 'unknown', candidates: listing.slice(10).reverse() });
  });
});

describe('of equal unknown rows', () => {
  it.each<[string, (number | undefined)[], ReceivedPet[], object, string[]]>([
    [
      'all are added, if there is one animal for each',
      [10, 10],
      [animal(11), animal(12)],
      {},
      ['added 12', 'added 11'],
    ],
    ['one is not added, if there is only one animal', [10, 10], [animal(11)], {}, ['added 11', 'notAdded']],
    ['none is added without animals', [10, 10], [], {}, ['notAdded', 'notAdded']],
    [
      'all stay unknown, if there are more animals than rows',
      [10, 10],
      [animal(11), animal(12), animal(13)],
      {},
      ['unknown 13 12 11', 'unknown 13 12 11'],
    ],
    [
      'one is certainly not added, if there is one animal that may have existed before',
      [10, 10],
      [animal('x')],
      {},
      ['unknown x', 'notAdded'],
    ],
    [
      'one is certainly not added, even if ids do not ascend',
      [10, 20],
      [animal(11)],
      { ascending: false },
      ['unknown 11', 'notAdded'],
    ],
    ['each has its own animal', [10, 20], [animal(11), animal(21)], {}, ['added 11', 'added 21']],
    ['the one that was sent earlier is added', [10, 20], [animal(11)], {}, ['added 11', 'notAdded']],
    [
      'both are added, if the earlier one arrived later',
      [10, 20],
      [animal(21), animal(22)],
      {},
      ['added 21', 'added 22'],
    ],
    [
      'the later one is not added, if both animals existed before it was sent',
      [10, 20],
      [animal(11), animal(12)],
      {},
      ['unknown 12 11', 'notAdded'],
    ],
    [
      'one stays unknown, if no id was known before it was sent',
      [undefined, 10],
      [animal(5), animal(11)],
      {},
      ['unknown 5', 'added 11'],
    ],
  ])('%s', (_, highestIds, listing, options, verdicts) => {
    expect(verdictsOf(rowsOf(highestIds), listing, options)).toEqual(verdicts);
  });
});

test('an animal that was added for one row is no candidate for a similar row', () => {
  const [available, sold] = [rowsOf([10]), rowsOf([10], { ...rex, status: 'sold' })];
  const listing = [animal(11, { status: 'sold' })];
  expect(verdictsOf([...available, ...sold], listing)).toEqual(['notAdded', 'added 11']);
});

describe('ids ascend', () => {
  const entry = (id: Id, highestId?: number, kind: 'added' | 'unknown' = 'added'): LedgerEntry => {
    const row = { hash: animalHash(rex), n: 1 };
    const base = kind === 'added' ? { ...added(row), pet: animal(id) } : unknown(row);
    return { ...base, ...(highestId !== undefined && { highestId: BigInt(highestId) }) } as LedgerEntry;
  };
  it.each<[string, LedgerEntry[], boolean]>([
    ['if a row got the next id', [entry(11, 10)], true],
    ['if most rows got much higher ids', [entry(50_000, 10), entry(50_001, 50_000)], true],
    ['not without rows', [], false],
    ['not without a highest id', [entry(11)], false],
    ['not if a row got a lower id', [entry(11, 10), entry(9, 11)], false],
    ['not if a row got the same id', [entry(11, 10), entry(11, 11)], false],
    ['not if an id is text', [entry(11, 10), entry('12', 11)], false],
    ['not if ids look random', [entry(5_000, 10), entry(90_000, 5_000)], false],
    ['not if the only row is unknown', [entry(11, 10, 'unknown')], false],
  ])('%s', (_, entries, expected) => {
    expect(idsAscend(entries)).toBe(expected);
  });
});

describe('the wait before the list', () => {
  const SENT = Date.parse('2026-11-20T12:00:00Z');
  const [row] = rowsOf([10]) as [PlannedRow];
  const interrupted: PlannedRow = { ...row, entry: intent(row) };
  it.each<[string, PlannedRow[], number, number]>([
    ['is the rest of the timeout', [row], SENT + 10_000, 20_000],
    ['is over after the timeout', [row], SENT + 30_000, 0],
    ['is the whole timeout if the clock was set back', [row], SENT - 3_600_000, 30_000],
    ['is the whole timeout if a row has no recorded outcome', [row, interrupted], SENT + 60_000, 30_000],
  ])('%s', (_, rows, now, expected) => {
    expect(waitBeforeListing(rows, { now, timeout: 30_000 })).toBe(expected);
  });
});

/** A step in the history of a service with ascending ids. `other` is a creation by another client. */
const Step = fc.constantFrom('other', 'confirmed', 'lost after adding', 'lost before adding');

test('no row is sent again if its animal was added, and without other clients no row is lost', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(Step, fc.boolean()), { maxLength: 12 }),
      fc.boolean(),
      fc.boolean(),
      (steps, ascending, startsKnown) => {
        const listing: ReceivedPet[] = [animal(1)];
        const rows: PlannedRow[] = [];
        const known: Id[] = [];
        let highestId: number | undefined = startsKnown ? 1 : undefined;
        let [addedCount, hasOthers] = [0, false];
        for (const [step, isSold] of steps) {
          const id = listing.length + 1;
          const sent = rowsOf([highestId]);
          if (step.startsWith('lost')) rows.push(...sent);
          if (step === 'lost before adding') continue;
          // The status of an animal may change after it was added.
          listing.push(animal(id, step === 'lost after adding' && isSold ? { status: 'sold' } : {}));
          if (step === 'other') hasOthers = true;
          else if (step === 'lost after adding') addedCount++;
          else {
            known.push(id);
            highestId = id;
          }
        }
        const verdicts = verdictsOf(rows, listing, { known, ascending });
        const notAdded = verdicts.filter((verdict) => verdict === 'notAdded').length;
        const settled = verdicts.filter((verdict) => verdict?.startsWith('added')).length;
        expect(notAdded).toBeLessThanOrEqual(rows.length - addedCount);
        if (!hasOthers) expect(settled).toBeLessThanOrEqual(addedCount);
        expect(new Set(verdicts.filter((verdict) => verdict?.startsWith('added'))).size).toBe(settled);
      },
    ),
    { numRuns: cases(20_000) },
  );
});

test('a ledger keeps the highest id and the candidates, and can be read without them', () => {
  const row = { hash: animalHash(rex), n: 1 };
  const read = (record: object) => readStored(LedgerRecord, JSON.stringify(record));
  const entry = unknown(row);
  expect(read(entry)).toEqual({ data: entry });
  expect(read({ ...entry, highestId: 7, candidates: [8, 'x'] })).toEqual({
    data: { ...entry, highestId: 7n, candidates: [8n, 'x'] },
  });
});
