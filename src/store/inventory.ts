import type { PetStatus } from '../contract/schemas.ts';
import { Rows } from './rows.ts';
import type { Page, PageQuery, PetJson } from './store.ts';

const CHUNK_BYTES = 2 ** 23;
/** A page ends behind this much: as many as like may ask for pages at once, and be slow to take them. */
const PAGE_BYTES = 2 ** 20;
/** Bytes are kept as they are where at least this much of them is text. */
const MOSTLY = 0.8;
/** Below this a loop copies quicker than a call into the runtime. */
const SHORT_BYTES = 200;
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
    const moved = this.#keep(row.bytes, row.start, endOf(row)) - row.start;
    return this.#add(row, moved);
  }

  /**
   * As append(), without a copy where the bytes are little more than the texts: then they belong to the inventory, and
   * this says true.
   */
  adopt(row: Row): boolean {
    const { bytes, start } = row;
    if (endOf(row) - start < MOSTLY * bytes.length) {
      this.append(row);
      return false;
    }
    this.#chunks.push(bytes);
    this.#free = bytes.length;
    this.#add(row, 0);
    return true;
  }

  textAt(position: number): PetJson {
    const start = this.#animals.get(position, START);
    return this.#chunkOf(position).toString('utf8', start, start + this.#animals.get(position, LENGTH));
  }

  get(id: bigint): PetJson | undefined {
    const position = this.#firstFrom(id);
    return position < this.size && this.#idAt(position) === id ? this.textAt(position) : undefined;
  }

  /** A page costs the same wherever it is: one search, then as many animals as it has. */
  page({ limit, status, after }: PageQuery): Page {
    const from = after === undefined ? 0 : this.#firstFrom(after + 1n);
    const index = status && this.#index[status];
    const total = index ? index.size : this.size;
    const first = index ? firstIndex(total, (i) => index.get(i, 0) >= from) : from;
    const positions: number[] = [];
    for (let i = first, bytes = 0; i < total && positions.length < limit && bytes < PAGE_BYTES; i++) {
      const position = index ? index.get(i, 0) : i;
      positions.push(position);
      bytes += this.#animals.get(position, LENGTH);
    }
    const pets = this.#join(positions);
    const last = positions.at(-1);
    if (last === undefined || first + positions.length === total) return { pets };
    return { pets, next: this.#idAt(last) };
  }

  /** The animals as a JSON array. */
  #join(positions: readonly number[]): Buffer {
    let length = 2 + Math.max(0, positions.length - 1);
    for (const position of positions) length += this.#animals.get(position, LENGTH);
    const json = Buffer.allocUnsafe(length);
    let end = 0;
    json[end++] = OPEN;
    for (const position of positions) {
      if (end > 1) json[end++] = COMMA;
      const start = this.#animals.get(position, START);
      end = copy(this.#chunkOf(position), start, start + this.#animals.get(position, LENGTH), json, end);
    }
    json[end] = CLOSE;
    return json;
  }

  #chunkOf(position: number): Buffer {
    return this.#chunks[this.#animals.get(position, CHUNK)] ?? EMPTY;
  }

  #idAt(position: number): bigint {
    const high = BigInt(this.#animals.get(position, ID_HIGH));
    return BigInt.asIntN(64, (high << 32n) | BigInt(this.#animals.get(position, ID_LOW)));
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
    for (let i = 0, start = row.start; i < row.count; i++) {
      const position = this.#animals.add();
      const [block, at] = [this.#animals.block(position), this.#animals.at(position)];
      const id = row.ids[i] ?? 0;
      const end = row.ends[i] ?? start;
      block[at + ID_HIGH] = highWord(id);
      block[at + ID_LOW] = lowWord(id);
      block[at + CHUNK] = chunk;
      block[at + START] = start + moved;
      block[at + LENGTH] = end - start;
      const index = this.#index[row.statuses[i] ?? 'available'];
      index.set(index.add(), 0, position);
      start = end + 1;
    }
    return first;
  }

  /** Copies bytes into the last chunk. Says where they begin there. */
  #keep(bytes: Buffer, start: number, end: number): number {
    const length = end - start;
    let chunk = this.#chunks.at(-1);
    if (!chunk || this.#free + length > chunk.length) {
      chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, length));
      this.#chunks.push(chunk);
      this.#free = 0;
    }
    const at = this.#free;
    this.#free = copy(bytes, start, end, chunk, at);
    return at;
  }
}

const endOf = ({ start, count, ends }: Row): number => ends[count - 1] ?? start;

/** Copies the bytes from `start` to `end`; says where the copy ends. */
function copy(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start > SHORT_BYTES) return at + from.copy(to, at, start, end);
  let free = at;
  for (let i = start; i < end; i++) to[free++] = from[i] ?? 0;
  return free;
}

/** The smallest index below `size` from which on `holds` is true; `size` where there is none. */
function firstIndex(size: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

const lowWord = (id: number | bigint): number =>
  typeof id === 'number' ? id >>> 0 : Number(BigInt.asUintN(32, id));

const highWord = (id: number | bigint): number =>
  typeof id === 'number' ? Math.floor(id / 2 ** 32) : Number(BigInt.asIntN(32, id >> 32n));
