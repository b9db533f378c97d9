import { stringifyJson } from '../../contract/json.ts';
import type { PetStatus, ReceivedPet } from '../../contract/schemas.ts';
import type { Console } from './console.ts';
import { quoteIfBlank } from './sanitize.ts';
import type { Column } from './table.ts';

const STATUS_COLOUR = { available: 'green', pending: 'yellow', sold: 'gray' } as const;

/** Animals as a table or as tab-separated lines. */
export async function renderPets(console: Console, pets: readonly ReceivedPet[]): Promise<string> {
  const { renderRows } = await import('./table.ts');
  const rows = pets.map(console.isTable ? shownCells : petCells);
  return renderRows(console, petColumns(console), rows);
}

export const petFields = ['id', 'name', 'categoryId', 'status'] as const;

const petCells = (pet: ReceivedPet): string[] => petFields.map((field) => cellText(pet[field]));

/** Returns a string unchanged, an empty string for null and undefined, and JSON for any other value. */
export function cellText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : stringifyJson(value);
}

/** Quotes a blank name, so that users see the name. */
const shownCells = (pet: ReceivedPet): string[] => petCells({ ...pet, name: quoteIfBlank(pet.name) });

function petColumns({ colours }: Console): Column[] {
  return [
    { head: 'ID', align: 'right' },
    { head: 'NAME', flexible: true },
    { head: 'CATEGORY', align: 'right' },
    {
      head: 'STATUS',
      format: (shown, status) => {
        const isKnown = Object.hasOwn(STATUS_COLOUR, status);
        return isKnown ? colours[STATUS_COLOUR[status as PetStatus]](shown) : shown;
      },
    },
  ];
}
