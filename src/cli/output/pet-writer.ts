import { stringifyJson } from '../../contract/json.ts';
import { type PetStatus, petJson, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import type { Console } from './console.ts';
import { cellText, petFields, renderPets } from './pets.ts';
import { sanitizeForTerminal, sanitizeJson } from './sanitize.ts';

/** Writes a list page by page. */
export type PetWriter = { write(pets: readonly ReceivedPet[]): Promise<void>; end(): Promise<void> };

/**
 * Streams the pages if the format allows streaming. A table needs all rows to compute its widths. A JSON document is
 * written only when it is complete, so that stdout stays empty after a failure.
 */
export function createPetWriter(console: Console): PetWriter {
  const kept: ReceivedPet[] = [];
  const keep = async (pets: readonly ReceivedPet[]) => {
    for (const pet of pets) kept.push(pet);
  };
  switch (console.format) {
    case 'json':
      return { write: keep, end: () => console.writeJson(kept) };
    case 'ndjson':
      return {
        write(pets) {
          const lines = pets.map((pet) => `${petText(pet)}\n`).join('');
          return console.write(console.isTerminal ? sanitizeJson(lines) : lines);
        },
        end: async () => {},
      };
    case 'csv':
      return createCsvWriter(console);
    default: {
      const show = async (pets: readonly ReceivedPet[]) => console.write(await renderPets(console, pets));
      if (!console.isTable) return { write: show, end: async () => {} };
      return { write: keep, end: async () => (kept.length > 0 ? show(kept) : undefined) };
    }
  }
}

/** Formats an animal as JSON. Uses the faster serializer if the animal has the form that the contract requires. */
function petText(pet: ReceivedPet): string {
  const { id, name, categoryId, status } = pet;
  const isPlain =
    typeof id === 'bigint' &&
    typeof categoryId === 'bigint' &&
    isPetStatus(status) &&
    Object.keys(pet).length === petFields.length;
  return isPlain ? petJson({ id, name, categoryId, status }) : stringifyJson(pet);
}

const isPetStatus = (value: unknown): value is PetStatus => petStatuses.includes(value as PetStatus);

function createCsvWriter(console: Console): PetWriter {
  let header: string[][] = [[...petFields]];
  let isReported = false;
  const cellOf = (value: unknown) =>
    console.isTerminal && typeof value !== 'bigint' ? sanitizeForTerminal(cellText(value)) : value;
  return {
    async write(pets) {
      const { renderCsv } = await import('./csv.ts');
      const rows = pets.map((pet) => petFields.map((field) => cellOf(pet[field])));
      const text = renderCsv([...header, ...rows]);
      if (!isReported && /[\ud800-\udfff]/u.test(text)) {
        isReported = true;
        console.notice(
          'an animal has text that is not valid Unicode (half of a surrogate pair), which CSV cannot contain; it was replaced by U+FFFD. For the exact text: --json',
        );
      }
      await console.write(text);
      header = [];
    },
    end: async () => {},
  };
}
