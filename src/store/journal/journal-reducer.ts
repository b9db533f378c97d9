import { FINGERPRINT_WORDS, IdempotencyIndex, isExpired } from '../index/idempotency-index.ts';
import { type PackedPets, PetIndex, textRefOf } from '../index/pet-index.ts';
import type { OrderJson } from '../store.ts';
import type { PackedBatch } from './record-format.ts';
import { parseRecordJson } from './record-json.ts';
import { RecordParser } from './record-parser.ts';

/** The state that results from all records of a journal. */
export type Contents = {
  pets: PetIndex;
  keys: IdempotencyIndex;
  orders: OrderJson[];
  /** The sequence number of the last record. */
  seq: number;
  /** The last issued id when the journal was read, even if its animal was lost; -Infinity if there is none. */
  lastId: number | bigint;
  /** The id of the first animal in the last record with animals; Infinity if there is none. Writes do not update it. */
  lastBatchId: number | bigint;
};

/** Why a record cannot be used. `isNewer` means that a newer version of the program wrote the record. */
export type RecordProblem = { reason: string; isNewer?: boolean };

/** Builds the state from the records of a journal, in their order. `now` is in milliseconds since 1970. */
export class JournalReducer {
  readonly contents: Contents = {
    pets: new PetIndex(),
    keys: new IdempotencyIndex(),
    orders: [],
    seq: 0,
    lastId: Number.NEGATIVE_INFINITY,
    lastBatchId: Number.POSITIVE_INFINITY,
  };
  #now: number;
  #parser = new RecordParser();

  constructor(now: number) {
    this.#now = now;
  }

  /**
   * Adds the record from `start` to `end`, whose checksum is valid. The record's animals may be missing in the state
   * until the next `commit`. Call `commit` before the buffer gets other data.
   */
  add(bytes: Buffer, start: number, end: number): RecordProblem | undefined {
    const parser = this.#parser;
    const before = parser.pets.count;
    if (parser.parse(bytes, start, end)) return this.#check(parser.seq, parser.pets, before);
    // The fast parser supports neither orders nor other forms of a record, such as those of another version.
    const record = parseRecordJson(bytes.toString('utf8', start, end));
    if (!record) return { reason: 'the record is not valid' };
    if (record === 'unknown_kind') return { reason: 'the record is of an unknown kind', isNewer: true };
    const problem = this.#check(record.seq, record.pets, 0);
    if (problem) return problem;
    // Add the earlier animals first. Copy them, because the caller continues to use their buffer.
    this.commit(false);
    this.#append(record, false);
    const { order, lastId } = record;
    if (order !== undefined) this.contents.orders.push(order);
    if (lastId !== undefined && lastId > this.contents.lastId) this.contents.lastId = lastId;
    return undefined;
  }

  /**
   * Puts the animals of all records that were added since the last call into the state. With `mayTake`, the buffer that
   * contains these animals may become part of the state. Returns true if the buffer did.
   */
  commit(mayTake: boolean): boolean {
    const isTaken = this.#append(this.#parser, mayTake);
    this.#parser.reset();
    return isTaken;
  }

  /** Checks that `seq` continues the sequence without a gap, and that the ids ascend from the index `first` on. */
  #check(seq: number, { ids, count }: PackedPets, first: number): RecordProblem | undefined {
    const { contents } = this;
    if (seq !== contents.seq + 1) return { reason: `expected record ${contents.seq + 1}, found ${seq}` };
    contents.seq = seq;
    if (first < count) contents.lastBatchId = ids[first] ?? 0;
    for (let i = first; i < count; i++) {
      const id = ids[i] ?? 0;
      if (id <= contents.lastId)
        return { reason: `animal ${id} comes after animal ${contents.lastId}, but ids must ascend` };
      contents.lastId = id;
    }
    return undefined;
  }

  #append({ pets, keys }: PackedBatch, mayTake: boolean): boolean {
    if (pets.count === 0) return false;
    const { contents } = this;
    const placement = contents.pets.append(pets, mayTake);
    for (let i = 0; i < keys.count; i++) {
      const time = keys.times[i] ?? 0;
      if (isExpired(time, this.#now)) continue;
      const entry = contents.keys.reserve(keys.words, FINGERPRINT_WORDS * i);
      contents.keys.complete(entry, textRefOf(pets, keys.pets[i] ?? 0, placement), time);
    }
    return placement.isTaken;
  }
}
