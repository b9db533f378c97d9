import type { NewPet, Pet, PetStatus } from '../contract/schemas.ts';

/** One animal, or one order, as JSON text: what was acknowledged is what is served, digit for digit. */
export type PetJson = string;
export type OrderJson = string;

/** Makes a creation safe to repeat (design D10): the same key with the same body, within 24 hours, adds nothing. */
export type Idempotency = {
  /** Whose key it is: idempotency keys of two API keys never meet. */
  scope: string;
  key: string;
  /** SHA-256 of the request's body, hexadecimal. */
  bodyHash: string;
};

export type Addition = { pet: NewPet & { status: PetStatus }; idempotency?: Idempotency };

export type AddOutcome =
  | { kind: 'added' | 'replayed'; pet: PetJson }
  /** The key was used with another body. */
  | { kind: 'mismatch' }
  /** The first request with this key is not answered yet. */
  | { kind: 'in_flight' };

/** `after` is the id that the page follows; animals come in ascending id. */
export type PageQuery = { limit: number; status?: PetStatus | undefined; after?: bigint | undefined };

/**
 * `pets` is a JSON array in UTF-8: it goes out byte for byte as it was kept. `next` is the last id of the page where
 * more animals follow it: such a page is final, as ids ascend in the order of acceptance and no animal ever changes.
 */
export type Page = { pets: Buffer; next?: bigint };

export type Seed = { pets: readonly (Addition['pet'] & Pick<Pet, 'id'>)[]; orders: readonly unknown[] };

/**
 * The inventory. Every method answers from what is durable: an animal is seen only once it cannot be lost.
 * Several processes may share one, so a caller keeps nothing of it in memory but final pages.
 *
 * @throws StoreFailedError from every method but close() once a write failed: nothing more is accepted
 */
export interface Store {
  /** Made with the store, and never changed. */
  readonly id: string;
  /** A secret of this store, 32 random bytes in hexadecimal: signs its cursors. */
  readonly secret: string;
  /** Assigns the next id, in order of acceptance, and answers once the animal is durable. */
  add(addition: Addition): Promise<AddOutcome>;
  list(query: PageQuery): Promise<Page>;
  get(id: bigint): Promise<PetJson | undefined>;
  orders(): Promise<readonly OrderJson[]>;
  /** The number of animals. */
  size(): Promise<number>;
  /** Whether nothing was ever added: only then can it be seeded. */
  isEmpty(): Promise<boolean>;
  /**
   * Fills an empty store, all or nothing, and keeps the ids.
   *
   * @throws StoreNotEmptyError
   */
  seed(seed: Seed): Promise<void>;
  /** Finishes what is being written; then refuses everything. */
  close(): Promise<void>;
}
