import { expect, it } from 'vitest';
import {
  animalHash,
  applyEvent,
  forgetOldRows,
  type Ledger,
  type LedgerEvent,
  nextTime,
} from '../../src/cli/import/ledger.ts';
import { type Choice, ledgerRowAt, pendingOf, planImport } from '../../src/cli/import/plan.ts';
import { finishImport } from '../../src/cli/import/send.ts';
import type { PetRow } from '../../src/cli/rows/read-file.ts';
import type { NewPet } from '../../src/contract/schemas.ts';

const DAY = 86_400_000;

/** The rows of a text such as `AB`: an animal with the name A, and one with the name B. */
const rowsOf = (text: string): PetRow[] =>
  [...text].map((name, i) => ({ line: i + 2, pet: { name, categoryId: 1n } }));

/**
 * The event of a row by the sign after it: `~` and `?` are sent with and without a message, `=` compared, `!` answered, `_`
 * not added, and `-` rejected. A row without a sign is added.
 */
function eventOf(sign: string, row: { seq: number; import: number; hash: string }, now: number): LedgerEvent {
  const rest = { line: 1, name: 'x', idempotencyKey: '', apiKeyHash: '0'.repeat(64) };
  const sent = { kind: 'sent', ...row, ...rest, at: new Date(now).toISOString() } as const;
  if (sign === '') return { kind: 'added', ...row, line: 1, pet: { id: BigInt(row.seq), name: 'x' } };
  if (sign === '?') return sent;
  if (sign === '~') return { ...sent, message: 'lost' };
  if (sign === '=') return { ...sent, message: 'may be 7', isCompared: true };
  return sign === '!'
    ? { ...sent, message: 'no animal', isAnswered: true }
    : { kind: 'notAdded', seq: row.seq };
}

/**
 * Runs a step such as `v1 ABCD --skip-added → AB-…`: imports the file v1 with four rows and the option. After the arrow
 * are the rows that are sent, with the signs of their results, and `…` if the run is interrupted after them. Rows that may
 * have been added are settled first, in parentheses. `asks:` has the number of known rows and the new rows. `again:` has
 * the rows that are added again. Returns what really happens, in the same form.
 */
async function run(ledger: Ledger, step: string, now: number): Promise<string> {
  const [, name = '', text = '', option, outcome = ''] =
    /^(\S+) (\S+)(?: --(\S+))? → (.*?)(?:;.*)?$/.exec(step) ?? [];
  const signs = [...outcome.matchAll(/[A-Z]([-~?!=_]?)/g)].map(([, sign = '']) => sign);
  const rows = rowsOf(text);
  forgetOldRows(ledger, now);
  const file = name === '-' ? undefined : `/${name}`;
  const planned = planImport(rows, ledger, { choice: option as Choice, file, now });
  const namesOf = (positions: Iterable<number>) => [...positions].map((i) => text[i]).join('');
  const does = (what: string) => `${step.split(' → ')[0]} → ${what}`;
  const pending = pendingOf(planned);
  if (planned.mustAsk) {
    const fresh = pending.filter((i) => !planned.known.has(i));
    return does(`asks: ${planned.known.size} known, new: ${namesOf(fresh)}`);
  }
  const { current, known, repeated } = planned;
  const [isOver, isNothing] = [!outcome.includes('…'), pending.length === 0];
  if (!isNothing) applyEvent(ledger, { ...current, at: nextTime(ledger, now), finishedAt: null });
  let sent = '';
  const isOpen = (position: number) => known.get(position)?.kind === 'sent';
  for (const position of [...pending.filter(isOpen), ...pending]) {
    const row = ledgerRowAt(planned, position);
    const isSettled = isOpen(position) && row?.kind === 'sent';
    const sign = (isSettled || row === undefined) && signs.shift();
    if (typeof sign !== 'string') continue;
    const seq = row?.seq ?? ledger.seq + 1;
    planned.seqs[position] = seq;
    const hash = animalHash({ name: text[position] ?? '', categoryId: 1n });
    applyEvent(ledger, eventOf(sign, { seq, import: row?.import ?? current.seq, hash }, now));
    sent += isSettled ? `(${text[position]}${sign})` : `${text[position]}${sign}`;
  }
  const append = async (...events: LedgerEvent[]) => {
    for (const event of events) applyEvent(ledger, event);
  };
  if (isOver) await finishImport(planned, append, now);
  const again = repeated.size > 0 ? `; again: ${namesOf(repeated.keys())}` : '';
  return does(`${sent}${isOver ? '' : '…'}${again}`);
}

it.each<[string, ...(string | number)[]]>([
  ['an interrupted import continues', 'v1 ABCDE → AB…', 'v1 ABCDE → CDE', 'v1 ABCDE → '],
  ['the rest of it may be in another file', 'v1 ABCDE → AB…', 'v2 CDE → CDE', 'v1 ABCDE → '],
  ['with an open row in that rest', ...['v1 ABCDE → ABC?…', 'v1 CDX → (C)DX', 'v1 ABCDE → E', 'v1 ABCDE → ']],
  ['under another name, in another order, or from a pipe', 'v1 ABC → A…', 'v2 CBA → C…', '- BAC → B'],
  ['also with an option, which counts only for another import', 'v1 AB → A…', 'v1 AB --add-again → B'],
  [
    'then --add-again adds all of it again',
    ...['v1 AB → AB', 'v1 AB --add-again → A…; again: AB', 'v1 AB → B', 'v2 AB → '],
  ],
  ['a row is known for 30 days', 'v1 AB → AB', 29, 'v1 AB → ', 31, 'v1 AB → AB'],
  ['also if its import was interrupted', 'v1 AB → A…', 29, 'v1 AB → …', 29, 'v1 AB → B', 31, 'v1 AB → AB'],
  [
    'a file that is imported every night stays known',
    'v1 AB → AB',
    29,
    'v2 AB → ',
    29,
    'v1 A → ',
    29,
    'v1 AB → ',
  ],
  ['two equal rows are two animals', 'v1 AAB → AAB', 'v2 AAAB --skip-added → A', 'v1 AAB → ', 'v3 AAA → '],
  ['a rejected row is sent again', 'v1 ABC → AB-C', 'v1 ABC → B-', 'v1 ABC --skip-added → B'],
  ['the request of a row that had no effect is like none', 'v1 ABC → AB_…', 'v1 ABC → BC'],
  ['the same path asks', 'v1 ABCDEFGH → ABCDEFGH', 'v1 AVWXYZ → asks: 1 known, new: VWXYZ'],
  ['half of the rows ask', 'v1 ABCDEF → ABCDEF', 'v2 ABXY → asks: 2 known, new: XY'],
  ['all rows of an earlier import ask', 'v1 AB → AB', 'v2 ABUVWXYZ → asks: 2 known, new: UVWXYZ'],
  ['all rows that were sent ask', 'v1 ABCDEF → AB…', 'v2 ABUVWXYZ → asks: 2 known, new: UVWXYZ'],
  [
    'rows of an import that did not finish ask, and are never added again, until a version of the file is finished',
    ...['v1 ABCDEF → AB…', 'v2 AUVWXYZ → asks: 1 known, new: UVWXYZ', 'v2 AUVWXYZ --add-again → UV…'],
    ...[
      'v2 AUVWXYZ --add-again → WXYZ',
      'v1 ABCDEF --add-again → CDEF',
      'v1 ABCDEF --add-again → ABCDEF; again: ABCDEF',
    ],
  ],
  [
    'a corrected file replaces the interrupted one, so that --add-again can add all of it',
    ...['v1 ABC → AB…', 'v1 AXC → asks: 1 known, new: XC', 'v1 AXC --skip-added → XC'],
    'v1 AXC --add-again → AXC; again: AXC',
  ],
  [
    'a part of an interrupted file does not finish it',
    ...['v1 ABCD → AB…', 'v2 A → ', 'v1 ABCD --add-again → CD'],
  ],
  ['fewer rows are named and sent', 'v1 ABCDEF → ABCDEF', 'v2 AVWXYZ → AVWXYZ; again: A', 'v1 ABCDEF → '],
  [
    'an interrupted delivery continues without adding its rows twice',
    ...['v1 ABCDEF → ABCDEF', 'v2 AVWXYZ → AV…; again: A', 'v2 AVWXYZ → WXYZ', 'v2 AVWXYZ → '],
  ],
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
  ['an open row never expires', 'v1 ABC → AB?C~', 31, 'v2 B → (B~)', 900, 'v3 CX → (C)X'],
  [
    'nor is it added again',
    'v1 ABC → AB~C',
    'v2 ABCD --add-again → (B)…; again: AC',
    'v2 ABCD --add-again → ACD',
  ],
  ['with --add-again, its import continues', 'v1 AB → AB~', 'v1 AB --add-again → (B)', 'v1 AB → '],
  ['but a compared row is', 'v1 AB → AB=', 'v1 AB --add-again → AB; again: AB'],
  ['an answered row is never sent again', 'v1 AB → A!B', 'v1 AB → ', 31, 'v2 A → ', 'v3 AX --skip-added → X'],
])('%s', async (_, ...steps) => {
  const at = '2026-11-20T12:00:00.000Z';
  const maps = { imports: new Map(), rows: new Map() };
  const ledger: Ledger = { kind: 'ledger', version: 2, service: 'x', seq: 0, at, ...maps };
  let now = Date.parse(at);
  for (const step of steps) {
    if (typeof step === 'number') now += step * DAY;
    else expect(await run(ledger, step, now)).toBe(step);
  }
});

it('the hash depends on name, category and status, and a missing status is available', () => {
  const rex = { name: 'Rex', categoryId: 1n };
  // One animal for each field, so that no field is forgotten in the hash.
  const others: Record<keyof NewPet, NewPet> = {
    status: { ...rex, status: 'sold' },
    categoryId: { ...rex, categoryId: 2n },
    name: { ...rex, name: 'rex' },
  };
  const all = [rex, ...Object.values(others)];
  expect(new Set(all.map(animalHash)).size).toBe(all.length);
  expect(animalHash({ ...rex, status: 'available' })).toBe(animalHash(rex));
  expect(animalHash({ ...rex, name: 'Zoe\u0308' })).toBe(animalHash({ ...rex, name: 'Zo\u00eb' }));
});
