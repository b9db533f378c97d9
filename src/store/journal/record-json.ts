import * as z from 'zod/mini';
import { int64 } from '../../contract/int64.ts';
import { stringifyJson, tryParseJson } from '../../contract/json.ts';
import { wordsOfHex } from '../index/idempotency-index.ts';
import type { OrderJson } from '../store.ts';
import { StoredPet } from '../stored-json.ts';
import { encodeBatch, type PackedBatch, type PetEntry } from './record-format.ts';

const Half = z.string().check(z.regex(/^[0-9a-f]{32}$/));
const StoredKey = z.object({ pet: z.int(), key: Half, body: Half });
const AnyRecord = z.object({
  seq: z.int(),
  at: z.int(),
  pets: z.optional(z.array(z.unknown()).check(z.minLength(1))),
  order: z.optional(z.unknown()),
  keys: z.optional(z.array(StoredKey)),
  lastId: z.optional(int64),
});

/** A parsed record, with animals, an order, or the last id of a removed line. */
export type JournalRecord = PackedBatch & {
  seq: number;
  order: OrderJson | undefined;
  lastId: bigint | undefined;
};

/**
 * Parses a record in any valid JSON notation. The record may have unknown fields. Animals keep their unknown fields.
 *
 * @returns `unknown_kind` for a record with none of `pets`, `order` and `lastId`, undefined if the record is not valid
 */
export function parseRecordJson(text: string): JournalRecord | 'unknown_kind' | undefined {
  const { data: record } = AnyRecord.safeParse(tryParseJson(text));
  if (!record) return undefined;
  const { seq, at, pets, order, lastId, keys = [] } = record;
  if (pets === undefined && order === undefined && lastId === undefined) return 'unknown_kind';
  const entries: PetEntry[] = [];
  for (const pet of pets ?? []) {
    const { data } = StoredPet.safeParse(pet);
    if (!data) return undefined;
    entries.push({ id: data.id, status: data.status, text: stringifyJson(pet) });
  }
  // Idempotency keys are read in the order of their animals, see `readAnimals`.
  keys.sort((a, b) => a.pet - b.pet);
  if (keys.some(({ pet }) => entries[pet] === undefined)) return undefined;
  return {
    seq,
    pets: encodeBatch(seq, at, entries),
    keys: {
      count: keys.length,
      pets: keys.map(({ pet }) => pet),
      times: keys.map(() => at),
      words: keys.flatMap(({ key, body }) => wordsOfHex(key + body)),
    },
    order: order === undefined ? undefined : stringifyJson(order),
    lastId,
  };
}
