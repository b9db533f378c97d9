import { INT64_MAX, INT64_MIN } from '../contract/int64.ts';
import { tryParseJson } from '../contract/json.ts';
import type { PetStatus } from '../contract/schemas.ts';
import { type Fingerprint, WORDS_OF_FINGERPRINT, WORDS_OF_KEY } from './idempotency.ts';
import type { Row } from './inventory.ts';
import { hex32, PREFIX_LENGTH } from './journal-format.ts';
import type { OrderJson } from './store.ts';

/** Told of each idempotency key: its animal's place in the record, and the fingerprint, good only during the call. */
export type OnKey = (pet: number, fingerprint: Fingerprint) => void;

/** Text of four bytes or more at a certain place of every record: compared in words of four, the last two may overlap. */
type Literal = { length: number; words: { at: number; value: number }[] };

function literal(text: string): Literal {
  const bytes = Buffer.from(text);
  const { length } = bytes;
  const words = Array.from({ length: Math.ceil(length / 4) }, (_, i) => {
    const at = Math.min(4 * i, length - 4);
    return { at, value: bytes.readUInt32LE(at) };
  });
  return { length, words };
}

const SEQ = literal('"seq":');
const AT = literal(',"at":');
const PETS = literal(',"pets":[');
const ORDER = literal(',"order":');
const ID = literal('{"id":');
const NAME = literal(',"name":"');
const CATEGORY = literal(',"categoryId":');
const STATUS = literal(',"status":"');
const KEYS = literal(',"keys":[');
const PET = literal('{"pet":');
const KEY = literal(',"key":"');
const BODY = literal('","body":"');
const statuses: [PetStatus, Literal][] = [
  ['available', literal('available"}')],
  ['pending', literal('pending"}')],
  ['sold', literal('sold"}')],
];
const [COMMA, CLOSE, BRACE, MINUS, QUOTE, BACKSLASH] = [0x2c, 0x5d, 0x7d, 0x2d, 0x22, 0x5c];
const [DIGIT_0, DIGIT_9] = [0x30, 0x39];

/**
 * Reads records in the one form in which they are written: far quicker than JSON.parse, and the text of each animal is
 * checked without being copied. One scanner serves for all records of a journal.
 */
export class RecordScanner {
  // What the last record holds.
  seq = 0;
  at = 0;
  order: OrderJson | undefined;
  /**
   * The animals of all records since `count` was set to 0. Their texts are moved together where they were read, a
   * record's behind those of the record before, so that all of them can be copied at once.
   */
  readonly pets: Row = { bytes: Buffer.alloc(0), start: 0, count: 0, ids: [], statuses: [], ends: [] };
  #line = this.pets.bytes;
  #view: DataView = new DataView(new ArrayBuffer(0));
  /** How many animals there were before those of the last record. */
  #before = 0;
  #next = 0;
  #end = 0;
  #fingerprint = new Uint32Array(WORDS_OF_FINGERPRINT);

  /** The record is the bytes from `start` to `end`; false where it has another form. Its keys are not looked at yet. */
  scan(bytes: Buffer, start: number, end: number): boolean {
    if (this.#line !== bytes) {
      this.#line = bytes;
      this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    }
    this.#next = start + PREFIX_LENGTH;
    // The brace that closes the record.
    this.#end = end - 1;
    this.order = undefined;
    this.#before = this.pets.count;
    const seq = this.#skip(SEQ) ? this.#safeInteger() : undefined;
    const at = this.#skip(AT) ? this.#safeInteger() : undefined;
    if (seq === undefined || at === undefined) return false;
    this.seq = seq;
    this.at = at;
    if (this.#skip(PETS)) return this.#pets();
    if (!this.#skip(ORDER)) return false;
    this.order = this.#line.toString('utf8', this.#next, this.#end);
    this.#next = this.#end;
    return tryParseJson(this.order) !== undefined;
  }

  /** The record's idempotency keys, to its end; false where they have another form. */
  keys(onKey: OnKey): boolean {
    if (this.#next === this.#end) return true;
    if (!this.#skip(KEYS)) return false;
    do {
      const pet = this.#skip(PET) ? this.#safeInteger() : undefined;
      if (pet === undefined || pet < 0 || pet >= this.pets.count - this.#before) return false;
      if (!this.#skip(KEY) || !this.#words(0, WORDS_OF_KEY)) return false;
      if (!this.#skip(BODY) || !this.#words(WORDS_OF_KEY, WORDS_OF_FINGERPRINT)) return false;
      if (this.#line[this.#next++] !== QUOTE || this.#line[this.#next++] !== BRACE) return false;
      onKey(pet, this.#fingerprint);
    } while (this.#goesOn());
    return this.#line[this.#next - 1] === CLOSE && this.#next === this.#end;
  }

  #pets(): boolean {
    const { pets } = this;
    const start = this.#next;
    const to = pets.count === 0 ? start : (pets.ends[pets.count - 1] ?? 0) + 1;
    do {
      const id = this.#skip(ID) ? this.#int64() : undefined;
      if (id === undefined || !this.#skip(NAME) || !this.#skipString()) return false;
      if (!this.#skip(CATEGORY) || this.#int64() === undefined || !this.#skip(STATUS)) return false;
      const status = this.#status();
      if (!status) return false;
      pets.ids[pets.count] = id;
      pets.statuses[pets.count] = status;
      pets.ends[pets.count++] = this.#next + to - start;
    } while (this.#goesOn());
    if (this.#line[this.#next - 1] !== CLOSE) return false;
    if (this.#before === 0) {
      pets.bytes = this.#line;
      pets.start = start;
    } else this.#line.copyWithin(to, start, this.#next - 1);
    return true;
  }

  /** Behind an element of an array: past the comma, or whatever else there is. */
  #goesOn(): boolean {
    return this.#line[this.#next++] === COMMA;
  }

  #skip({ length, words }: Literal): boolean {
    const next = this.#next + length;
    if (next > this.#end + 1) return false;
    for (let i = 0; i < words.length; i++) {
      const word = words[i];
      if (word === undefined || this.#view.getUint32(this.#next + word.at, true) !== word.value) return false;
    }
    this.#next = next;
    return true;
  }

  #status(): PetStatus | undefined {
    for (const [status, text] of statuses) if (this.#skip(text)) return status;
    return undefined;
  }

  #safeInteger(): number | undefined {
    const value = this.#integer();
    return typeof value === 'number' ? value : undefined;
  }

  #int64(): number | bigint | undefined {
    const value = this.#integer();
    if (typeof value !== 'bigint') return value;
    return value >= INT64_MIN && value <= INT64_MAX ? value : undefined;
  }

  /** A bigint where a number would not be exact. */
  #integer(): number | bigint | undefined {
    const line = this.#line;
    const start = this.#next;
    const first = line[start] === MINUS ? start + 1 : start;
    let at = first;
    let value = 0;
    for (let byte = line[at]; byte !== undefined && byte >= DIGIT_0 && byte <= DIGIT_9; byte = line[++at]) {
      value = value * 10 + byte - DIGIT_0;
    }
    this.#next = at;
    if (at === first) return undefined;
    if (at - first > 15) return BigInt(line.toString('latin1', start, at));
    return first === start ? value : -value;
  }

  /** To behind the quote that ends the string. */
  #skipString(): boolean {
    const line = this.#line;
    for (let at = this.#next; at < this.#end; at++) {
      const byte = line[at];
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) {
        this.#next = at + 1;
        return true;
      }
    }
    return false;
  }

  /** Reads hexadecimal digits into the words of the fingerprint. */
  #words(from: number, to: number): boolean {
    for (let i = from; i < to; i++, this.#next += 8) {
      const word = hex32(this.#line, this.#next);
      if (word < 0) return false;
      this.#fingerprint[i] = word;
    }
    return true;
  }
}
