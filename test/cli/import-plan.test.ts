import { expect, it } from 'vitest';
import {
  animalHash,
  applyRecord,
  forgetOldRows,
  type Import,
  type Ledger,
  type LedgerRecord,
} from '../../src/cli/import/ledger.ts';
import { type Choice, groupRows, hasHalf, locateRow, plan } from '../../src/cli/import/plan.ts';
import { finish } from '../../src/cli/import/send.ts';
import type { PetRow } from '../../src/cli/rows/read-file.ts';

const DAY = 86_400_000;
const HASH = '0'.repeat(64);

/** The rows of a text such as `AB7`: an animal with the name A, and one with the name B and the id 7. */
const rowsOf = (text: string): PetRow[] =>
  [...text.matchAll(/([A-Z])(\d*)/g)].map(([, name = '', id], i) => ({
    line: i + 2,
    pet: { name, categoryId: 1n },
    ...(id && { id: BigInt(id) }),
  }));

/**
 * The record of a row by the sign after it: `-` failed, `~` and `?` are open with and without a message, `!` answered,
 * and `_` not sent. A row without a sign is added.
 */
function resultOf(
  ledger: Ledger,
  place: { import: number; row: number },
  sign: string,
  now: number,
): LedgerRecord {
  const base = { ...place, seq: ledger.seq + 1 };
  const open = {
    kind: 'open',
    ...base,
    name: 'x',
    at: new Date(now).toISOString(),
    apiKeyHash: HASH,
  } as const;
  const records: Record<string, LedgerRecord> = {
    '': { kind: 'added', ...base, pet: { id: BigInt(base.seq), name: 'x' } },
    '-': { kind: 'failed', ...base, error: { code: 'no', message: 'no' } },
    '~': { ...open, endedAt: open.at, message: 'lost' },
    '?': open,
    '!': { kind: 'answered', ...base, name: 'x', message: 'no animal' },
  };
  return records[sign] ?? { kind: 'notSent', ...base };
}

/**
 * Runs a step such as `v1 ABCD --skip-added → AB-…`: imports the file v1 with four rows and the option. After the arrow
 * are the rows that are sent, with the signs of their results, and `…` if the run is interrupted after them. Open rows
 * that are settled come first, in parentheses. `stops:` has the number of known rows, and for each earlier import how many
 * of them it has and how many of its rows are in the file (`few` if less than half). `again:` has the rows that are added
 * again. Returns what really happens, in the same form.
 */
async function run(ledger: Ledger, step: string, now: number): Promise<string> {
  const [, file = '', text = '', option, outcome = ''] =
    /^(\S+) (\S+)(?: --(\S+))? → (.*?)(?:;.*)?$/.exec(step) ?? [];
  const signs = [...outcome.matchAll(/[A-Z]([-~?!_]?)/g)].map(([, sign = '']) => sign);
  const rows = rowsOf(text);
  forgetOldRows(ledger, now);
  const source = file === '-' ? undefined : `/${file}`;
  const planned = plan(rows, ledger, { choice: option as Choice, source, now });
  const does = (what: string) => `${step.split(' → ')[0]} → ${what}`;
  if (planned.mode === 'ask') {
    const known = new Map<Import, number>();
    for (const { its } of planned.known.values()) known.set(its, (known.get(its) ?? 0) + 1);
    const versions = new Map(planned.changes.filter(hasHalf).map(({ its, common }) => [its, common]));
    const earlier = [...ledger.imports.values()].filter((its) => known.has(its) || versions.has(its));
    const counts = earlier.map(
      (its) => `${its.source?.slice(1)} ${known.get(its) ?? 0} ${versions.get(its) ?? 'few'}`,
    );
    const ids = rows.some(({ id }) => id !== undefined) ? '; ids' : '';
    return does(`stops: ${planned.known.size} known; ${counts.join(', ')}${ids}`);
  }
  const { its } = planned;
  const [isOver, isNothing] = [!outcome.includes('…'), planned.groups.pending.length === 0];
  if (!isNothing) ledger.imports.set(its.seq, its);
  ledger.seq = Math.max(ledger.seq, its.seq);
  let sent = '';
  for (const kind of ['open', 'new', 'failed'] as const) {
    for (const position of groupRows(planned)[kind]) {
      const sign = signs.shift();
      if (sign === undefined) continue;
      const place = locateRow(planned, position);
      applyRecord(ledger, resultOf(ledger, { import: place.its.seq, row: place.index }, sign, now));
      const { name = '' } = rows[position]?.pet ?? {};
      sent += kind === 'open' ? `(${name}${sign})` : `${name}${sign}`;
    }
  }
  if (isOver && !isNothing) {
    expect(groupRows(planned).new, `${step}: ${sent}`).toEqual([]);
  }
  if (isOver) await finish(planned, { ledger, append: async (record) => applyRecord(ledger, record) }, now);
  const sentAgain = planned.mode === 'again' ? [...planned.known.keys()] : [];
  const again = sentAgain.map((position) => rows[position]?.pet.name).join('');
  return does(`${sent}${isOver ? '' : '…'}${again && `; again: ${again}`}`);
}

it.each<[string, ...(string | number)[]]>([
  ['an interrupted import continues', 'v1 ABCDE → AB…', 'v1 ABCDE → CDE', 'v1 ABCDE → '],
  ['under another name, in another order, or from a pipe', 'v1 ABC → A…', 'v2 CBA → C…', '- BAC → B'],
  ['also with an option, which counts only for another import', 'v1 AB → A…', 'v1 AB --add-again → B'],
  [
    'then --add-again adds all of it again',
    'v1 AB → AB',
    'v1 AB --add-again → A…; again: AB',
    'v1 AB → B',
    'v2 AB → ',
  ],
  ['an import never expires while it is interrupted', 'v1 AB → A…', 900, 'v1 AB → B'],
  ['a complete import is known for 30 days', 'v1 AB → AB', 31, 'v1 AB → AB'],
  ['a file that is imported every night stays known', 'v1 AB → AB', 29, 'v1 AB → ', 29, 'v1 AB → '],
  ['two equal rows are two animals', 'v1 AAB → AAB', 'v2 AAAB --skip-added → A', 'v1 AAB → ', 'v3 AAA → '],
  ['a rejected row is tried again', 'v1 ABC → AB-C', 'v1 ABC → B-', 'v1 ABC --skip-added → B'],
  ['rows that were never sent come before those that failed', 'v1 ABCD → A-B-…', 'v1 ABCD → CDAB'],
  ['the request of a row that had no effect is like none', 'v1 ABC → AB_…', 'v1 ABC → BC'],
  ['the same path stops', 'v1 ABCDEFGH → ABCDEFGH', 'v1 AVWXYZ → stops: 1 known; v1 1 few'],
  ['half of the rows stop', 'v1 ABCDEF → ABCDEF', 'v2 ABXY → stops: 2 known; v1 2 few'],
  ['half of the rows of an earlier import stop', 'v1 AB → AB', 'v2 AVWXYZ → stops: 1 known; v1 1 1'],
  [
    'also those that were not sent, unless nothing was',
    ...['v1 ABCD → A…', 'v2 BCDX → stops: 0 known; v1 0 3', 'v2 BCDX --skip-added → BCDX', 'v1 ABCD → '],
    ...['w1 EFGH → E-F-G-H-', 'w2 FGHY → FGHY'],
  ],
  [
    'rows of an interrupted import stop',
    ...['v1 ABCDEF → A…', 'v2 AUVWXYZ → stops: 1 known; v1 1 few', 'v2 AUVWXYZ --skip-added → UVWXYZ'],
  ],
  ['fewer rows are named and sent', 'v1 ABCDEF → ABCDEF', 'v2 AVWXYZ → AVWXYZ; again: A', 'v1 ABCDEF → '],
  [
    'what a corrected file has sent is not sent by the interrupted one',
    ...['v1 ABCD → A…', 'v2 ABXD --skip-added → BXD', 'v1 ABCD → C', 'v1 ABCD → ', 'v2 ABXD → '],
  ],
  [
    'one row that was sent since then stands for one row',
    ...['v1 AAAB → A…', 'v2 AA --skip-added → A', 'v1 AAAB → A…', 'v1 AAAB → B', 'v1 AAAB → '],
  ],
  ['skipped rows do not count twice', 'v1 AB → AB', 'v2 ABC --skip-added → C', 'v3 AABBC --skip-added → AB'],
  [
    'open rows are settled first, wherever they are recorded',
    ...['v1 ABC → A~B?…', 'v2 AX --skip-added → (A)X', 'v1 ABC → (B)C', 'v1 ABC → '],
  ],
  ['an open row that was not added is sent', 'v1 AB → A~B', 'v2 A → (A_)A', 'v1 AB → ', 'v2 A → '],
  ['an open row never expires', 'v1 ABC → AB?C~', 31, 'v2 B → (B~)', 900, 'v3 CX → stops: 1 known; v1 1 1'],
  ['an answered row is never sent again', 'v1 AB → A!B', 'v1 AB → ', 31, 'v2 A → ', 'v3 AX --skip-added → X'],
  [
    'rows with ids stop, and --skip-added sends only the others',
    ...['v1 AB → AB', 'v2 A2X3 → stops: 1 known; v1 1 1; ids', 'v2 A2X3Y --skip-added → Y', 'v2 A2X3Y → '],
  ],
  [
    'without their ids, they are rows of another file',
    ...['v1 A9B --skip-added → B', 'v1 A9B → ', 'v2 AB → stops: 1 known; v1 1 1', 'v2 AB --skip-added → A'],
  ],
  ['--add-again sends rows with ids, too', 'v2 A2B3 → stops: 0 known; ; ids', 'v2 A2B3 --add-again → AB'],
  ['a row without an id is another animal than the one with its id', 'v1 A → A', 'v2 A2A --skip-added → A'],
  ['but may be the known one if the id is another', 'v1 A → A', 'v2 A9A --skip-added → '],
  ['a row with another id is not the known one', 'v1 AB → AB', 'v2 A9 → stops: 0 known; v1 0 1; ids'],
  [
    'rows of complete imports are known as long as an interrupted import has the same rows',
    ...['v1 ABCD → A…', 'v2 ABXD --skip-added → BXD', 40, 'v1 ABCD → C', 40, 'v1 ABCD → ABCD'],
  ],
])('%s', async (_, ...steps) => {
  const at = '2026-11-20T12:00:00.000Z';
  const ledger: Ledger = {
    kind: 'ledger',
    version: 1,
    service: 'x',
    nonce: '',
    seq: 0,
    at,
    imports: new Map(),
  };
  let now = Date.parse(at);
  for (const step of steps) {
    if (typeof step === 'number') now += step * DAY;
    else expect(await run(ledger, step, now)).toBe(step);
  }
});

it('the hash depends on name, category and status, and a missing status is available', () => {
  const rex = { name: 'Rex', categoryId: 1n };
  const hashes = [
    rex,
    { ...rex, status: 'sold' as const },
    { ...rex, categoryId: 2n },
    { ...rex, name: 'rex' },
  ];
  expect(new Set(hashes.map(animalHash)).size).toBe(4);
  expect(animalHash({ ...rex, status: 'available' })).toBe(animalHash(rex));
});
