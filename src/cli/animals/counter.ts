import { stringifyJson } from '../../contract/json.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { compareMissing, createValueComparison } from '../fields/compare.ts';

/** The fields by which animals can be counted. */
export type CountField = 'status' | 'categoryId';

/** A number of animals that have the same values. A value is null if the animals do not have the field. */
export type CountedAnimals = { status?: unknown; categoryId?: unknown; animals: number };

/** Counts animals by the values of these fields. */
export function createCounter(fields: readonly CountField[]) {
  const counts = new Map<string, CountedAnimals>();
  return {
    add(pets: readonly ReceivedPet[]): void {
      for (const pet of pets) {
        const values = fields.map((field) => countedValue(field, pet));
        const key = stringifyJson(values);
        const count = counts.get(key);
        if (count) count.animals++;
        else
          counts.set(key, {
            ...Object.fromEntries(fields.map((field, i) => [field, values[i]])),
            animals: 1,
          });
      }
    },
    /** The counts, sorted by the first field, then by the second one. Animals without the field come last. */
    result(): CountedAnimals[] {
      const compare = createValueComparison();
      return [...counts.values()].sort((one, other) => {
        for (const field of fields) {
          const [a, b] = [one[field], other[field]];
          const result = compareMissing(a, b) || compare(a, b);
          if (result !== 0) return result;
        }
        return 0;
      });
    },
  };
}

/** A service may send a category as text. The number 1 and the text "1" are the same category, as for `--category`. */
function countedValue(field: CountField, pet: ReceivedPet): unknown {
  const value = pet[field] ?? null;
  const isInteger = typeof value === 'string' && /^(0|-?[1-9]\d*)$/.test(value);
  return field === 'categoryId' && isInteger ? BigInt(value) : value;
}
