import type { ReceivedPet } from '../../contract/schemas.ts';
import { cellText } from '../fields/field.ts';
import type { Filters } from './selection.ts';

/**
 * Returns a function that selects the animals of a page that meet the conditions that the service does not check.
 * The function throws a CliError if the regular expression takes too long.
 */
export function selectorOf({
  name,
  category,
}: Filters): (pets: readonly ReceivedPet[]) => readonly ReceivedPet[] {
  const ids = category && new Set(category.map(String));
  return (pets) => {
    // A service may send the category as text.
    const inCategory = ids === undefined ? pets : pets.filter((pet) => ids.has(cellText(pet.categoryId)));
    return name === undefined ? inCategory : name.select(inCategory);
  };
}
