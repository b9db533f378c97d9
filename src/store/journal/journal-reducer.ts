import { FINGERPRINT_WORDS, IdempotencyIndex, isExpired } from '../index/idempotency-index.ts';
import { PetIndex } from '../index/pet-index.ts';
import type { OrderJson } from '../store.ts';
import { encodeBatch, type PetEntry } from './record-format.ts';
import { parseRecordJson } from './record-json.ts';
import { RecordParser } from './record-parser.ts';

/** The state that the records of a journal add up to. */
export type Contents = {
  pets: PetIndex;
  keys: IdempotencyIndex;
  orders: OrderJson[];
  /** The sequence number of the last record. */
  seq: number;
};

/** Why a record cannot be used. `isNewer`: because a newer version of the program wrote it. */
export type RecordProblem = { reason: string; isNewer?: boolean };

/** Builds the state from the records of a journal, in their order. `now` is in milliseconds since 1970. */
export class JournalReducer {
  readonly contents: Contents = {
    pets: new PetIndex(),
    keys: new IdempotencyIndex(),
    orders: [],
    seq: 0,
  };
  #now: number;
  #parser = new RecordParser();
  #lastId: number | bigint = Number.NEGATIVE_INFINITY;

  constructor(now: number) {
    this.#now = now;
  }

  /**
   * Adds the record from `start` to `end`, whose checksum is valid. Its animals become part of the state with the next
   * `commit`.
   */
  add(bytes: Buffer, start: number, end: number): RecordProblem | undefined {
    const parser = this.#parser;
    const before = parser.pets.count;
    if (!parser.parse(bytes, start, end)) return this.#addJson(bytes.toString('utf8', start, end));
    return this.#checkSeq(parser.seq) ?? this.#checkIds(parser.pets.ids, before, parser.pets.count);
  }

  /** Adds the animals of the records since the last call. Returns true if their buffer now belongs to the state. */
  commit(): boolean {
    return this.#commit(true);
  }

  /** Slow path for orders and for records that another version wrote. */
  #addJson(text: string): RecordProblem | undefined {
    const record = parseRecordJson(text);
    if (!record) return { reason: 'the record is not valid' };
    if (record === 'unknown_kind') {
      return { reason: 'the record is of an unknown kind', isNewer: true };
    }
    const { seq, at, entries, order } = record;
    const ids = entries.map(({ id }) => id);
    const problem = this.#checkSeq(seq) ?? this.#checkIds(ids, 0, ids.length);
    if (problem) return problem;
    if (order !== undefined) this.contents.orders.push(order);
    // The caller's buffer stays in use, so the records before this one must be copied.
    this.#commit(false);
    if (entries.length > 0) this.#addEntries(at, entries);
    return undefined;
  }

  #checkSeq(seq: number): RecordProblem | undefined {
    const { contents } = this;
    if (seq !== contents.seq + 1) return { reason: `record ${seq} follows record ${contents.seq}` };
    contents.seq = seq;
    return undefined;
  }

  #checkIds(ids: readonly (number | bigint)[], from: number, to: number): RecordProblem | undefined {
    for (let i = from; i < to; i++) {
      const id = ids[i] ?? 0;
      if (id <= this.#lastId) return { reason: `animal ${id} follows animal ${this.#lastId}` };
      this.#lastId = id;
    }
    return undefined;
  }

  #commit(mayTakeBuffer: boolean): boolean {
    const { pets: packed, keys: packedKeys } = this.#parser;
    const { pets, keys } = this.contents;
    if (packed.count === 0) return false;
    const first = pets.size;
    const isTaken = mayTakeBuffer && pets.appendOwned(packed);
    if (!isTaken) pets.append(packed);
    for (let i = 0; i < packedKeys.count; i++) {
      const time = packedKeys.times[i] ?? 0;
      if (isExpired(time, this.#now)) continue;
      const entry = keys.reserve(packedKeys.words, FINGERPRINT_WORDS * i);
      keys.complete(entry, pets.textRef(first + (packedKeys.pets[i] ?? 0)), time);
    }
    this.#parser.reset();
    return isTaken;
  }

  #addEntries(at: number, entries: readonly PetEntry[]): void {
    const { pets, keys } = this.contents;
    const first = pets.append(encodeBatch(0, at, entries));
    entries.forEach(({ fingerprint }, i) => {
      if (!fingerprint || isExpired(at, this.#now)) return;
      keys.complete(keys.reserve(fingerprint), pets.textRef(first + i), at);
    });
  }
}
