import { type PetStatus, petStatuses } from '../contract/schemas.ts';
import type { Page, PageQuery, PetJson } from './store.ts';

const CHUNK_BYTES = 2 ** 20;
/** A page ends behind this much: as many as like may ask for pages at once, and be slow to take them. */
const PAGE_BYTES = 2 ** 20;
/** Below this a loop copies quicker than a call into the runtime. */
const SHORT_BYTES = 200;
const NONE = new Uint32Array(0);
const EMPTY = Buffer.alloc(0);
const [OPEN, COMMA, CLOSE] = [0x5b, 0x2c, 0x5d];

/**
 * The animals in memory, by ascending id. Their text is kept as bytes in large chunks: a million strings would
 * cost twice the memory, and the garbage collector a look at each of them again and again.
 */
export class Inventory {
  #size = 0;
  #ids = new BigInt64Array(1024);
  /** For each animal: its chunk, where it begins in there, and its length in bytes. */
  #places = new Uint32Array(3 * 1024);
  #chunks: Buffer[] = [];
  /** The first byte of the last chunk that is free. */
  #free = 0;
  /** For each status, the positions of its animals, ascending. */
  #index = petStatuses.map(() => ({ positions: NONE, size: 0 }));

  get size(): number {
    return this.#size;
  }

  get lastId(): bigint | undefined {
    return this.#size === 0 ? undefined : this.#ids[this.#size - 1];
  }

  /** Adds the animal whose text is `bytes` from `start` to `end`; `id` is above all others. Says its position. */
  append(id: bigint, status: PetStatus, bytes: Buffer, start: number, end: number): number {
    const position = this.#size++;
    if (position === this.#ids.length) {
      this.#ids = grown(this.#ids, new BigInt64Array(2 * position));
      this.#places = grown(this.#places, new Uint32Array(6 * position));
    }
    this.#ids[position] = id;
    this.#keep(bytes, start, end, 3 * position);
    const index = this.#indexOf(status);
    if (index.size === index.positions.length) {
      index.positions = grown(index.positions, new Uint32Array(2 * index.size || 1024));
    }
    index.positions[index.size++] = position;
    return position;
  }

  textAt(position: number): PetJson {
    const start = this.#places[3 * position + 1] ?? 0;
    return this.#chunkOf(position).toString('utf8', start, start + this.#lengthOf(position));
  }

  get(id: bigint): PetJson | undefined {
    const position = this.#firstFrom(id);
    return position < this.#size && this.#ids[position] === id ? this.textAt(position) : undefined;
  }

  /** A page costs the same wherever it is: one search, then as many animals as it has. */
  page({ limit, status, after }: PageQuery): Page {
    const from = after === undefined ? 0 : this.#firstAfter(after);
    const index = status && this.#indexOf(status);
    const total = index ? index.size : this.#size;
    const first = index ? firstIndex(index.size, (i) => (index.positions[i] ?? 0) >= from) : from;
    const positions: number[] = [];
    for (let i = first, bytes = 0; i < total && positions.length < limit && bytes < PAGE_BYTES; i++) {
      const position = index ? (index.positions[i] ?? 0) : i;
      positions.push(position);
      bytes += this.#lengthOf(position);
    }
    const pets = this.#join(positions);
    const last = positions.at(-1);
    if (last === undefined || first + positions.length === total) return { pets };
    return { pets, next: this.#ids[last] ?? 0n };
  }

  /** The animals as a JSON array. */
  #join(positions: readonly number[]): Buffer {
    let length = 2 + Math.max(0, positions.length - 1);
    for (const position of positions) length += this.#lengthOf(position);
    const json = Buffer.allocUnsafe(length);
    let end = 0;
    json[end++] = OPEN;
    for (const position of positions) {
      if (end > 1) json[end++] = COMMA;
      const start = this.#places[3 * position + 1] ?? 0;
      end = copy(this.#chunkOf(position), start, start + this.#lengthOf(position), json, end);
    }
    json[end] = CLOSE;
    return json;
  }

  #chunkOf(position: number): Buffer {
    return this.#chunks[this.#places[3 * position] ?? 0] ?? EMPTY;
  }

  #lengthOf(position: number): number {
    return this.#places[3 * position + 2] ?? 0;
  }

  #firstFrom(id: bigint): number {
    // Where no id is missing the first look finds it.
    const guess = this.#size === 0 ? 0 : Number(id - (this.#ids[0] ?? 0n));
    if (this.#ids[guess] === id && guess < this.#size) return guess;
    return firstIndex(this.#size, (i) => (this.#ids[i] ?? 0n) >= id);
  }

  #firstAfter(id: bigint): number {
    const position = this.#firstFrom(id);
    return position < this.#size && this.#ids[position] === id ? position + 1 : position;
  }

  #indexOf(status: PetStatus): { positions: Uint32Array<ArrayBuffer>; size: number } {
    const index = this.#index[petStatuses.indexOf(status)];
    if (!index) throw new TypeError(`no such status: ${status}`);
    return index;
  }

  #keep(bytes: Buffer, start: number, end: number, place: number): void {
    const length = end - start;
    let chunk = this.#chunks.at(-1);
    if (!chunk || this.#free + length > chunk.length) {
      chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, length));
      this.#chunks.push(chunk);
      this.#free = 0;
    }
    copy(bytes, start, end, chunk, this.#free);
    this.#places[place] = this.#chunks.length - 1;
    this.#places[place + 1] = this.#free;
    this.#places[place + 2] = length;
    this.#free += length;
  }
}

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

function grown<T extends Uint32Array | BigInt64Array>(old: T, larger: T): T {
  // The compiler does not see that both are of one kind.
  (larger as Uint32Array).set(old as Uint32Array);
  return larger;
}
