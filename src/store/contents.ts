import type { PetStatus } from '../contract/schemas.ts';
import type { StoredKey } from './keys/keys.ts';
import type { OrderJson, PetJson, StoreReport } from './store.ts';

/** An animal with everything that a copy must keep. */
export type StoredAnimal = {
  id: bigint;
  status: PetStatus;
  text: PetJson;
  /** The idempotency key with which the animal was created; undefined if there is none, or if it has expired. */
  idempotency?: StoredIdempotencyKey | undefined;
};

/** `fingerprint` is that of `fingerprintOf`. `at` is when the animal was created, in milliseconds since 1970. */
export type StoredIdempotencyKey = { fingerprint: string; at: number };

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
  /** The end of each ban, in milliseconds since 1970, by the SHA-256 of the API key in hexadecimal. */
  bans: ReadonlyMap<string, number>;
  /** The time in milliseconds since 1970 by which it was decided which idempotency keys have expired. */
  readAt: number;
  /** Reads the animals in ascending order of id. @throws StoreError */
  animals(): AsyncIterable<readonly StoredAnimal[]>;
};

/** The maximum number of animals that are read at a time. */
export const MAX_READ_ANIMALS = 1000;
/** After this many bytes of texts, no more animals are read at a time. */
export const MAX_READ_BYTES = 2 ** 20;
