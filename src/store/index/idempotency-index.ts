import { hash } from 'node:crypto';
import { IDEMPOTENCY_KEY_LIFETIME_MS } from '../../contract/idempotency-key.ts';
import type { Idempotency } from '../store.ts';
import type { TextRef } from './text-arena.ts';
import { Uint32Table } from './uint32-table.ts';

/**
 * Identifies a request with an idempotency key. `hex` has 32 digits of the salted SHA-256 of scope and key, then 32
 * digits of the SHA-256 of the body. `words` are the same digits as eight 32-bit numbers.
 */
export type Fingerprint = { hex: string; words: number[] };

const KEY_WORDS = 4;
export const FINGERPRINT_WORDS = 8;

/** The secret `salt` keeps clients from choosing keys that all hash to the same bucket. */
export function fingerprintOf({ scope, key, bodyHash }: Idempotency, salt: string): Fingerprint {
  // Without the length, two pairs of scope and key could have the same text. UTF-16 keeps unpaired surrogates distinct.
  const name = Buffer.from(`${salt}${scope.length}:${scope}${key}`, 'utf16le');
  const hex = hash('sha256', name).slice(0, 32) + bodyHash.slice(0, 32);
  return { hex, words: wordsOfHex(hex) };
}

export function wordsOfHex(hex: string): number[] {
  // A loop, because Array.from takes 0.7 µs longer for each creation with a key.
  const words: number[] = [];
  for (let i = 0; i < hex.length; i += 8) words.push(Number.parseInt(hex.slice(i, i + 8), 16));
  return words;
}

const hexOfWords = (words: readonly number[]): string =>
  words.map((word) => word.toString(16).padStart(8, '0')).join('');

// The columns of an entry: the fingerprint, the position of the response's text, the next older entry in the same
// bucket, and the time of the journal record.
const CHUNK = FINGERPRINT_WORDS;
const [START, LENGTH, OLDER, TIME_HIGH, TIME_LOW, COLUMNS] = [9, 10, 11, 12, 13, 14];
/** The value in the column CHUNK if the response is not durable yet. */
const IN_FLIGHT = 2 ** 32 - 1;

/**
 * A hash table with the idempotency keys of the last 24 hours, and the response to the first request with each key
 * (docs/service.md, D10). The table consists of typed arrays, and needs about 60 bytes per key.
 *
 * An entry refers to the text of the first response, not to the animal: a replay returns that text whatever happens to
 * the animal later.
 *
 * Buckets are linked lists, newest entry first. All entries with numbers below `#oldest` have expired, so a search ends
 * at the first such entry.
 */
export class IdempotencyIndex {
  #entries = new Uint32Table(COLUMNS);
  /** The newest entry of each bucket. The number of buckets is a power of two. */
  #buckets = new Uint32Array(1024);
  #oldest = 1;
  /** Entries from this number on are not in a bucket yet. */
  #firstUnlinked = 1;

  constructor() {
    // Entry 0 is unused, so that 0 marks an empty bucket.
    this.#entries.add();
  }

  /**
   * Finds the response to the first request with this key. Returns `in_flight` if that response is not durable yet,
   * `mismatch` if that request had another body, and undefined if the key is new or has expired.
   */
  find(words: number[], now: number): TextRef | 'mismatch' | 'in_flight' | undefined {
    this.#evictExpired(now);
    this.#link();
    const entry = this.#newest(words);
    if (entry === undefined) return undefined;
    const chunk = this.#entries.get(entry, CHUNK);
    if (chunk === IN_FLIGHT) return 'in_flight';
    if (isExpired(this.#timeOf(entry), now)) return undefined;
    return this.#matches(entry, words, KEY_WORDS, FINGERPRINT_WORDS) ? this.#responseOf(entry) : 'mismatch';
  }

  /** The keys with a response that have not expired, in the order in which they were added. */
  *entries(now: number): Generator<{ fingerprint: string; response: TextRef; time: number }> {
    this.#evictExpired(now);
    this.#link();
    for (let entry = this.#oldest; entry < this.#entries.size; entry++) {
      const words = Array.from({ length: FINGERPRINT_WORDS }, (_, i) => this.#entries.get(entry, i));
      const time = this.#timeOf(entry);
      const isInFlight = this.#entries.get(entry, CHUNK) === IN_FLIGHT;
      if (isInFlight || isExpired(time, now) || this.#newest(words) !== entry) continue;
      yield { fingerprint: hexOfWords(words), response: this.#responseOf(entry), time };
    }
  }

  /** Adds a key without a response. Its fingerprint starts at `words[from]`. Returns the entry to pass to `complete`. */
  reserve(words: number[], from = 0): number {
    const entry = this.#entries.add();
    const block = this.#entries.block(entry);
    const row = this.#entries.offset(entry);
    for (let i = 0; i < FINGERPRINT_WORDS; i++) block[row + i] = words[from + i] ?? 0;
    block[row + CHUNK] = IN_FLIGHT;
    return entry;
  }

  /** Sets the text of the first response, and the time of its journal record in milliseconds since 1970. */
  complete(entry: number, response: TextRef, time: number): void {
    const block = this.#entries.block(entry);
    const row = this.#entries.offset(entry);
    block[row + CHUNK] = response.chunk;
    block[row + START] = response.start;
    block[row + LENGTH] = response.length;
    block[row + TIME_HIGH] = time / 2 ** 32;
    block[row + TIME_LOW] = time;
  }

  /** Forgets `entry` and all keys that were reserved later, because none of them was stored. */
  release(entry: number): void {
    for (let last = this.#entries.size - 1; last >= entry; last--) {
      if (last >= this.#firstUnlinked) continue;
      // The newest entry is the first of its bucket.
      const bucket = this.#entries.get(last, 0) & (this.#buckets.length - 1);
      this.#buckets[bucket] = this.#entries.get(last, OLDER);
    }
    this.#entries.truncate(entry);
    this.#firstUnlinked = Math.min(this.#firstUnlinked, entry);
  }

  /** The newest entry of a key. A key that was used again after it expired can have two entries. */
  #newest(words: number[]): number | undefined {
    let entry = this.#buckets[(words[0] ?? 0) & (this.#buckets.length - 1)] ?? 0;
    while (entry >= this.#oldest) {
      if (this.#matches(entry, words, 0, KEY_WORDS)) return entry;
      entry = this.#entries.get(entry, OLDER);
    }
    return undefined;
  }

  #matches(entry: number, words: number[], from: number, to: number): boolean {
    for (let i = from; i < to; i++) if (this.#entries.get(entry, i) !== words[i]) return false;
    return true;
  }

  #evictExpired(now: number): void {
    const entries = this.#entries;
    while (this.#oldest < entries.size) {
      if (entries.get(this.#oldest, CHUNK) === IN_FLIGHT || !isExpired(this.#timeOf(this.#oldest), now))
        break;
      this.#oldest++;
    }
    entries.drop(this.#oldest);
  }

  #responseOf(entry: number): TextRef {
    return {
      chunk: this.#entries.get(entry, CHUNK),
      start: this.#entries.get(entry, START),
      length: this.#entries.get(entry, LENGTH),
    };
  }

  #timeOf(entry: number): number {
    return this.#entries.get(entry, TIME_HIGH) * 2 ** 32 + this.#entries.get(entry, TIME_LOW);
  }

  /** Puts new entries into buckets. Only a search does this, so that starting with a million keys is fast. */
  #link(): void {
    const { size } = this.#entries;
    if (size - this.#oldest > this.#buckets.length) {
      this.#buckets = new Uint32Array(2 ** Math.ceil(Math.log2(size - this.#oldest)));
      this.#firstUnlinked = 0;
    }
    this.#firstUnlinked = Math.max(this.#firstUnlinked, this.#oldest);
    for (; this.#firstUnlinked < size; this.#firstUnlinked++) {
      const block = this.#entries.block(this.#firstUnlinked);
      const row = this.#entries.offset(this.#firstUnlinked);
      const bucket = (block[row] ?? 0) & (this.#buckets.length - 1);
      block[row + OLDER] = this.#buckets[bucket] ?? 0;
      this.#buckets[bucket] = this.#firstUnlinked;
    }
  }
}

/** Whether a key recorded at `time` has expired. Both times are in milliseconds since 1970. */
export const isExpired = (time: number, now: number): boolean => now - time >= IDEMPOTENCY_KEY_LIFETIME_MS;
