import * as z from 'zod/mini';
import { int64 } from '../../contract/int64.ts';
import { stringifyJson, tryParseJson } from '../../contract/json.ts';
import { PetStatus } from '../../contract/schemas.ts';
import { FINGERPRINT_WORDS } from '../index/idempotency-index.ts';
import type { OrderJson } from '../store.ts';
import type { PetEntry } from './record-format.ts';

const Half = z.string().check(z.regex(/^[0-9a-f]{32}$/));
const StoredPet = z.object({ id: int64, name: z.string(), categoryId: int64, status: PetStatus });
const StoredKey = z.object({ pet: z.int(), key: Half, body: Half });
const AnyRecord = z.object({
  seq: z.int(),
  at: z.int(),
  pets: z.optional(z.array(z.unknown()).check(z.minLength(1))),
  order: z.optional(z.unknown()),
  keys: z.optional(z.array(StoredKey)),
});

/** A record: animals or an order. */
export type JournalRecord = { seq: number; at: number; entries: PetEntry[]; order: OrderJson | undefined };

/**
 * Parses a record in any JSON notation, with any additional fields. Animals keep their additional fields.
 *
 * @returns `unknown_kind` for a record with neither `pets` nor `order`, undefined if the record is not valid
 */
export function parseRecordJson(text: string): JournalRecord | 'unknown_kind' | undefined {
  const { data: record } = AnyRecord.safeParse(tryParseJson(text));
  if (!record) return undefined;
  const { seq, at, pets, order, keys = [] } = record;
  if (pets === undefined && order === undefined) return 'unknown_kind';
  const entries: PetEntry[] = [];
  for (const pet of pets ?? []) {
    const { data } = StoredPet.safeParse(pet);
    if (!data) return undefined;
    entries.push({ id: data.id, status: data.status, text: stringifyJson(pet) });
  }
  for (const { pet, key, body } of keys) {
    const entry = entries[pet];
    if (!entry) return undefined;
    const hex = key + body;
    entry.fingerprint = Uint32Array.from({ length: FINGERPRINT_WORDS }, (_, i) =>
      Number.parseInt(hex.slice(8 * i, 8 * i + 8), 16),
    );
  }
  return { seq, at, entries, order: order === undefined ? undefined : stringifyJson(order) };
}
