import type { Quota } from '../../contract/api.ts';
import { INT64_MAX } from '../../contract/json.ts';
import { type PetStatus, petJsonAfterId } from '../../contract/schemas.ts';
import { BatchQueue } from '../batch-queue.ts';
import { noIdsLeftError, StoreUnwritableError } from '../errors.ts';
import {
  type BanRule,
  type Limiter,
  nextDecision,
  type RateLimitDecision,
  subtractRequests,
  type Usage,
} from '../limiter.ts';
import {
  type CreateRequest,
  type CreateResult,
  encodeSeed,
  fingerprintOf,
  type OrderJson,
  type Page,
  type PageQuery,
  type PetJson,
  type Seed,
  type Store,
} from '../store.ts';
import { textWithId } from '../stored-text.ts';
import type { DatabaseForServer, StoreIdentity } from './database.ts';
import { sqlStateOf } from './failures.ts';

/** The number of each status in the database. `STATUSES` needs them in ascending order from 0, without gaps. */
export const STATUS_NUMBERS: Readonly<Record<PetStatus, number>> = { available: 0, pending: 1, sold: 2 };

export const STATUSES = Object.keys(STATUS_NUMBERS) as readonly PetStatus[];

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

/** A page to read: the number of its status or null for all, the lowest id that it may have, and its limit. */
type PageRequest = { status: number | null; first: bigint; limit: number };
type PageRow = { n: number; animals: string; next_id: string | null };

/** The maximum number of pages in one call, which returns them together. Each can have 1 MiB. */
const MAX_PAGES = 16;

/** The SQLSTATE of an id that is not an int64. */
const OUT_OF_RANGE = '22003';

/** The inventory in a database, which several servers can use at a time. */
export class PostgresStore implements Store {
  readonly id: string;
  #database: DatabaseForServer;
  #secret: string;
  #creations: BatchQueue<NewAnimal, CreateResult>;
  #pages: BatchQueue<PageRequest, PageRow>;
  /** For each creation with an idempotency key that is running on this server: the first half of its fingerprint. */
  #inFlight = new Set<string>();
  /** Whether the disk was full at a creation, and no check has succeeded since then. */
  #wasFull = false;

  constructor(database: DatabaseForServer, { id, secret }: StoreIdentity) {
    this.id = id;
    this.#database = database;
    this.#secret = secret;
    this.#creations = new BatchQueue({ run: (animals) => this.#create(animals) });
    this.#pages = new BatchQueue({
      run: (requests) => this.#readPages(requests),
      parallel: 2,
      maxNextItems: () => MAX_PAGES,
    });
  }

  async add({ pet, idempotency }: CreateRequest): Promise<CreateResult> {
    const animal = { status: STATUS_NUMBERS[pet.status], rest: petJsonAfterId(pet) };
    if (!idempotency) return this.#creations.add(animal);
    const { key, body } = fingerprintOf(idempotency, this.#secret);
    if (this.#inFlight.has(key)) return { kind: 'in_flight' };
    this.#inFlight.add(key);
    try {
      const halves = { key: Buffer.from(key, 'hex'), body: Buffer.from(body, 'hex') };
      return await this.#creations.add({ ...animal, ...halves });
    } finally {
      this.#inFlight.delete(key);
    }
  }

  async list({ limit, status, after }: PageQuery): Promise<Page> {
    if (after === INT64_MAX) return { pets: Buffer.alloc(0) };
    const { animals, next_id } = await this.#pages.add({
      status: status === undefined ? null : STATUS_NUMBERS[status],
      first: (after ?? 0n) + 1n,
      limit,
    });
    const pets = Buffer.from(animals);
    return next_id ? { pets, next: BigInt(next_id) } : { pets };
  }

  /** Reads a page with one animal, the first one from this id on, and checks its id. */
  async get(id: bigint): Promise<PetJson | undefined> {
    const { animals } = await this.#pages.add({ status: null, first: id, limit: 1 });
    return animals.startsWith(textWithId(id, ',')) ? animals : undefined;
  }

  async orders(): Promise<readonly OrderJson[]> {
    const rows = await this.#database.call<{ result: string }>('list_orders');
    return rows.map(({ result }) => result);
  }

  async size(): Promise<number> {
    const [row] = await this.#database.callWithoutLimit<{ result: string }>('count_animals');
    return Number(row?.result);
  }

  async seed(seed: Seed): Promise<boolean> {
    const [row] = await this.#database.callWithoutLimit<{ result: boolean }>('seed', ...seedArguments(seed));
    return row?.result === true;
  }

  /** Replaces all animals and orders with a seed. Creations of any server are completed before this, or follow it. */
  async reset(seed: Seed): Promise<void> {
    await this.#database.callWithoutLimit('reset', ...seedArguments(seed));
  }

  async checkWritable(): Promise<void> {
    await this.#database.call('check_writable', this.#wasFull);
    this.#wasFull = false;
  }

  async close(): Promise<void> {
    await Promise.all([this.#creations.close(), this.#pages.close()]);
    await this.#database.close();
  }

  async #create(animals: readonly NewAnimal[]): Promise<CreateResult[]> {
    const values = [
      animals.map(({ status }) => status),
      animals.map(({ rest }) => rest),
      animals.map(({ key }) => key ?? null),
      animals.map(({ body }) => body ?? null),
      this.#database.testTime(),
    ];
    const rows = await this.#database.call<CreateRow>('create_animals', ...values).catch((error) => {
      this.#wasFull ||= error instanceof StoreUnwritableError;
      throw sqlStateOf(error) === OUT_OF_RANGE ? noIdsLeftError() : error;
    });
    const results: CreateResult[] = [];
    for (const { n, kind, id, response } of rows) {
      if (kind === 'mismatch') results[n - 1] = { kind };
      else results[n - 1] = { kind, pet: response ?? textWithId(id ?? '', animals[n - 1]?.rest ?? '') };
    }
    return results;
  }

  async #readPages(requests: readonly PageRequest[]): Promise<PageRow[]> {
    const rows = await this.#database.call<PageRow>(
      'read_pages',
      requests.map(({ status }) => status),
      requests.map(({ first }) => first),
      requests.map(({ limit }) => limit),
    );
    const pages: PageRow[] = [];
    for (const row of rows) pages[row.n - 1] = row;
    return pages;
  }
}

/** The arguments of the SQL functions `seed` and `reset`. */
function seedArguments(seed: Seed): unknown[] {
  const { animals, orders } = encodeSeed(seed);
  return [
    animals.map(({ id }) => id),
    animals.map(({ status }) => STATUS_NUMBERS[status]),
    animals.map(({ text }) => text),
    orders,
  ];
}

/** Requests of a caller to count; with `count` 0, the counts are only read. */
type Take = { caller: string; quota: Quota; count: number };

/** What `pets.take` has decided about the requests of a caller. The driver returns columns of type `bigint` as text. */
type TakeRow = {
  n: number;
  granted: number;
  refused: number;
  begins_ban: boolean;
  minute_end: string;
  minute_used: string;
  day_end: string;
  day_used: string;
  banned_until: string;
  now: string;
};

/**
 * Counts requests in the database, many in one call (`BatchQueue`). The function `pets.take` (limits.sql) decides how
 * many requests of each caller are granted and refused, and which one begins a ban.
 */
export class PostgresLimiter implements Limiter {
  #database: DatabaseForServer;
  #rule: BanRule;
  #queue: BatchQueue<Take, RateLimitDecision>;
  /** How many bans this server has begun. */
  begun = 0;

  constructor(database: DatabaseForServer, rule: BanRule) {
    this.#database = database;
    this.#rule = rule;
    this.#queue = new BatchQueue({ run: (takes) => this.#run(takes) });
  }

  take(caller: string, quota: Quota): Promise<RateLimitDecision> {
    return this.#queue.add({ caller, quota, count: 1 });
  }

  peek(caller: string, quota: Quota): Promise<RateLimitDecision> {
    return this.#queue.add({ caller, quota, count: 0 });
  }

  async usage(callers: readonly string[]): Promise<Usage[]> {
    // A quota has no effect on counts that are only read.
    const quota = { perMinute: 0, perDay: 0 };
    const rows = await this.#take(callers.map((caller) => ({ caller, quota, count: 0 })));
    return rows.map((row) => {
      const until = Number(row.banned_until);
      return { ...windowsOf(row), bannedUntil: until > Number(row.now) ? until : undefined };
    });
  }

  async liftBan(caller: string): Promise<void> {
    await this.#database.call('lift_ban', Buffer.from(caller, 'hex'));
  }

  close(): Promise<void> {
    return this.#queue.close();
  }

  async #run(takes: readonly Take[]): Promise<RateLimitDecision[]> {
    const sums = new Map<string, Take>();
    for (const take of takes) {
      const count = take.count + (sums.get(take.caller)?.count ?? 0);
      sums.set(take.caller, { ...take, count });
    }
    const rows = await this.#take([...sums.values()]);
    const states = new Map(
      [...sums.keys()].map((caller, i) => [caller, { row: rows[i] as TakeRow, earlier: 0 }]),
    );
    return takes.map((take) => {
      const state = states.get(take.caller) as { row: TakeRow; earlier: number };
      const decision = decideOne(state.row, take, state.earlier);
      state.earlier += take.count;
      return decision;
    });
  }

  /** Counts the requests of callers, each of whom occurs once. Returns what was decided, in the same order. */
  async #take(takes: readonly Take[]): Promise<TakeRow[]> {
    const rows = await this.#database.call<TakeRow>(
      'take',
      takes.map(({ caller }) => Buffer.from(caller, 'hex')),
      takes.map(({ count }) => count),
      takes.map(({ quota }) => quota.perMinute),
      takes.map(({ quota }) => quota.perDay),
      this.#rule.after,
      this.#rule.milliseconds,
      this.#database.testTime(),
    );
    for (const { begins_ban } of rows) if (begins_ban) this.begun += 1;
    return rows.sort((one, other) => one.n - other.n);
  }
}

/** The decision about a request, after `earlier` requests of the same caller in the same call. */
function decideOne(row: TakeRow, { quota, count }: Take, earlier: number): RateLimitDecision {
  const { granted, refused } = row;
  const [now, until] = [Number(row.now), Number(row.banned_until)];
  const { minute, day } = windowsOf(row);
  // The row counts all requests of the call. Subtract those that are not earlier than this one.
  const notEarlier = Math.max(0, granted - earlier);
  minute.used -= notEarlier;
  day.used -= notEarlier;
  const isBanned = until > now && earlier >= granted + refused;
  const decision = nextDecision({ minute, day }, quota, isBanned ? until : undefined, now);
  if (decision.retryAt === undefined) subtractRequests(decision, count);
  return decision;
}

const windowsOf = (row: TakeRow) => ({
  minute: { endsAt: Number(row.minute_end), used: Number(row.minute_used) },
  day: { endsAt: Number(row.day_end), used: Number(row.day_used) },
});
