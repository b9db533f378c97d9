import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import { tryParseJson } from '../../contract/json.ts';
import { type PetStatus, petStatuses } from '../../contract/schemas.ts';
import { StoreDamagedError } from '../../store/errors.ts';
import type { PageQuery, PetJson, Store } from '../../store/store.ts';
import { StoredPet } from '../../store/stored-json.ts';
import { oneAtATime } from './one-at-a-time.ts';

/** The JSON text of an animal, and the parts of that text. `name` is a JSON string, with quotes and escapes. */
export type AnimalText = { text: PetJson; id: string; name: string; categoryId: string; status: PetStatus };

/** One call of `readAnimals` ends after this many animals, or after this many bytes of their texts. */
export const MAX_READ = 10_000;
const MAX_BYTES = 4 * 2 ** 20;
/** How many animals are read without a pause. */
const MAX_SLICE = 1_000;

const INTEGER = String.raw`(0|-?[1-9]\d*)`;
const STRING = String.raw`"[^"\\]*(?:\\.[^"\\]*)*"`;
/** An animal as `petJson` formats it, with integers in canonical form. */
const ANIMAL = new RegExp(
  `\\{"id":${INTEGER},"name":(${STRING}),"categoryId":${INTEGER},"status":"(${petStatuses.join('|')})"\\}(?=,|$)`,
  'y',
);

/**
 * Returns a store for `readAnimals`. It reads one page at a time, even if several requests use it, so that requests of the
 * API find a free connection to a database. Before each page, it pauses, so that the server can handle other requests.
 */
export const createPacedStore = (store: Pick<Store, 'list' | 'get'>): Pick<Store, 'list' | 'get'> => ({
  get: (id) => store.get(id),
  list: oneAtATime(async (query) => {
    await setImmediate();
    return store.list(query);
  }),
});

/**
 * Calls `visit` with the animals after `query.after`, in ascending order of id, until it returns false, or until a limit is
 * reached. Use a store of `createPacedStore`, so that other requests are not delayed.
 *
 * @returns how many animals were read, and the id of the last one if more animals follow
 * @throws StoreUnavailableError
 */
export async function readAnimals(
  store: Pick<Store, 'list'>,
  { limit, ...query }: PageQuery,
  visit: (animal: AnimalText) => boolean,
): Promise<{ read: number; next?: string }> {
  let [read, bytes] = [0, 0];
  for (let { after } = query; ; ) {
    const page = await store.list({ ...query, limit: Math.min(limit, MAX_SLICE), after });
    const animals = splitAnimals(page.pets.toString());
    for (const [i, animal] of animals.entries()) {
      read++;
      if (visit(animal)) continue;
      const isLast = page.next === undefined && i === animals.length - 1;
      return isLast ? { read } : { read, next: animal.id };
    }
    if (page.next === undefined) return { read };
    bytes += page.pets.length;
    if (read >= MAX_READ || bytes >= MAX_BYTES) return { read, next: String(page.next) };
    after = page.next;
  }
}

/** Splits the texts of animals, which are separated by commas. */
export function splitAnimals(texts: string): AnimalText[] {
  const animals: AnimalText[] = [];
  for (let start = 0; start < texts.length; ) {
    ANIMAL.lastIndex = start;
    const match = ANIMAL.exec(texts);
    const animal = match ? fromMatch(match) : parseAnimal(texts.slice(start, endOfObject(texts, start)));
    animals.push(animal);
    start += animal.text.length + 1;
  }
  return animals;
}

function fromMatch([text, id = '', name = '', categoryId = '', status]: RegExpExecArray): AnimalText {
  return { text, id, name, categoryId, status: status as PetStatus };
}

/** Parses an animal in another notation, or with unknown fields. @throws StoreDamagedError */
function parseAnimal(text: string): AnimalText {
  const { success, data } = z.safeParse(StoredPet, tryParseJson(text));
  if (!success) throw new StoreDamagedError('an animal in the store is not valid', 'see: pets store check');
  const { id, name, categoryId, status } = data;
  return { text, id: `${id}`, name: JSON.stringify(name), categoryId: `${categoryId}`, status };
}

/** The position after the JSON object that begins at `start`. */
function endOfObject(text: string, start: number): number {
  const token = new RegExp(`[{}]|${STRING}`, 'g');
  token.lastIndex = start;
  let depth = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    if (match[0] === '{') depth++;
    else if (match[0] === '}' && --depth === 0) return token.lastIndex;
  }
  return text.length;
}
