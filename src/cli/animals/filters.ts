import type { ReceivedPet } from '../../contract/schemas.ts';
import { cellText } from '../fields/field.ts';
import type { Filters } from './selection.ts';

/** Returns a function that checks the conditions that the service does not check. */
export function matcherOf({ name, category }: Filters): (pet: ReceivedPet) => boolean {
  const ids = category && new Set(category.map(String));
  // A service may send the category as text.
  const isInCategory = (pet: ReceivedPet) => ids === undefined || ids.has(cellText(pet.categoryId));
  return (pet) => isInCategory(pet) && (name === undefined || name.matches(pet.name));
}
