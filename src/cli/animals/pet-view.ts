import { stringifyJson } from '../../contract/json.ts';
import { type Pet, type PetStatus, petJson, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { fieldAt, pickFields } from '../core/values.ts';
import type { Column, View } from '../output/printer.ts';

export const petFields = ['id', 'name', 'categoryId', 'status'] as const satisfies (keyof Pet)[];

const STATUS_COLOR: Partial<Record<string, 'green' | 'yellow' | 'dim'>> = {
  available: 'green',
  pending: 'yellow',
  sold: 'dim',
};

export function petColumn<Row>(name: string): Column<Row> {
  const column: Column<Row> = { name, value: (row) => fieldAt(row, name) };
  if (name === 'categoryId') return { ...column, head: 'CATEGORY' };
  if (name !== 'status') return column;
  return {
    ...column,
    isFlexible: false,
    color: (status) => (Object.hasOwn(STATUS_COLOR, status) ? STATUS_COLOR[status] : undefined),
  };
}

/** The columns and the JSON of animals. With `fields`, only these fields are printed. */
export const petView = (fields?: readonly string[]): View<ReceivedPet> => ({
  columns: (fields ?? petFields).map(petColumn<ReceivedPet>),
  json: fields ? (pet) => stringifyJson(pickFields(pet, fields)) : petText,
});

/** Formats an animal as JSON. Uses a faster serializer if it has exactly `petFields`, with valid values. */
function petText(pet: ReceivedPet): string {
  const { id, name, categoryId, status } = pet;
  const isPlain =
    typeof id === 'bigint' &&
    typeof categoryId === 'bigint' &&
    petStatuses.includes(status as PetStatus) &&
    Object.keys(pet).length === petFields.length;
  return isPlain ? petJson({ id, name, categoryId, status: status as PetStatus }) : stringifyJson(pet);
}
