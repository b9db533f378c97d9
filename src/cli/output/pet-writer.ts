import { stringifyJson } from '../../contract/json.ts';
import { type PetStatus, petJson, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { fieldAt, pick } from '../fields/field.ts';
import type { Console } from './console.ts';
import { listNames } from './list-names.ts';
import { writeNdjson } from './ndjson.ts';
import { petFields, renderPets } from './pets.ts';

/** Writes a list page by page. */
export type PetWriter = { write(pets: readonly ReceivedPet[]): Promise<void>; end(): Promise<void> };

/**
 * Streams the pages if the format allows streaming. A table needs all rows to compute its widths. A JSON document is
 * written only when it is complete, so that stdout stays empty after a failure. With `fields`, only these fields of the
 * animals are written.
 */
export function createPetWriter(console: Console, fields?: readonly string[]): PetWriter {
  const writer = createFormatWriter(console, fields);
  return fields ? withMissingFields(console, writer, fields) : writer;
}

function createFormatWriter(console: Console, fields: readonly string[] | undefined): PetWriter {
  const kept: ReceivedPet[] = [];
  const keep = async (pets: readonly ReceivedPet[]) => {
    for (const pet of pets) kept.push(pet);
  };
  switch (console.format) {
    case 'json':
      return {
        write: keep,
        end: () => console.writeJson(fields ? kept.map((pet) => pick(pet, fields)) : kept),
      };
    case 'ndjson':
      return {
        write: (pets) =>
          writeNdjson(console, pets, (pet) => (fields ? stringifyJson(pick(pet, fields)) : petText(pet))),
        end: async () => {},
      };
    case 'csv':
      return createCsvWriter(console, fields ?? petFields);
    default: {
      const show = async (pets: readonly ReceivedPet[]) =>
        console.write(await renderPets(console, pets, fields));
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

/** Adds a notice about fields that no animal has, because their names may be mistyped. */
function withMissingFields(console: Console, writer: PetWriter, fields: readonly string[]): PetWriter {
  const missing = new Set(fields);
  const known = new Set<string>();
  return {
    write(pets) {
      for (const pet of pets) {
        if (missing.size === 0) break;
        for (const field of missing) if (fieldAt(pet, field) !== undefined) missing.delete(field);
        for (const field of Object.keys(pet)) known.add(field);
      }
      return writer.write(pets);
    },
    async end() {
      await writer.end();
      if (missing.size === 0 || known.size === 0) return;
      console.notice(
        `no animal has the field ${[...missing].join(' or ')}. Fields: ${listNames([...known])}`,
      );
    },
  };
}

function createCsvWriter(console: Console, fields: readonly string[]): PetWriter {
  let header = [fields];
  return {
    async write(pets) {
      const { writeCsv } = await import('./csv.ts');
      const rows = pets.map((pet) => fields.map((field) => fieldAt(pet, field)));
      await writeCsv(console, [...header, ...rows], 'an animal');
      header = [];
    },
    end: async () => {},
  };
}
