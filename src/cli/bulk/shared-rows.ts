import type { Files } from '../../store/files.ts';
import type { InputRow } from './job-types.ts';
import type { Known } from './progress-replay.ts';
import { type RowState, rowStates } from './row-states.ts';
import { animalHash, readRows } from './spool.ts';

/** Another job of the same file; `rows` is the path of its rows. */
export type KnownJob = { rows: string; progress: Known };

/** A row of the input that another job has sent, or may have: there it is `otherRow`. */
export type SharedRow<Other> = { row: number; other: Other; otherRow: number; origin: string };

/** What is known of a send: the surest first. */
const SURENESS: readonly RowState[] = [rowStates.added, rowStates.unknown, rowStates.doubt];

/** What `sharedRows` compares; the n-th is of row n. */
export async function animalHashes(rows: AsyncIterable<Pick<InputRow, 'pet'>>): Promise<string[]> {
  const hashes: string[] = [];
  for await (const { pet } of rows) hashes.push(animalHash(pet));
  return hashes;
}

/**
 * Which rows of an input others have sent already. Each send stands for one row: of two equal rows in the input, one is
 * shared where one was sent. `mine` is what the input's own job knows: rows that it has sent, or has taken over, are not
 * told, and sends that it has taken over do not count again.
 */
export async function sharedRows<Other extends KnownJob>(
  files: Files,
  hashes: readonly string[],
  mine: Known | undefined,
  others: readonly Other[],
): Promise<SharedRow<Other>[]> {
  const free = await sendsByAnimal(files, sendsOf(mine, others));
  const shared: SharedRow<Other>[] = [];
  for (const [index, hash] of hashes.entries()) {
    const row = index + 1;
    if (mine?.states.isTouched(row)) continue;
    const send = free.get(hash)?.pop();
    if (send) shared.push({ row, other: send.other, otherRow: send.row, origin: send.origin });
  }
  return shared;
}

type Send<Other> = { other: Other; row: number; origin: string; sureness: number };

/** Every send of others that `mine` does not know, once, by whoever knows most of it. */
function sendsOf<Other extends KnownJob>(mine: Known | undefined, others: readonly Other[]): Send<Other>[] {
  const own = new Set(mine ? touchedRows(mine).map((row) => originOf(mine, row)) : []);
  const sends = new Map<string, Send<Other>>();
  for (const other of others) {
    for (const row of touchedRows(other.progress)) {
      const origin = originOf(other.progress, row);
      if (own.has(origin)) continue;
      const sureness = SURENESS.indexOf(other.progress.states.state(row));
      const known = sends.get(origin);
      if (!known || sureness < known.sureness) sends.set(origin, { other, row, origin, sureness });
    }
  }
  return [...sends.values()];
}

/** The surest at the end. */
async function sendsByAnimal<Other extends KnownJob>(
  files: Files,
  sends: readonly Send<Other>[],
): Promise<Map<string, Send<Other>[]>> {
  const byOther = new Map<Other, Map<number, Send<Other>>>();
  for (const send of sends) {
    const rows = byOther.get(send.other) ?? new Map<number, Send<Other>>();
    byOther.set(send.other, rows.set(send.row, send));
  }
  const byAnimal = new Map<string, Send<Other>[]>();
  for (const [{ rows, progress }, wanted] of byOther) {
    for await (const { row, pet } of readRows(files, rows, progress.header.rows, (each) =>
      wanted.has(each),
    )) {
      const hash = animalHash(pet);
      const equal = byAnimal.get(hash) ?? [];
      equal.push(wanted.get(row) as Send<Other>);
      byAnimal.set(hash, equal);
    }
  }
  for (const equal of byAnimal.values()) equal.reverse().sort((a, b) => b.sureness - a.sureness);
  return byAnimal;
}

function touchedRows({ header, states }: Known): number[] {
  const rows: number[] = [];
  for (let row = 1; row <= header.rows; row++) if (states.isTouched(row)) rows.push(row);
  return rows;
}

/** Names the send of a row, in whichever job it is told. */
const originOf = ({ header, origins }: Known, row: number): string =>
  origins.get(row) ?? `${header.nonce}:${row}`;
