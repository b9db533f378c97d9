import type { PetStatus } from '../../contract/schemas.ts';
import type { Page, PageQuery, PetJson } from '../store.ts';
import { TextArena, type TextPlacement, type TextRef } from './text-arena.ts';
import { Uint32Table } from './uint32-table.ts';

/** A page ends after this many bytes, because slow clients can make the server hold many pages in memory. */
const MAX_PAGE_BYTES = 2 ** 20;
/** The columns of an animal: the two halves of its id, and the position of its text. */
const [ID_HIGH, ID_LOW, CHUNK, START, LENGTH, COLUMNS] = [0, 1, 2, 3, 4, 5];
const COMMA = 0x2c;

/**
 * Animals in ascending order of id whose JSON texts lie one after the other in `bytes`, with one byte between them. The
 * first text begins at `start`; text i ends before `ends[i]`.
 */
export type PackedPets = {
  bytes: Buffer;
  start: number;
  count: number;
  ids: (number | bigint)[];
  statuses: PetStatus[];
  ends: number[];
};

/** The reference to text n of `pets`, counted from 0. The last argument is where the arena has placed the texts. */
export function textRefOf({ start, ends }: PackedPets, n: number, { chunk, shift }: TextPlacement): TextRef {
  const first = n === 0 ? start : (ends[n - 1] ?? start) + 1;
  return { chunk, start: first + shift, length: (ends[n] ?? first) - first };
}

/** All animals in memory, in ascending order of id. An animal's position is its index in that order. */
export class PetIndex {
  readonly texts = new TextArena();
  #table = new Uint32Table(COLUMNS);
  /** The positions of the animals of each status, ascending. */
  #byStatus: Record<PetStatus, Uint32Table> = {
    available: new Uint32Table(1),
    pending: new Uint32Table(1),
    sold: new Uint32Table(1),
  };

  get size(): number {
    return this.#table.size;
  }

  /** Adds animals with higher ids than all others. With `mayTake`, the buffer of `pets` can become part of the index. */
  append(pets: PackedPets, mayTake = false): TextPlacement {
    const end = pets.ends[pets.count - 1] ?? pets.start;
    const placement = this.texts.append(pets.bytes, pets.start, end, mayTake);
    this.#add(pets, placement);
    return placement;
  }

  get(id: bigint): PetJson | undefined {
    const position = this.#lowerBound(id);
    if (position >= this.size || this.#idAt(position) !== id) return undefined;
    return this.texts.read(this.#textAt(position));
  }

  /** All animals in ascending order of id. */
  *entries(): Generator<{ id: bigint; status: PetStatus; text: TextRef }> {
    const lists = Object.entries(this.#byStatus).map(([status, positions]) => ({
      status: status as PetStatus,
      positions,
      next: 0,
    }));
    for (let position = 0; position < this.size; position++) {
      for (const list of lists) {
        if (list.next === list.positions.size || list.positions.get(list.next, 0) !== position) continue;
        list.next++;
        yield { id: this.#idAt(position), status: list.status, text: this.#textAt(position) };
        break;
      }
    }
  }

  /** Searches with bisection, so that pages far into the list are fast too. */
  page({ limit, status, after }: PageQuery): Page {
    const from = after === undefined ? 0 : this.#lowerBound(after + 1n);
    const index = status && this.#byStatus[status];
    const total = index ? index.size : this.size;
    const first = index ? lowerBound(total, (i) => index.get(i, 0) >= from) : from;
    const stop = Math.min(first + limit, total);
    if (first >= stop) return { pets: Buffer.alloc(0) };
    const [firstPosition, last] = index ? [index.get(first, 0), index.get(stop - 1, 0)] : [first, stop - 1];
    const isContiguous = last - firstPosition === stop - 1 - first;
    const pets = isContiguous ? this.#view(firstPosition, last) : undefined;
    if (pets) return stop === total ? { pets } : { pets, next: this.#idAt(last) };
    return this.#collect(first, stop, index);
  }

  /** Returns consecutive texts without a copy; undefined if they are in different chunks or too long for a page. */
  #view(first: number, last: number): Buffer | undefined {
    const chunk = this.#table.get(first, CHUNK);
    if (this.#table.get(last, CHUNK) !== chunk) return undefined;
    const start = this.#table.get(first, START);
    const end = this.#table.get(last, START) + this.#table.get(last, LENGTH);
    return end - start > MAX_PAGE_BYTES ? undefined : this.texts.chunk(chunk).subarray(start, end);
  }

  /** Copies the texts of a page. `first` and `stop` are rows of `index`, or positions if `index` is undefined. */
  #collect(first: number, stop: number, index: Uint32Table | undefined): Page {
    const texts: Uint8Array[] = [];
    let [bytes, position, i] = [0, 0, first];
    for (; i < stop && bytes < MAX_PAGE_BYTES; i++) {
      position = index ? index.get(i, 0) : i;
      const block = this.#table.block(position);
      const row = this.#table.offset(position);
      const start = block[row + START] ?? 0;
      const end = start + (block[row + LENGTH] ?? 0);
      texts.push(this.texts.chunk(block[row + CHUNK] ?? 0).subarray(start, end));
      bytes += end - start + 1;
    }
    const pets = Buffer.allocUnsafe(bytes - 1);
    let copied = 0;
    for (const text of texts) {
      if (copied > 0) pets[copied++] = COMMA;
      pets.set(text, copied);
      copied += text.length;
    }
    return i === (index ?? this).size ? { pets } : { pets, next: this.#idAt(position) };
  }

  #idAt(position: number): bigint {
    const [high, low] = [this.#table.get(position, ID_HIGH), this.#table.get(position, ID_LOW)];
    return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low));
  }

  #textAt(position: number): TextRef {
    return {
      chunk: this.#table.get(position, CHUNK),
      start: this.#table.get(position, START),
      length: this.#table.get(position, LENGTH),
    };
  }

  /** The first position whose id is `id` or higher. */
  #lowerBound(id: bigint): number {
    // If the ids are consecutive, the position follows from the first id.
    const guess = this.size === 0 ? 0 : Number(id - this.#idAt(0));
    if (guess >= 0 && guess < this.size && this.#idAt(guess) === id) return guess;
    return lowerBound(this.size, (i) => this.#idAt(i) >= id);
  }

  #add(pets: PackedPets, { chunk, shift }: TextPlacement): void {
    const texts = this.texts.chunk(chunk);
    for (let i = 0, start = pets.start; i < pets.count; i++) {
      const position = this.#table.add();
      const block = this.#table.block(position);
      const row = this.#table.offset(position);
      const id = pets.ids[i] ?? 0;
      const end = pets.ends[i] ?? start;
      block[row + ID_HIGH] = highWord(id);
      block[row + ID_LOW] = lowWord(id);
      block[row + CHUNK] = chunk;
      block[row + START] = start + shift;
      block[row + LENGTH] = end - start;
      texts[end + shift] = COMMA;
      const byStatus = this.#byStatus[pets.statuses[i] ?? 'available'];
      const entry = byStatus.add();
      byStatus.block(entry)[byStatus.offset(entry)] = position;
      start = end + 1;
    }
  }
}

/** The upper 32 bits of an int64. The ids of a loaded journal are mostly numbers, which are faster than bigints. */
const highWord = (id: number | bigint): number =>
  typeof id === 'number' ? Math.floor(id / 2 ** 32) : Number(BigInt.asIntN(32, id >> 32n));

const lowWord = (id: number | bigint): number =>
  typeof id === 'number' ? id >>> 0 : Number(BigInt.asUintN(32, id));

/** The first index for which `isReached` is true, or `size`. `isReached` must also be true for all later indexes. */
function lowerBound(size: number, isReached: (index: number) => boolean): number {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isReached(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
