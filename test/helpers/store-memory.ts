import { INT64_MAX } from '../../src/contract/int64.ts';
import { stringifyJson } from '../../src/contract/json.ts';
import { type PetStatus, petJson } from '../../src/contract/schemas.ts';
import { StoreError, StoreNotEmptyError } from '../../src/store/errors.ts';
import type { Addition, AddOutcome, OrderJson, Page, PageQuery, Seed, Store } from '../../src/store/store.ts';

type Row = { id: bigint; status: PetStatus; text: string };
type Known = { bodyHash: string; at: number; text: string | undefined };

const DAY_MS = 24 * 60 * 60 * 1000;

/** The inventory as simply as it can be said: what the journal is held against, and a store for tests of others. */
export class MemoryStore implements Store {
  readonly id = '00000000-0000-4000-8000-000000000000';
  readonly secret = '00'.repeat(32);
  #clock: { now(): number };
  #rows: Row[] = [];
  #orders: OrderJson[] = [];
  #keys = new Map<string, Known>();
  #nextId = 1n;
  #closed = false;

  constructor(clock: { now(): number } = Date) {
    this.#clock = clock;
  }

  async add({ pet, idempotency }: Addition): Promise<AddOutcome> {
    this.#check();
    const name = idempotency && JSON.stringify([idempotency.scope, idempotency.key]);
    const known = name === undefined ? undefined : this.#keys.get(name);
    if (known && !known.text) return { kind: 'in_flight' };
    if (known?.text && this.#clock.now() - known.at < DAY_MS) {
      return known.bodyHash === idempotency?.bodyHash
        ? { kind: 'replayed', pet: known.text }
        : { kind: 'mismatch' };
    }
    if (this.#nextId > INT64_MAX) throw new StoreError('no id is left', 'begin a new store');
    const id = this.#nextId++;
    const text = petJson({ ...pet, id });
    const entry: Known = { bodyHash: idempotency?.bodyHash ?? '', at: this.#clock.now(), text: undefined };
    if (name !== undefined) this.#keys.set(name, entry);
    await new Promise(setImmediate);
    entry.text = text;
    this.#rows.push({ id, status: pet.status, text });
    return { kind: 'added', pet: text };
  }

  async list({ limit, status, after }: PageQuery): Promise<Page> {
    this.#check();
    const rows = this.#rows.filter(
      (row) => (status === undefined || row.status === status) && (after === undefined || row.id > after),
    );
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return {
      pets: Buffer.from(`[${page.map(({ text }) => text).join(',')}]`),
      ...(last && rows.length > limit && { next: last.id }),
    };
  }

  async get(id: bigint): Promise<string | undefined> {
    this.#check();
    return this.#rows.find((row) => row.id === id)?.text;
  }

  async orders(): Promise<readonly OrderJson[]> {
    this.#check();
    return this.#orders;
  }

  async size(): Promise<number> {
    this.#check();
    return this.#rows.length;
  }

  async isEmpty(): Promise<boolean> {
    this.#check();
    return this.#nextId === 1n && this.#rows.length + this.#orders.length === 0;
  }

  async seed({ pets, orders }: Seed): Promise<void> {
    if (!(await this.isEmpty())) {
      throw new StoreNotEmptyError('the store is not empty', 'seed another');
    }
    const rows = pets.map((pet) => ({ id: pet.id, status: pet.status, text: petJson(pet) }));
    rows.sort((a, b) => (a.id < b.id ? -1 : 1));
    if (new Set(rows.map(({ id }) => id)).size < rows.length)
      throw new StoreError('an id twice', 'use it once');
    this.#rows = rows;
    this.#orders = orders.map((order) => stringifyJson(order));
    const last = rows.at(-1)?.id ?? 0n;
    this.#nextId = last < 0n ? 1n : last + 1n;
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #check(): void {
    if (this.#closed) throw new StoreError('the store is closed', 'open it again');
  }
}
