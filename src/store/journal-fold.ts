import { IdempotencyKeys, isOver } from './idempotency.ts';
import { Inventory } from './inventory.ts';
import { RecordScanner } from './journal-scan.ts';
import type { OrderJson } from './store.ts';

/** What a journal says, folded into memory. */
export type Contents = {
  inventory: Inventory;
  keys: IdempotencyKeys;
  orders: OrderJson[];
  /** The sequence number of the last record. */
  seq: number;
};

const UNKNOWN_FORM = 'its record has an unknown form';

/**
 * Folds the records of a journal, one after the other. `now` is in milliseconds since 1970.
 *
 * The texts of the animals are moved together where they were read, a record's behind those of the records before, so
 * that all of them go into the inventory at once.
 */
export class JournalFold {
  readonly contents: Contents = {
    inventory: new Inventory(),
    keys: new IdempotencyKeys(),
    orders: [],
    seq: 0,
  };
  #now: number;
  #scanner = new RecordScanner();
  #lastId: number | bigint = Number.NEGATIVE_INFINITY;

  constructor(now: number) {
    this.#now = now;
  }

  /** Takes the record from `start` to `end`, whose checksum is right, and says why it is damaged, where it is. */
  add(bytes: Buffer, start: number, end: number): string | undefined {
    const { contents } = this;
    const scanner = this.#scanner;
    const { pets } = scanner;
    const before = pets.count;
    if (!scanner.scan(bytes, start, end)) return UNKNOWN_FORM;
    const { seq, at, order } = scanner;
    if (seq !== contents.seq + 1) return `record ${seq} follows record ${contents.seq}`;
    contents.seq = seq;
    if (order !== undefined) contents.orders.push(order);
    for (let i = before; i < pets.count; i++) {
      const id = pets.ids[i] ?? 0;
      if (id <= this.#lastId) return `animal ${id} follows animal ${this.#lastId}`;
      this.#lastId = id;
    }
    const first = contents.inventory.size + before;
    const isOld = isOver(at, this.#now);
    const areKeys = scanner.keys((pet, fingerprint) => {
      if (!isOld) contents.keys.remember(contents.keys.begin(fingerprint), first + pet, at);
    });
    return areKeys ? undefined : UNKNOWN_FORM;
  }

  /** Puts the animals of the records before into the inventory; true where their bytes now belong to it. */
  settle(): boolean {
    const { pets } = this.#scanner;
    if (pets.count === 0) return false;
    const isTaken = this.contents.inventory.adopt(pets);
    pets.count = 0;
    return isTaken;
  }
}
