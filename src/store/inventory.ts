import { type PetStatus, petStatuses } from '../contract/schemas.ts';
import type { Page, PageQuery, PetJson } from './store.ts';

const CHUNK_BYTES = 2 ** 20;
/** A page ends behind this much: as many as like may ask for pages at once, and be slow to take them. */
const PAGE_BYTES = 2 ** 20;
/** Below this a loop copies quicker than a call into the runtime. */
const SHORT_BYTES = 200;
const NONE = new Uint32Array(0);

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
    const place = 3 * position;
    const start = this.#places[place + 1] ?? 0;
    return (
      this.#chunks[this.#places[place] ?? 0]?.toString(
        'utf8',
        start,
        start + (this.#places[place + 2] ?? 0),
      ) ?? ''
    );
  }

  get(id: bigint): PetJson | undefined {
    const position = this.#firstFrom(id);
    return position < this.#size && this.#ids[position] === id ? this.textAt(position) : undefined;
  }

  /** A page costs the same wherever it is: one search, then as many animals as it has. */
  page({ limit, status, after }: PageQuery): Page {
    let position = after === undefined ? 0 : this.#firstFrom(after);
    if (after !== undefined && position < this.#size && this.#ids[position] === after) position++;
    const index = status && this.#indexOf(status);
    const first = index ? firstIndex(index.size, (i) => (index.positions[i] ?? 0) >= position) : position;
    const end = Math.min(first + limit, index ? index.size : this.#size);
    const pets: PetJson[] = [];
    for (let i = first, bytes = 0; i < end && bytes < PAGE_BYTES; i++) {
      position = index ? (index.positions[i] ?? 0) : i;
      pets.push(this.textAt(position));
      bytes += this.#places[3 * position + 2] ?? 0;
    }
    const next = this.#ids[position];
    const more = first + pets.length < (index ? index.size : this.#size);
    return more && pets.length > 0 && next !== undefined ? { pets, next } : { pets };
  }

  #firstFrom(id: bigint): number {
    return firstIndex(this.#size, (i) => (this.#ids[i] ?? 0n) >= id);
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
    if (length > SHORT_BYTES) bytes.copy(chunk, this.#free, start, end);
    else for (let from = start, to = this.#free; from < end; ) chunk[to++] = bytes[from++] ?? 0;
    this.#places[place] = this.#chunks.length - 1;
    this.#places[place + 1] = this.#free;
    this.#places[place + 2] = length;
    this.#free += length;
  }
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
