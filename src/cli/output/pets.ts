import type { Pet, PetStatus } from '../../contract/schemas.ts';
import type { Console } from './console.ts';
import { quoteIfBlank } from './sanitize.ts';
import type { Column } from './table.ts';

const STATUS_COLOUR = { available: 'green', pending: 'yellow', sold: 'gray' } as const;

/** Animals as rows: a table on a terminal, tab-separated elsewhere. */
export async function renderPets(console: Console, pets: readonly Pet[]): Promise<string> {
  const { renderRows } = await import('./table.ts');
  const rows = pets.map(console.isTerminal ? shownCells : petCells);
  return renderRows(console, petColumns(console), rows);
}

export const petFields = ['id', 'name', 'categoryId', 'status'] as const;

export const petCells = (pet: Pet): string[] => [
  pet.id.toString(),
  pet.name,
  pet.categoryId.toString(),
  pet.status ?? '',
];

/** Puts an empty or blank name in quotes, so that the user sees it. */
const shownCells = (pet: Pet): string[] => petCells({ ...pet, name: quoteIfBlank(pet.name) });

function petColumns({ colours }: Console): Column[] {
  return [
    { head: 'ID', align: 'right' },
    { head: 'NAME', flexible: true },
    { head: 'CATEGORY', align: 'right' },
    {
      head: 'STATUS',
      format: (shown, status) => {
        const colour = STATUS_COLOUR[status as PetStatus];
        return colour === undefined ? shown : colours[colour](shown);
      },
    },
  ];
}
