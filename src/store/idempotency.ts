import { hash } from 'node:crypto';
import { IDEMPOTENCY_MILLISECONDS } from '../contract/idempotency-key.ts';
import { Rows } from './rows.ts';
import type { Idempotency } from './store.ts';

/**
 * An idempotency key and the body it came with, 128 bits of a SHA-256 for each: four words of 32 bits, then four. Whoever
 * chose the key cannot choose its words.
 */
export type Fingerprint = Uint32Array;

export const WORDS_OF_KEY = 4;
export const WORDS_OF_FINGERPRINT = 8;

/** `secret`, the store's own, keeps a client from finding keys that would all meet in one bucket. */
export function fingerprintOf({ scope, key, bodyHash }: Idempotency, secret: string): Fingerprint {
  // The length tells where the scope ends, and UTF-16 keeps every string apart from every other.
  const name = Buffer.from(`${secret}${scope.length}:${scope}${key}`, 'utf16le');
  const hashes = [hash('sha256', name, 'buffer'), Buffer.from(bodyHash, 'hex')];
  const words = hashes.flatMap((bytes) => [0, 4, 8, 12].map((at) => bytes.readUInt32BE(at)));
  return Uint32Array.from(words);
}

// The words of an entry behind its fingerprint: the animal's position, the next older entry of its bucket, and the time.
const POSITION = WORDS_OF_FINGERPRINT;
const OLDER = POSITION + 1;
const TIME_HIGH = OLDER + 1;
const TIME_LOW = TIME_HIGH + 1;
const WORDS = TIME_LOW + 1;
/** The position of an animal that is still being written. */
const IN_FLIGHT = 2 ** 32 - 1;

/**
 * The idempotency keys of the last 24 hours, and those whose animal is still being written: a hash table in typed arrays,
 * some 52 bytes for each key.
 *
 * A bucket is a chain, the newest entry first, and ends at the first number below `#oldest`: to forget the oldest is to
 * count on. There are no more entries than animals, so 32 bits hold every number.
 */
export class IdempotencyKeys {
  #entries = new Rows(WORDS);
  /** The number of the newest entry of each; their count is a power of two. */
  #buckets = new Uint32Array(1024);
  #oldest = 1;
  /** The entries from this number on are in no bucket yet. */
  #unlinked = 1;

  constructor() {
    // So that 0, in a bucket, is none.
    this.#entries.add();
  }

  /** The position of the key's animal, where it came with the same body. `now` is in milliseconds since 1970. */
  find(fingerprint: Fingerprint, now: number): number | 'mismatch' | 'in_flight' | undefined {
    this.#forget(now);
    this.#link();
    const entry = this.#newest(fingerprint);
    if (entry === undefined) return undefined;
    const position = this.#entries.get(entry, POSITION);
    if (position === IN_FLIGHT) return 'in_flight';
    if (isOver(this.#timeOf(entry), now)) return undefined;
    return this.#has(entry, fingerprint, WORDS_OF_KEY, WORDS_OF_FINGERPRINT) ? position : 'mismatch';
  }

  /** From here on the key is in flight, until it is remembered. Says the number of its entry. */
  begin(fingerprint: Fingerprint): number {
    const entry = this.#entries.add();
    const block = this.#entries.block(entry);
    const at = this.#entries.at(entry);
    for (let i = 0; i < WORDS_OF_FINGERPRINT; i++) block[at + i] = fingerprint[i] ?? 0;
    block[at + POSITION] = IN_FLIGHT;
    return entry;
  }

  /** `position` is the animal's in the inventory; `at` is in milliseconds since 1970. */
  remember(entry: number, position: number, at: number): void {
    const block = this.#entries.block(entry);
    const row = this.#entries.at(entry);
    block[row + POSITION] = position;
    block[row + TIME_HIGH] = at / 2 ** 32;
    block[row + TIME_LOW] = at;
  }

  /** The newest decides: a key that was used anew may be there twice. */
  #newest(fingerprint: Fingerprint): number | undefined {
    let entry = this.#buckets[(fingerprint[0] ?? 0) & (this.#buckets.length - 1)] ?? 0;
    while (entry >= this.#oldest) {
      if (this.#has(entry, fingerprint, 0, WORDS_OF_KEY)) return entry;
      entry = this.#entries.get(entry, OLDER);
    }
    return undefined;
  }

  #has(entry: number, fingerprint: Fingerprint, from: number, to: number): boolean {
    for (let i = from; i < to; i++) if (this.#entries.get(entry, i) !== fingerprint[i]) return false;
    return true;
  }

  #forget(now: number): void {
    while (this.#oldest < this.#entries.size && this.#isForgettable(this.#oldest, now)) this.#oldest++;
    this.#entries.drop(this.#oldest);
  }

  #isForgettable(entry: number, now: number): boolean {
    return this.#entries.get(entry, POSITION) !== IN_FLIGHT && isOver(this.#timeOf(entry), now);
  }

  #timeOf(entry: number): number {
    return this.#entries.get(entry, TIME_HIGH) * 2 ** 32 + this.#entries.get(entry, TIME_LOW);
  }

  /** All at once, and only when one is looked for: a million come when a server starts. */
  #link(): void {
    const { size } = this.#entries;
    if (size - this.#oldest > this.#buckets.length) {
      this.#buckets = new Uint32Array(2 ** Math.ceil(Math.log2(size - this.#oldest)));
      this.#unlinked = 0;
    }
    this.#unlinked = Math.max(this.#unlinked, this.#oldest);
    for (; this.#unlinked < size; this.#unlinked++) {
      const block = this.#entries.block(this.#unlinked);
      const at = this.#entries.at(this.#unlinked);
      const bucket = (block[at] ?? 0) & (this.#buckets.length - 1);
      block[at + OLDER] = this.#buckets[bucket] ?? 0;
      this.#buckets[bucket] = this.#unlinked;
    }
  }
}

/** Whether a key of that time, in milliseconds since 1970, is forgotten. */
export const isOver = (at: number, now: number): boolean => now - at >= IDEMPOTENCY_MILLISECONDS;
