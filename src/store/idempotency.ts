import { IDEMPOTENCY_MILLISECONDS } from '../contract/idempotency-key.ts';
import type { Idempotency } from './store.ts';

/** What a key was used for: the hash of the body, and the animal's position in the inventory. */
export type Remembered = { bodyHash: string; position: number; at: number };

/** The idempotency keys of the last 24 hours, and those whose animal is still being written. */
export class IdempotencyKeys {
  #known = new Map<string, Remembered>();
  #writing = new Set<string>();
  // In the order of their times, oldest first. A Map's own order would do, but each look at its front walks over
  // all that was deleted there.
  #queue: { name: string; entry: Remembered }[] = [];
  #head = 0;

  /** `now` is in milliseconds since 1970. */
  find(idempotency: Idempotency, now: number): Remembered | 'in_flight' | undefined {
    this.#prune(now);
    const name = nameOf(idempotency);
    if (this.#writing.has(name)) return 'in_flight';
    const entry = this.#known.get(name);
    return entry && !isOver(entry, now) ? entry : undefined;
  }

  /** From here on the key is in flight, until it is remembered. */
  begin(idempotency: Idempotency): void {
    this.#writing.add(nameOf(idempotency));
  }

  remember(idempotency: Idempotency, position: number, at: number): void {
    const name = nameOf(idempotency);
    const entry = { bodyHash: idempotency.bodyHash, position, at };
    this.#writing.delete(name);
    this.#known.set(name, entry);
    this.#queue.push({ name, entry });
  }

  #prune(now: number): void {
    for (;;) {
      const oldest = this.#queue[this.#head];
      if (!oldest || !isOver(oldest.entry, now)) break;
      // The key may have been used anew since.
      if (this.#known.get(oldest.name) === oldest.entry) this.#known.delete(oldest.name);
      this.#head++;
    }
    if (this.#head > 1024 && 2 * this.#head > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
  }
}

export const isOver = ({ at }: { at: number }, now: number): boolean => now - at >= IDEMPOTENCY_MILLISECONDS;

// The length tells where the scope ends, so that no two pairs make the same name.
const nameOf = ({ scope, key }: Idempotency) => `${scope.length}:${scope}${key}`;
