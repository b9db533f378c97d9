import * as z from 'zod/mini';
import { int64Text } from '../../contract/int64.ts';
import { PetStatus } from '../../contract/schemas.ts';
import type { Store } from '../../store/store.ts';
import type { ServiceResponse } from '../response.ts';
import type { AnimalCounter } from './animal-counts.ts';
import { queryInteger, readQuery } from './query.ts';
import { MAX_READ, readAnimals } from './read-animals.ts';
import type { ToolHandler } from './tool-requests.ts';

const MAX_ANIMALS = 1_000;
const DEFAULT_ANIMALS = 50;
/** A response ends after this many characters of animals. */
const MAX_TEXT = 2 ** 20;
export const MAX_ORDERS = 1_000;

const Query = z.object({
  status: z.optional(PetStatus),
  category: z.optional(int64Text),
  name: z.optional(z.string()),
  after: z.optional(int64Text),
  limit: z.optional(queryInteger(1, MAX_ANIMALS)),
});

// The bodies contain the texts of the store byte for byte, because JSON.stringify would change large numbers.

/** `GET /inventory` (docs/service.md 13.3). */
export const inventoryTool =
  (store: Pick<Store, 'list'>): ToolHandler =>
  async ({ url }) => {
    const { status, category, name, after, limit = DEFAULT_ANIMALS } = readQuery(Query, url);
    const categoryId = category?.toString();
    const part = name && foldCase(name);
    const hasFilter = categoryId !== undefined || part !== undefined;
    const animals: string[] = [];
    let length = 0;
    const query = { status, after, limit: hasFilter ? MAX_READ : limit };
    const { read, next } = await readAnimals(store, query, (animal) => {
      const matches =
        (categoryId === undefined || animal.categoryId === categoryId) &&
        (part === undefined || foldCase(JSON.parse(animal.name)).includes(part));
      if (!matches) return true;
      animals.push(animal.text);
      length += animal.text.length;
      return animals.length < limit && length < MAX_TEXT;
    });
    const more = next === undefined ? '' : `"next":"${next}",`;
    return json(`{"animals":[${animals.join(',')}],${more}"read":${read}}`);
  };

/** `GET /inventory/counts` (docs/service.md 13.4). */
export const inventoryCountsTool =
  (counter: AnimalCounter): ToolHandler =>
  async () => {
    const { animals, isComplete, counts } = await counter.count();
    const rows = counts.map(
      ({ status, categoryId = null, animals }) =>
        `{"status":"${status}","categoryId":${categoryId},"animals":${animals}}`,
    );
    return json(`{"animals":${animals},"complete":${isComplete},"counts":[${rows.join(',')}]}`);
  };

/** `GET /inventory/orders` (docs/service.md 13.5). */
export const inventoryOrdersTool =
  (store: Pick<Store, 'orders'>): ToolHandler =>
  async () => {
    const orders = await store.orders();
    return json(`{"orders":[${orders.slice(0, MAX_ORDERS).join(',')}],"total":${orders.length}}`);
  };

/** Makes texts equal that differ only in case. Unlike lower case, upper case does not depend on the end of a word. */
const foldCase = (text: string): string => text.toUpperCase();

const json = (body: string): ServiceResponse => ({ status: 200, headers: {}, body });
