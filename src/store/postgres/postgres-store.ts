import type { SteadyClock } from '../../contract/clock.ts';
import { INT64_MAX, INT64_MIN } from '../../contract/int64.ts';
import { petJson } from '../../contract/schemas.ts';
import { noIdsLeftError, StoreError } from '../errors.ts';
import { fingerprintOf } from '../index/idempotency-index.ts';
import { notEmptyError, type SeedTexts, seedTexts } from '../seed.ts';
import type { CreatePet, CreateResult, OrderJson, Page, PageQuery, PetJson, Seed, Store } from '../store.ts';
import { BatchQueue } from './calls/batch-queue.ts';
import { sqlStateOf } from './calls/failures.ts';
import type { Query, Statement } from './calls/session.ts';
import { IdempotencyExpiry } from './idempotency-expiry.ts';
import type { StoreIdentity } from './schema/migrate.ts';
import { STATUS_NUMBERS } from './status-numbers.ts';

export type PostgresStoreOptions = {
  identity: StoreIdentity;
  /** The URL of the database without its password. */
  place: string;
  clock: SteadyClock;
  /** Sends creations on a connection of their own. */
  createQuery: Query;
  /** Sends all other statements. */
  query: Query;
  /** Adds the seed in one transaction, without the time limit of other calls. Returns false if the store is not empty. */
  addSeed(seed: SeedTexts): Promise<boolean>;
  /** Replaces everything by the seed in one transaction, without the time limit of other calls. */
  resetTo(seed: SeedTexts): Promise<void>;
  /** Counts all animals, without the time limit of other calls. Takes about a quarter of a second for each million. */
  countAnimals(): Promise<number>;
  /** Replaces the clock of the database in tests. */
  testTime(): number | null;
};

/**
 * An animal to add. `rest` is its JSON text after the id. `key` and `body` are the halves of the fingerprint of its
 * idempotency key.
 */
type NewAnimal = { status: number; rest: string; key?: Buffer | undefined; body?: Buffer | undefined };

/** `id` is set if the animal was added, and `response` if it was replayed. */
type CreateRow = {
  n: number;
  kind: 'added' | 'replayed' | 'mismatch';
  id: string | null;
  response: string | null;
};

const CREATE: Statement = { name: 'create', text: 'select * from pets.create_v1($1, $2, $3, $4, $5)' };
const PAGE: Statement = { name: 'page', text: 'select animals, next from pets.page_v1($1, $2, $3)' };
const GET: Statement = { name: 'get', text: 'select pets.get_v1($1) as body' };
const ORDERS: Statement = { name: 'orders', text: 'select * from pets.orders_v1() as body' };
const IS_EMPTY: Statement = { name: 'is_empty', text: 'select pets.is_empty_v1() as empty' };
/** Reads no key, but fails if the keys cannot be read. */
const READ_KEY: Statement = { name: 'read_key', text: 'select from pets.keys limit 0' };

/** A check whether the database can be written uses the result of an earlier check that began less than this time ago. */
const CHECK_MS = 1_000;

/** The SQLSTATE of an id that is not an int64. */
const OUT_OF_RANGE = '22003';

const EMPTY = Buffer.alloc(0);
const ID_START = '{"id":0';

/** The inventory in a database, which several servers can use at a time. */
export class PostgresStore implements Store {
  readonly id: string;
  #options: PostgresStoreOptions;
  /** Each item is one animal, or none to check only whether animals could be added. */
  #creations: BatchQueue<[NewAnimal] | [], CreateResult | undefined>;
  /** The idempotency keys of creations that are running on this server, by the first half of their fingerprint. */
  #inFlight = new Set<string>();
  #check: { at: number; result: Promise<unknown> } | undefined;
  #expiry: IdempotencyExpiry;
  #isClosed = false;

  constructor(options: PostgresStoreOptions) {
    this.id = options.identity.id;
    this.#options = options;
    this.#expiry = new IdempotencyExpiry(options);
    this.#creations = new BatchQueue({ run: (items) => this.#create(items), place: options.place });
  }

  async add({ pet, idempotency }: CreatePet): Promise<CreateResult> {
    const rest = petJson({ id: 0n, ...pet }).slice(ID_START.length);
    const animal = { status: STATUS_NUMBERS[pet.status], rest };
    this.#expiry.start();
    if (!idempotency) return this.#createLater(animal);
    const { hex } = fingerprintOf(idempotency, this.#options.identity.secret);
    const key = hex.slice(0, 32);
    if (this.#inFlight.has(key)) return { kind: 'in_flight' };
    this.#inFlight.add(key);
    try {
      const body = Buffer.from(hex.slice(32), 'hex');
      return await this.#createLater({ ...animal, key: Buffer.from(key, 'hex'), body });
    } finally {
      this.#inFlight.delete(key);
    }
  }

  /** Adds an animal in the next call. */
  async #createLater(animal: NewAnimal): Promise<CreateResult> {
    const result = await this.#creations.add([animal]).catch((error) => {
      throw sqlStateOf(error) === OUT_OF_RANGE ? noIdsLeftError() : error;
    });
    if (!result) throw new Error('the database returned no result for an animal');
    return result;
  }

  async list({ limit, status, after }: PageQuery): Promise<Page> {
    if (after === INT64_MAX) return { pets: EMPTY };
    const first = after === undefined ? INT64_MIN : after + 1n;
    const values = [status === undefined ? null : STATUS_NUMBERS[status], first, limit];
    const [row] = await this.#query<{ animals: string; next: string | null }>(PAGE, values);
    const pets = Buffer.from(row?.animals ?? '');
    return row?.next ? { pets, next: BigInt(row.next) } : { pets };
  }

  async get(id: bigint): Promise<PetJson | undefined> {
    const [row] = await this.#query<{ body: string | null }>(GET, [id]);
    return row?.body ?? undefined;
  }

  async orders(): Promise<readonly OrderJson[]> {
    const rows = await this.#query<{ body: string }>(ORDERS, []);
    return rows.map(({ body }) => body);
  }

  async size(): Promise<number> {
    this.#throwIfClosed();
    return this.#options.countAnimals();
  }

  async isEmpty(): Promise<boolean> {
    const [row] = await this.#query<{ empty: boolean }>(IS_EMPTY, []);
    return row?.empty ?? true;
  }

  async seed(seed: Seed): Promise<void> {
    this.#throwIfClosed();
    const { addSeed, place } = this.#options;
    if (!(await addSeed(seedTexts(seed)))) throw notEmptyError(place);
  }

  /** Replaces everything by a seed. Creations of other servers are completed before it, or follow it. */
  async reset(seed: Seed): Promise<void> {
    this.#throwIfClosed();
    await this.#options.resetTo(seedTexts(seed));
  }

  async checkWritable(): Promise<void> {
    this.#throwIfClosed();
    const now = this.#options.clock.elapsed();
    if (!this.#check || now - this.#check.at >= CHECK_MS) {
      // A call that adds nothing waits for the same lock as every creation. On a connection of reads, it would delay reads.
      const result = Promise.all([this.#creations.add([]), this.#query(READ_KEY, [])]);
      this.#check = { at: now, result };
    }
    await this.#check.result;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#creations.close(), this.#expiry.close()]);
  }

  async #create(items: ([NewAnimal] | [])[]): Promise<(CreateResult | undefined)[]> {
    const { createQuery, testTime } = this.#options;
    const animals = items.flat();
    const hasKeys = animals.some(({ key }) => key !== undefined);
    const rows = await createQuery<CreateRow>(CREATE, [
      animals.map(({ status }) => status),
      animals.map(({ rest }) => rest),
      hasKeys ? animals.map(({ key }) => key ?? null) : null,
      hasKeys ? animals.map(({ body }) => body ?? null) : null,
      testTime(),
    ]);
    const results: CreateResult[] = [];
    for (const { n, kind, id, response } of rows) {
      if (kind === 'mismatch') results[n - 1] = { kind };
      else results[n - 1] = { kind, pet: response ?? `{"id":${id}${animals[n - 1]?.rest}` };
    }
    let next = 0;
    return items.map(([animal]) => animal && results[next++]);
  }

  #query: Query = (statement, values) => {
    this.#throwIfClosed();
    return this.#options.query(statement, values);
  };

  #throwIfClosed(): void {
    if (this.#isClosed) throw new StoreError('the store is closed', 'open it again');
  }
}
