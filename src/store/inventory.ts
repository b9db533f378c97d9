import type { PetStatus } from '../contract/schemas.ts';
import { highWord, idOf, lowWord } from './id-words.ts';
import { Rows } from './rows.ts';
import { firstIndex } from './search.ts';
import type { Page, PageQuery, PetJson } from './store.ts';

const CHUNK_BYTES = 2 ** 23;
/** A page ends behind this much: as many as like may ask for pages at once, and be slow to take them. */
const PAGE_BYTES = 2 ** 20;
/** Bytes are kept as they are where at least this much of them is text. */
const MOSTLY = 0.8;
// The words of an animal: its id in two halves, its chunk, where it begins in there, and its length in bytes.
const [ID_HIGH, ID_LOW, CHUNK, START, LENGTH, WORDS] = [0, 1, 2, 3, 4, 5];
const EMPTY = Buffer.alloc(0);
const [OPEN, COMMA, CLOSE] = [0x5b, 0x2c, 0x5d];

/**
 * Animals by ascending id whose texts stand in a row, one byte between two: the first begins at the byte `start`, and each
 * ends before its `ends`.
 */
export type Row = {
  bytes: Buffer;
  start: number;
  count: number;
  ids: (number | bigint)[];
  statuses: PetStatus[];
  ends: number[];
};

/** Bytes of a chunk, from `start` to `end`: texts, and the comma behind each. */
type Run = { chunk: number; start: number; end: number };

/**
 * The animals in memory, by ascending id. Their text is kept as bytes in large chunks: a million strings would
 * cost twice the memory, and the garbage collector a look at each of them again and again.
 */
export class Inventory {
  #animals = new Rows(WORDS);
  #chunks: Buffer[] = [];
  /** The first byte of the last chunk that is free. */
  #free = 0;
  /** For each status, the positions of its animals, ascending. */
  #index: Record<PetStatus, Rows> = { available: new Rows(1), pending: new Rows(1), sold: new Rows(1) };

  get size(): number {
    return this.#animals.size;
  }

  get lastId(): bigint | undefined {
    return this.size === 0 ? undefined : this.#idAt(this.size - 1);
  }

  /** Adds animals whose ids are above all others. Says the position of the first. */
  append(row: Row): number {
    const moved = this.#keep(row.bytes, row.start, endOfRow(row)) - row.start;
    return this.#add(row, moved);
  }

  /**
   * As append(), without a copy where the bytes are little more than the texts: then they belong to the inventory, and
   * this says true.
   */
  adopt(row: Row): boolean {
    const { bytes, start } = row;
    if (endOfRow(row) - start < MOSTLY * bytes.length) {
      this.append(row);
      return false;
    }
    this.#chunks.push(bytes);
    this.#free = bytes.length;
    this.#add(row, 0);
    return true;
  }

  textAt(position: number): PetJson {
    return this.#chunkOf(position).toString(
      'utf8',
      this.#animals.get(position, START),
      this.#endOf(position),
    );
  }

  get(id: bigint): PetJson | undefined {
    const position = this.#firstFrom(id);
    return position < this.size && this.#idAt(position) === id ? this.textAt(position) : undefined;
  }

  /** A page costs the same wherever it is: one search, then as many animals as it has. */
  page({ limit, status, after }: PageQuery): Page {
    const animals = this.#animals;
    const from = after === undefined ? 0 : this.#firstFrom(after + 1n);
    const index = status && this.#index[status];
    const total = index ? index.size : this.size;
    const first = index ? firstIndex(total, (i) => index.get(i, 0) >= from) : from;
    const stop = Math.min(first + limit, total);
    const runs: Run[] = [];
    let run: Run | undefined;
    let last = 0;
    let bytes = 0;
    let i = first;
    for (; i < stop && bytes < PAGE_BYTES; i++) {
      last = index ? index.get(i, 0) : i;
      const chunk = animals.get(last, CHUNK);
      const start = animals.get(last, START);
      const end = start + animals.get(last, LENGTH) + 1;
      // Neighbours are copied at once.
      if (run?.chunk === chunk && run.end === start) run.end = end;
      else {
        run = { chunk, start, end };
        runs.push(run);
      }
      bytes += end - start;
    }
    const pets = this.#join(runs, bytes);
    return i === first || i === total ? { pets } : { pets, next: this.#idAt(last) };
  }

  /** Texts with a comma behind each, `bytes` in all, as a JSON array. */
  #join(runs: readonly Run[], bytes: number): Buffer {
    const json = Buffer.allocUnsafe(1 + Math.max(1, bytes));
    json[0] = OPEN;
    let free = 1;
    for (const { chunk, start, end } of runs) {
      free = copy(this.#chunks[chunk] ?? EMPTY, start, end, json, free);
    }
    // In place of the last comma.
    json[json.length - 1] = CLOSE;
    return json;
  }

  #endOf(position: number): number {
    return this.#animals.get(position, START) + this.#animals.get(position, LENGTH);
  }

  #chunkOf(position: number): Buffer {
    return this.#chunks[this.#animals.get(position, CHUNK)] ?? EMPTY;
  }

  #idAt(position: number): bigint {
    return idOf(this.#animals.get(position, ID_HIGH), this.#animals.get(position, ID_LOW));
  }

  /** The first position whose id is `id` or above. */
  #firstFrom(id: bigint): number {
    // Where no id is missing the first look finds it.
    const guess = this.size === 0 ? 0 : Number(id - this.#idAt(0));
    if (guess >= 0 && guess < this.size && this.#idAt(guess) === id) return guess;
    return firstIndex(this.size, (i) => this.#idAt(i) >= id);
  }

  /** Adds animals whose texts are in the last chunk, `moved` bytes behind where the row has them. */
  #add(row: Row, moved: number): number {
    const first = this.size;
    const chunk = this.#chunks.length - 1;
    const texts = this.#chunks[chunk] ?? EMPTY;
    for (let i = 0, start = row.start; i < row.count; i++) {
      const position = this.#animals.add();
      const block = this.#animals.block(position);
      const at = this.#animals.at(position);
      const id = row.ids[i] ?? 0;
      const end = row.ends[i] ?? start;
      block[at + ID_HIGH] = highWord(id);
      block[at + ID_LOW] = lowWord(id);
      block[at + CHUNK] = chunk;
      block[at + START] = start + moved;
      block[at + LENGTH] = end - start;
      // A page takes it along.
      texts[end + moved] = COMMA;
      const index = this.#index[row.statuses[i] ?? 'available'];
      index.set(index.add(), 0, position);
      start = end + 1;
    }
    return first;
  }

  /** Copies bytes into the last chunk, with room for one more. Says where they begin there. */
  #keep(bytes: Buffer, start: number, end: number): number {
    const length = end - start + 1;
    let chunk = this.#chunks.at(-1);
    if (!chunk || this.#free + length > chunk.length) {
      chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, length));
      this.#chunks.push(chunk);
      this.#free = 0;
    }
    const at = this.#free;
    this.#free = copy(bytes, start, end, chunk, at) + 1;
    return at;
  }
}

const endOfRow = ({ start, count, ends }: Row): number => ends[count - 1] ?? start;

/** Copies the bytes from `start` to `end`; says where the copy ends. */
function copy(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  to.set(from.subarray(start, end), at);
  return at + end - start;
}
