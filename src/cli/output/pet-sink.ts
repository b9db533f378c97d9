import { stringifyJson } from '../../contract/json.ts';
import { type Pet, petJson } from '../../contract/schemas.ts';
import type { Console } from './console.ts';
import { petFields, renderPets } from './pets.ts';
import { visible, visibleJson } from './visible.ts';

/** How a list is written. `rows` is a table on a terminal, tab-separated elsewhere. */
export type PetFormat = 'rows' | 'json' | 'ndjson' | 'csv';

/** Takes animals page by page. */
export type PetSink = { take(pets: readonly Pet[]): Promise<void>; end(): Promise<void> };

/**
 * Writes page by page what may be written page by page. A table needs all rows for its widths, and a JSON document
 * is written only once it is complete: on a failure stdout stays empty.
 */
export function createPetSink(format: PetFormat, console: Console): PetSink {
  const kept: Pet[] = [];
  const keep = async (pets: readonly Pet[]) => {
    for (const pet of pets) kept.push(pet);
  };
  switch (format) {
    case 'json':
      return { take: keep, end: () => console.writeJson(kept) };
    case 'ndjson':
      return {
        take(pets) {
          const lines = pets.map((pet) => `${petText(pet)}\n`).join('');
          return console.write(console.isTerminal ? visibleJson(lines) : lines);
        },
        end: async () => {},
      };
    case 'csv':
      return createCsvSink(console);
    case 'rows':
      if (!console.isTerminal) {
        return { take: async (pets) => console.write(await renderPets(console, pets)), end: async () => {} };
      }
      return {
        take: keep,
        end: async () => {
          if (kept.length > 0) await console.write(await renderPets(console, kept));
        },
      };
  }
}

/** Most have no field but the contract's: they need no look at what each value is. */
function petText(pet: Pet): string {
  const { id, name, categoryId, status } = pet;
  return status !== undefined && Object.keys(pet).length === petFields.length
    ? petJson({ id, name, categoryId, status })
    : stringifyJson(pet);
}

function createCsvSink(console: Console): PetSink {
  const write = async (rows: Parameters<typeof import('./csv.ts').renderCsv>[0]) => {
    const { renderCsv } = await import('./csv.ts');
    await console.write(renderCsv(rows));
  };
  let isFirst = true;
  return {
    async take(pets) {
      const rows = pets.map(({ id, name, categoryId, status = '' }) => [
        id,
        console.isTerminal ? visible(name) : name,
        categoryId,
        status,
      ]);
      await write(isFirst ? [[...petFields], ...rows] : rows);
      isFirst = false;
    },
    end: async () => {},
  };
}
