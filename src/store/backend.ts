import type { Clock, SteadyClock } from '../contract/clock.ts';
import type { PlanName, Quota } from '../contract/plans.ts';
import type { PetStatus } from '../contract/schemas.ts';
import type { KeyManager, StoredBans, StoredKey } from './keys/keys.ts';
import type { BanCounts, BanRule, Limiter } from './limits/limiter.ts';
import type { OrderJson, PetJson, Seed, Store, StoreReport } from './store.ts';

/**
 * A place that can keep a store: a directory, or a database (docs/serve.md, docs/postgres.md). Nothing is opened until a
 * method is called. Each method opens what it needs, and closes it before it resolves.
 */
export interface StoreLocation {
  /** The directory, or the URL of the database without its password. */
  readonly place: string;
  /** Whether several servers can use the store at a time. Such a store gets no API key without a user's command. */
  readonly isShared: boolean;
  /**
   * Begins to open the store for a server, and creates nothing. Locks a store that exists in a directory. Opens a store that
   * exists in a database, so that a server that replaces another one is ready as soon as it listens.
   *
   * @throws StoreError if another server has locked the directory, StoreUnavailableError if the place cannot be reached
   * for now, or the reason of `options.signal`
   */
  claim(options: BackendOptions): Promise<StoreClaim>;
  /**
   * Reads or changes the API keys, also while servers use the store. `storeId` reads the id of the store.
   *
   * @throws StoreMissingError if there is no store, or another StoreError
   */
  manageKeys<Result>(
    task: (keys: KeyManager, storeId: () => Promise<string>) => Promise<Result>,
  ): Promise<Result>;
  /** Reads and verifies everything in the store. @throws StoreError, for example if it is damaged */
  check(): Promise<StoreReport>;
  /**
   * Reads everything at one point in time, also while servers use the store. The contents can be used until the task ends.
   * They are verified as by `check`.
   *
   * @throws StoreError, or the reason of `signal`
   */
  read<Result>(task: (contents: StoreContents) => Promise<Result>, signal?: AbortSignal): Promise<Result>;
  /**
   * Makes a store with these contents. The place must be empty. After an error, the place is as before; only after a
   * StoreUnavailableError with the outcome `unknown`, it may be the complete store.
   *
   * @param verify receives what was written, before it becomes a store. If it rejects, there will be no store
   * @throws StoreError, or the reason of `signal`
   */
  write(
    contents: StoreContents,
    verify: (written: StoreContents) => Promise<void>,
    signal?: AbortSignal,
  ): Promise<void>;
  /**
   * Creates the schema of a database if there is none, as `open` does.
   *
   * @returns whether the schema was created; undefined if the store needs none
   * @throws StoreError
   */
  migrate(): Promise<boolean | undefined>;
  /**
   * The SQL that creates what `migrate` would create, and grants the current user what a server needs. Empty if the store
   * exists.
   *
   * @returns undefined if the store needs no schema
   * @throws StoreError
   */
  pendingSql(): Promise<string | undefined>;
}

/** A place in which a server is about to open the store, or to create it. */
export interface StoreClaim {
  /**
   * Opens the store, or creates it. The lock of the claim then belongs to the backend.
   *
   * @param url the server's URL. Another server that tries to lock the same directory reports it
   * @throws StoreUnavailableError if the place cannot be reached for now, StoreError, or the reason of `signal`
   */
  open(url?: string): Promise<Backend>;
  /** Unlocks the directory, or closes the connections. Has no effect after `open`, which does this itself if it fails. */
  release(): Promise<void>;
}

/** What a location needs to know about the process and its user. */
export type LocationContext = {
  clock: Clock;
  env: Readonly<Record<string, string | undefined>>;
  /** The name of the user of the operating system; undefined if the user has none, as in some containers. */
  userName: string | undefined;
  random(): number;
  /** Replaces the clock of a database in tests. */
  testTime?: () => number;
};

export type BackendOptions = {
  clock: SteadyClock;
  /** If aborted while the store is being claimed or opened, this ends as soon as possible. */
  signal?: AbortSignal | undefined;
  bans: BanRule;
  onWarning(message: string): void;
  /** Called once if the store can no longer be read: the server must be stopped. */
  onFailure(error: Error): void;
  /** Resolves after this time, or earlier if the server stops. */
  sleep(milliseconds: number): Promise<void>;
  /** Called after each fsync with its duration in milliseconds. */
  onSync?: ((milliseconds: number) => void) | undefined;
  /** Called after each call of a database with its name and its duration in milliseconds. */
  onCall?: ((name: string, milliseconds: number) => void) | undefined;
};

/** The connections to a database, and how many were opened because another one was lost. */
export type DatabaseMetrics = {
  connections: { busy: number; idle: number; opening: number };
  reconnects: number;
};

/** A store that a server has opened. */
export interface Backend {
  readonly store: Store;
  readonly keys: KeyDirectory;
  /** Counts the requests of API keys. */
  readonly limiter: Limiter;
  /**
   * Replaces all animals and orders with a seed, after which ids start again. Forgets idempotency keys, windows and bans; API
   * keys stay. The inventory is replaced completely or not at all, also if the process is killed. Each creation that runs
   * meanwhile precedes the reset or follows it.
   *
   * @throws StoreError if the seed is not valid, StoreUnwritableError if the store cannot write for now,
   * StoreUnavailableError, StoreFailedError
   */
  reset(seed: Seed): Promise<void>;
  /** How many bans there are, for metrics. */
  banCounts(): Promise<BanCounts>;
  /** The connections now, for metrics. Only of a store in a database. */
  databaseMetrics?(): DatabaseMetrics;
  /** Completes pending writes, and closes the store. */
  close(): Promise<void>;
}

/** The properties of an API key that a server needs. */
export type KnownKey = Pick<StoredKey, 'name' | 'plan' | 'sha256'> & { quota: Quota };

/** The API keys that a server accepts: a new key within a tenth of a second, and a revoked key for less than a second. */
export interface KeyDirectory {
  /**
   * Finds a key by its SHA-256 in hexadecimal.
   *
   * @throws StoreUnavailableError if it is not known whether the key is valid
   */
  find(sha256: string): KnownKey | undefined | Promise<KnownKey | undefined>;
  /** All keys that are valid now, sorted by name, also one that has just been added. @throws StoreUnavailableError */
  list(): Promise<KnownKey[]>;
  /**
   * Adds a key that exists only in this process. By default, generates the key. Its name, such as `(fixed)`, should be one
   * that a stored key cannot have.
   *
   * @returns the key
   */
  addTemporary(name: string, plan: PlanName, key?: string): string;
}

/** An animal with everything that a copy must keep. */
export type StoredAnimal = {
  id: bigint;
  status: PetStatus;
  text: PetJson;
  /** The idempotency key with which the animal was created; undefined if there is none, or if it has expired. */
  idempotency?: StoredIdempotencyKey | undefined;
};

/** `fingerprint` is that of `fingerprintOf`. `at` is when the animal was created, in milliseconds since 1970. */
type StoredIdempotencyKey = { fingerprint: string; at: number };

/** Everything that a store keeps, at one point in time. */
export type StoreContents = {
  report: StoreReport;
  /** Salts the fingerprints of idempotency keys, in hexadecimal. */
  secret: string;
  /** When the store was created, in ISO 8601. */
  created: string;
  /** The id of the next animal. It is higher than those of all animals, also of those that were lost. */
  nextId: bigint;
  orders: readonly OrderJson[];
  keys: readonly StoredKey[];
  bans: StoredBans;
  /** The time in milliseconds since 1970 by which it was decided which idempotency keys have expired. */
  readAt: number;
  /** Reads the animals in ascending order of id. @throws StoreError */
  animals(): AsyncIterable<readonly StoredAnimal[]>;
};

/** The maximum number of animals that are read at a time. */
export const MAX_READ_ANIMALS = 1000;
/** After this many bytes of texts, no more animals are read at a time. */
export const MAX_READ_BYTES = 2 ** 20;
