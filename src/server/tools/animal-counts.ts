import { type PetStatus, petStatuses } from '../../contract/schemas.ts';
import type { Store } from '../../store/store.ts';
import { oneAtATime } from './one-at-a-time.ts';
import { MAX_READ, readAnimals } from './read-animals.ts';

/** How many pairs of a status and a category have a count. Animals of further categories are counted together. */
export const MAX_COUNTS = 10_000;

/** Some animals with this status: all of a category, or those whose categories are not kept. */
export type AnimalCount = { status: PetStatus; categoryId: string | undefined; animals: number };

export type AnimalCounts = {
  /** How many animals were counted. */
  animals: number;
  /** Whether all animals were counted. */
  isComplete: boolean;
  counts: AnimalCount[];
};

type State = {
  animals: number;
  /** The id and the text of the last animal that was counted. */
  last: { id: string; text: string } | undefined;
  /** The number of counts that have a category of their own. */
  size: number;
  /** The number of animals by category; `undefined` stands for all further categories. */
  byStatus: Record<PetStatus, Map<string | undefined, number>>;
};

export type AnimalCounter = ReturnType<typeof createAnimalCounter>;

/**
 * Counts the animals by status and category. Animals never change, and their ids ascend, so each call only reads those that
 * follow the last one that was counted.
 */
export function createAnimalCounter(store: Pick<Store, 'list' | 'get'>) {
  let state = createState();

  /** Counts the next animals, and returns the counts so far. @throws StoreUnavailableError */
  async function countMore(): Promise<AnimalCounts> {
    const { last } = state;
    // Another server that shares the store may have reset it.
    if (last && (await store.get(BigInt(last.id))) !== last.text) state = createState();
    const { byStatus } = state;
    const after = state.last && BigInt(state.last.id);
    const { next } = await readAnimals(store, { limit: MAX_READ, after }, (animal) => {
      const counts = byStatus[animal.status];
      const count = counts.get(animal.categoryId);
      if (count !== undefined) counts.set(animal.categoryId, count + 1);
      else if (state.size < MAX_COUNTS) {
        state.size++;
        // The category is a part of the text of a page. A copy does not keep the whole page in memory.
        counts.set(String(BigInt(animal.categoryId)), 1);
      } else counts.set(undefined, (counts.get(undefined) ?? 0) + 1);
      state.animals++;
      state.last = animal;
      return true;
    });
    return {
      animals: state.animals,
      isComplete: next === undefined,
      counts: petStatuses.flatMap((status) =>
        Array.from(byStatus[status], ([categoryId, animals]) => ({ status, categoryId, animals })),
      ),
    };
  }

  return {
    // Two calls at the same time would count the same animals.
    count: oneAtATime(countMore),
    /** Begins again with the first animal. Call it only while nothing is counted. */
    clear(): void {
      state = createState();
    },
  };
}

const createState = (): State => ({
  animals: 0,
  last: undefined,
  size: 0,
  byStatus: { available: new Map(), pending: new Map(), sold: new Map() },
});
