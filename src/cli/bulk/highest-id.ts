import * as z from 'zod/mini';
import { int64 } from '../../contract/int64.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';

/**
 * Keeps the highest id that a run knows. Ids in the ledger, which earlier runs received, must not be added: other clients
 * may have added animals since then, and these would look as if this run had added them.
 */
export type HighestId = {
  /** Undefined if no id is known, or if one of the ids was not an int64, because then the ids have no order. */
  current(): bigint | undefined;
  add(id: ReceivedPet['id']): void;
};

export function createHighestId(): HighestId {
  let highest: bigint | undefined;
  let isOrdered = true;
  return {
    current: () => (isOrdered ? highest : undefined),
    add(id) {
      isOrdered &&= z.safeParse(int64, id).success;
      if (typeof id === 'bigint' && (highest === undefined || id > highest)) highest = id;
    },
  };
}

/** Stands for the highest id of an inventory without animals, because ids usually start at 1. */
export const BEFORE_FIRST_ID = 0n;
