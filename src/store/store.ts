import { hash } from 'node:crypto';
import { stringifyJson } from '../contract/json.ts';
import { type NewPet, type Pet, type PetStatus, petJson } from '../contract/schemas.ts';

/** An animal or an order as JSON text. Responses contain the text byte for byte. */
export type PetJson = string;
export type OrderJson = string;

/** Makes a creation safe to repeat: for 24 hours, the same key and body add no second animal (docs/service.md, D10). */
export type IdempotentCall = {
  /** The SHA-256 of the API key with which the request was sent. Idempotency keys of different API keys are independent. */
  scope: string;
  key: string;
  /** SHA-256 of the animal in the request body, in hexadecimal. */
  bodyHash: string;
};

export type CreateRequest = { pet: NewPet & { status: PetStatus }; idempotency?: IdempotentCall };

export type CreateResult =
  /** `replayed`: `pet` is the response to the first request with this idempotency key. */
  | { kind: 'added' | 'replayed'; pet: PetJson }
  /** The idempotency key was used with another body. */
  | { kind: 'mismatch' }
  /** The first request with this idempotency key is not complete. */
  | { kind: 'in_flight' };

/** The first `limit` animals with this status and with ids above `after`, in ascending order of id. */
export type PageQuery = { limit: number; status?: PetStatus | undefined; after?: bigint | undefined };

/**
 * `pets` contains the JSON texts of the animals in UTF-8, separated by commas. The buffer can be a view of the store's
 * memory, so it must not be changed. `next` is the id of the last animal on the page; undefined if no more
 * animals follow. A page of long animals can have fewer animals than its limit.
 */
export type Page = { pets: Buffer; next?: bigint };

/** The ids are positive int64s in ascending order. */
export type Seed = { pets: readonly (CreateRequest['pet'] & Pick<Pet, 'id'>)[]; orders: readonly unknown[] };

/**
 * The inventory. Reads return only durable data, with one exception: if the disk is full at the start, the last record
 * of a journal may not be durable until the disk accepts writes again. Several processes may share a store, so callers
 * must not cache data. Reads continue while the disk is full.
 *
 * @throws StoreFailedError from every method except `close`, after a write to the journal has failed although the disk
 * was not full or read-only, or another program has moved, replaced, deleted or changed the journal
 * @throws StoreUnavailableError from every method except `close` if a database cannot be used for now
 */
export interface Store {
  /** Never changes. A copy of the store has the same id. */
  readonly id: string;
  /**
   * Adds an animal with the next id. The animal is durable when the promise resolves.
   *
   * @throws StoreError if the animal is too large, StoreUnwritableError if the store cannot write: it was not added
   * @throws StoreFailedError if a write has failed, so that the animal may have been added
   * @throws StoreUnavailableError whose `outcome` says whether the animal may have been added
   */
  add(request: CreateRequest): Promise<CreateResult>;
  /** Returns a promise only if the store must first read a database. */
  list(query: PageQuery): Page | Promise<Page>;
  get(id: bigint): Promise<PetJson | undefined>;
  orders(): Promise<readonly OrderJson[]>;
  size(): Promise<number>;
  /**
   * Adds the seed if the store contains nothing and has not issued an id, and returns whether it did. The animals keep
   * their ids. A failure never leaves only a part of the seed. @throws StoreUnwritableError; StoreError for an invalid seed
   */
  seed(seed: Seed): Promise<boolean>;
  /**
   * Checks whether the store can write, and makes it writable again if that is possible now.
   *
   * @throws StoreUnwritableError, StoreFailedError
   */
  checkWritable(): Promise<void>;
  /** Completes pending writes. Afterwards, the other methods cannot be used: they throw or reject with a StoreError. */
  close(): Promise<void>;
}

/** Converts the animals and orders of a seed to the JSON texts that a store keeps. */
export const encodeSeed = ({ pets, orders }: Seed) => ({
  animals: pets.map((pet) => ({ id: pet.id, status: pet.status, text: petJson(pet) })),
  orders: orders.map((order) => stringifyJson(order)),
});

/** The state of a store, as `pets store check` reports it. */
export type StoreReport = {
  id: string;
  animals: number;
  orders: number;
  keys: number;
  /** The last id that was issued, or may have been issued to an animal in a torn end; undefined if there is none. */
  lastId: bigint | undefined;
  /** The number of records in a journal; undefined for a database. */
  sequence: number | undefined;
  /** Invalid bytes at the end of a journal, which the next server will move to a backup file; undefined if none. */
  tornEnd: TornEnd | undefined;
};

/** The bytes after the last valid record of a journal: where they start, and how many they are. */
export type TornEnd = { start: number; bytes: number };

/**
 * Identifies a request with an idempotency key: 32 hexadecimal digits of the salted SHA-256 of scope and key, and 32 of
 * the SHA-256 of the body.
 */
export type Fingerprint = { key: string; body: string };

/** The secret `salt` keeps clients from choosing two keys with the same digits. */
export function fingerprintOf({ scope, key, bodyHash }: IdempotentCall, salt: string): Fingerprint {
  // The length separates scopes of different lengths from the key. UTF-16 keeps unpaired surrogates distinct.
  const name = Buffer.from(`${salt}${scope.length}:${scope}${key}`, 'utf16le');
  return { key: hash('sha256', name).slice(0, 32), body: bodyHash.slice(0, 32) };
}
