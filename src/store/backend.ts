import type { PetStatus } from '../contract/schemas.ts';
import type { Clock, SteadyClock } from '../system/clock.ts';
import type { AcceptedKeys, KeyManager, StoredBans, StoredKey } from './keys.ts';
import type { BanCounts, BanRule, Limiter } from './limiter.ts';
import type { Fingerprint, OrderJson, PetJson, Seed, Store, StoreReport } from './store.ts';

/**
 * A directory or a database that contains a store, or can contain one (docs/serve.md, docs/postgres.md). Nothing is
 * opened until a method is called.
 */
export interface StoreLocation {
  /** The directory, or the URL of the database without its password. */
  readonly place: string;
  /** Whether several servers can use the store at a time. `pets serve` creates no API key in such a store. */
  readonly isShared: boolean;
  /**
   * Opens the store for a server, or creates it. Locks a directory, so that only one server uses it.
   *
   * @throws StoreError, for example if another server has locked the directory, StoreUnavailableError if the database
   * cannot be reached for now, or the reason of `options.signal`. After an error, nothing stays open
   */
  open(options: OpenOptions): Promise<Backend>;
  /**
   * Runs a task that reads or changes the API keys, even while servers use the store. `storeId` returns the store's id.
   *
   * @throws StoreError, with the code `missing` if there is no store, or in a directory the errors of the task
   */
  manageKeys<Result>(
    task: (keys: KeyManager, storeId: () => Promise<string>) => Promise<Result>,
  ): Promise<Result>;
  /** Reads and verifies everything in the store, even while servers use it. @throws StoreError, for example on damage */
  check(): Promise<StoreReport>;
  /**
   * Passes everything in the store to a task, and verifies what the task reads. Locks a directory until the task has
   * ended. Reads a database as it is at one point in time. The contents must not be used after the task has ended.
   *
   * @throws StoreError, for example if a server uses the directory, the errors of the task, or the reason of `signal`
   */
  read<Result>(task: (contents: StoreContents) => Promise<Result>, signal?: AbortSignal): Promise<Result>;
  /**
   * Creates a store with these contents. Needs an empty or new directory, or a database with no store, or with an empty
   * one. After an error, what was written is removed, but new directories stay. Only after a StoreUnavailableError with
   * the outcome `unknown`, the location may contain the complete store.
   *
   * @param accept receives what was written, before the location becomes a store. If it throws, no store is created
   * @throws StoreError, to which errors of `contents` and `accept` are converted, or the reason of `signal`
   */
  write(contents: StoreContents, accept: (written: StoreReport) => void, signal?: AbortSignal): Promise<void>;
}

/** What a location needs to know about the process and its user. */
export type LocationContext = {
  clock: Clock;
  env: Readonly<Record<string, string | undefined>>;
  /** The name of the user of the operating system; undefined if the user has none, as in some containers. */
  userName: string | undefined;
  /** Returns the time that replaces the clock of a database in tests, in milliseconds since the epoch. */
  testTime?: () => number;
};

export type OpenOptions = {
  clock: SteadyClock;
  /** The server's URL. Another process reports it if that process tries to lock the same directory. */
  url?: string | undefined;
  /** If aborted, `open` fails early, or succeeds if only its last steps remain. */
  signal?: AbortSignal | undefined;
  bans: BanRule;
  onWarning(message: string): void;
  /** Called once if the store has failed for good: the server must be stopped. */
  onFailure(error: Error): void;
  /** Resolves after this time, or earlier if the server stops. */
  sleep(milliseconds: number): Promise<void>;
  /** Called after each append to the journal with the time until it was synced or has failed, in milliseconds. */
  onSync?: ((milliseconds: number) => void) | undefined;
  /** Called after each successful call with a time limit (`Pool.call`), with its name and its duration in milliseconds. */
  onCall?: ((name: string, milliseconds: number) => void) | undefined;
};

/** How many connections to a database are in each state. */
export type DatabaseConnections = { busy: number; idle: number; opening: number };

/** A store that a server has opened. */
export interface Backend {
  readonly store: Store;
  readonly keys: AcceptedKeys;
  /** Counts the requests of API keys. */
  readonly limiter: Limiter;
  /**
   * Replaces all animals and orders with a seed, and restarts the ids. Forgets idempotency keys, rate-limit windows and
   * bans, but keeps the API keys. The inventory is replaced completely or not at all, even if the process is killed. A
   * creation that runs at the same time is completed before the reset or begins after it.
   *
   * @throws StoreError if the seed is not valid or the store is closed, StoreUnwritableError if the store cannot write
   * for now, StoreUnavailableError, StoreFailedError
   */
  reset(seed: Seed): Promise<void>;
  /** How many bans have begun, and how many are active, for metrics. */
  banCounts(): Promise<BanCounts>;
  /** The connections to the database, for metrics. Missing if the store is not in a database. */
  databaseConnections?(): DatabaseConnections;
  /** Completes pending writes, and closes the store. */
  close(): Promise<void>;
}

/** An animal with everything that a copy must keep. */
export type StoredAnimal = {
  id: bigint;
  status: PetStatus;
  text: PetJson;
  /** The idempotency key with which the animal was created; undefined if there is none, or if it has expired. */
  idempotency?: StoredIdempotencyKey | undefined;
};

/** `at`: when the animal with this key was added, in milliseconds since the epoch. */
export type StoredIdempotencyKey = Fingerprint & { at: number };

/** Everything in a store except the counts of requests, at one point in time. */
export type StoreContents = {
  report: StoreReport;
  /** The secret that salts the fingerprints of idempotency keys, in hexadecimal. */
  secret: string;
  /** The id of the next animal. It is higher than all ids in the store, and than those that a torn end may have had. */
  nextId: bigint;
  orders: readonly OrderJson[];
  keys: readonly StoredKey[];
  bans: StoredBans;
  /** Idempotency keys that had expired at this time, in milliseconds since the epoch, are left out. */
  readAt: number;
  /** Reads the animals in ascending order of id. @throws StoreError, or an error of the database driver */
  animals(): AsyncIterable<readonly StoredAnimal[]>;
};

/** The maximum number of animals in a batch that is read from a store. */
export const MAX_READ_ANIMALS = 1000;
/** A batch that has reached about this size, in bytes of JSON text, gets no more animals. */
export const READ_BATCH_BYTES = 2 ** 20;
