import type { PetStatus, ReceivedPet } from '../../contract/schemas.ts';
import { cellText, fieldAt } from '../fields/field.ts';
import type { Console } from './console.ts';
import { quoteIfBlank } from './sanitize.ts';
import type { Column } from './table.ts';

const STATUS_COLOUR = { available: 'green', pending: 'yellow', sold: 'gray' } as const;

export const petFields = ['id', 'name', 'categoryId', 'status'] as const;

/** Animals as a table or as tab-separated lines, with these fields. */
export async function renderPets(
  console: Console,
  pets: readonly ReceivedPet[],
  fields: readonly string[] = petFields,
): Promise<string> {
  const { renderRows } = await import('./table.ts');
  const cellsOf = (pet: ReceivedPet) =>
    fields.map((field) => {
      const text = cellText(fieldAt(pet, field));
      // Quote a blank name, so that users see the name.
      return console.isTable && field === 'name' ? quoteIfBlank(text) : text;
    });
  const columns = fields.map((field) => petColumn(console, field, pets));
  return renderRows(console, columns, pets.map(cellsOf));
}

export function petColumn({ colours }: Console, field: string, pets: readonly ReceivedPet[]): Column {
  switch (field) {
    case 'id':
      return { head: 'ID', align: 'right' };
    case 'name':
      return { head: 'NAME', flexible: true };
    case 'categoryId':
      return { head: 'CATEGORY', align: 'right' };
    case 'status':
      return {
        head: 'STATUS',
        format(shown, status) {
          const isKnown = Object.hasOwn(STATUS_COLOUR, status);
          return isKnown ? colours[STATUS_COLOUR[status as PetStatus]](shown) : shown;
        },
      };
    default: {
      const isNumeric = pets.every((pet) => /^(-?\d|$)/.test(cellText(fieldAt(pet, field))));
      return { head: field.toUpperCase(), align: isNumeric ? 'right' : 'left', flexible: !isNumeric };
    }
  }
}
