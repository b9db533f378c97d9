import { valueText } from './value-text.ts';

/** How many animals a page of the table has, and how many categories have a bar. */
export const PAGE_SIZE = 50;
const MAX_CATEGORIES = 12;

/** An animal as the table shows it. */
export type Animal = Readonly<Record<'id' | 'name' | 'categoryId' | 'status', unknown>>;

type Count = { status: string; categoryId: unknown; animals: number };
export type CountsResponse = { animals: number; complete: boolean; counts: readonly Count[] };

export type InventoryFilter = Record<'name' | 'status' | 'category', string>;

type Totals = [value: string, animals: number][];

/** Sums up the counts by status, and by category, the largest categories first. */
export function sumCounts(counts: readonly Count[]): {
  statuses: Totals;
  categories: Totals;
  others: number;
} {
  const statuses = new Map<string, number>();
  const categories = new Map<string, number>();
  let others = 0;
  for (const { status, categoryId, animals } of counts) {
    statuses.set(status, (statuses.get(status) ?? 0) + animals);
    const category = valueText(categoryId);
    if (categoryId === null) others += animals;
    else categories.set(category, (categories.get(category) ?? 0) + animals);
  }
  const sorted = [...categories].sort(([, a], [, b]) => b - a);
  for (const [, animals] of sorted.splice(MAX_CATEGORIES)) others += animals;
  return { statuses: [...statuses], categories: sorted, others };
}

/** Reads animals after an id until a page is full. `onProgress` is called with the number of animals that were read. */
export async function readPage(
  { get }: { get(path: string, signal: AbortSignal): Promise<unknown> },
  filter: InventoryFilter,
  after: string | undefined,
  signal: AbortSignal,
  onProgress: (read: number) => void,
): Promise<{ animals: Animal[]; next: string | undefined }> {
  const animals: Animal[] = [];
  let next = after;
  let total = 0;
  do {
    const query = new URLSearchParams({ limit: String(PAGE_SIZE - animals.length) });
    for (const [name, value] of Object.entries(filter)) if (value !== '') query.set(name, value);
    if (next !== undefined) query.set('after', next);
    const page = (await get(`inventory?${query}`, signal)) as {
      animals: Animal[];
      next?: string;
      read: number;
    };
    animals.push(...page.animals);
    next = page.next;
    total += page.read;
    if (next !== undefined) onProgress(total);
  } while (next !== undefined && animals.length < PAGE_SIZE);
  return { animals, next };
}
