import { type PetStatus, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { ArgumentError, oneOf, parseInt64Argument } from '../core/parsers.ts';
import { cellText, parseFields } from '../fields/field.ts';
import type { FieldOrder } from '../fields/sort.ts';
import type { Option } from '../program/command.ts';
import { petFields } from './pet-columns.ts';

// What the options of pets list, pets find and pets count select.

/** The conditions that animals must meet. The service checks only the status. `name` is a text in the name. */
export type Filters = {
  status?: PetStatus;
  name?: string;
  category?: readonly bigint[];
  ids?: ReadonlySet<string>;
};

/** The animals that a list shows, and in which order and columns. */
export type Selection = Filters & {
  sort?: FieldOrder;
  columns?: readonly string[];
  limit?: number;
  all?: boolean;
};

export const filterOptions: readonly Option[] = [
  { flags: '--status <status>', description: 'only animals with this status', choices: petStatuses },
  {
    flags: '--category <id>',
    description: 'only animals of this category (repeatable)',
    parse: parseInt64Argument,
    repeatable: true,
    hint: 'categories are numbers; for those in use: pets count --by category. Repeat the option for several categories',
  },
];

/** The fields by which animals can be sorted, as `--sort` names them. */
const sortFields = { name: 'name', id: 'id', category: 'categoryId', status: 'status' } as const;
const sortOrders = Object.keys(sortFields).flatMap((field) => [field, `${field}:desc`]);

/** The options that `list` and `find` share, besides the filters and `--limit`. */
export const listOptions: readonly Option[] = [
  {
    flags: '--sort <field>',
    description: 'sort by name, id, category or status; <field>:desc for the reverse order',
    choices: sortOrders,
    parse: parseSort,
  },
  {
    flags: '--columns <names>',
    description: `fields to print, such as ${petFields.join()}`,
    parse: (text) => parseFields(text, (name) => FIELDS.get(name.toLowerCase()) ?? name),
  },
];

/** `defaultLimit` describes how many animals are listed without the option. */
export const limitOption = (defaultLimit: string): Option => ({
  flags: '--limit <number>',
  description: `list at most this many animals (default: ${defaultLimit})`,
  parse(text) {
    if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
    throw new ArgumentError('must be a positive integer');
  },
});

function parseSort(text: string): FieldOrder {
  const [name, direction] = oneOf(sortOrders)(text.replace(/:asc$/, '')).split(':');
  return { field: sortFields[name as keyof typeof sortFields], descending: direction === 'desc' };
}

/** The fields of every animal, by their names in lower case. `category` is the head of a column. */
const FIELDS: ReadonlyMap<string, string> = new Map([
  ...petFields.map((field) => [field.toLowerCase(), field] as const),
  ['category', 'categoryId'],
]);

/** Parses a text that names contain. It must not be empty, because it would match every name. */
export function parseNameText(text: string): string {
  if (fold(text) === '') throw new ArgumentError('must be part of a name');
  return text;
}

/** Texts that differ only in case or accents are mapped to the same text. */
const fold = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toUpperCase();

/** Whether animals are left out that the service sends. */
export const hasOwnFilter = ({ name, category, ids }: Filters): boolean =>
  (name ?? category ?? ids) !== undefined;

/** Returns a function that tests the conditions that the service does not check. */
export function matcherOf({ name, category, ids }: Filters): (pet: ReceivedPet) => boolean {
  const part = name && fold(name);
  // A service may send numbers as text.
  const categories = category && new Set(category.map(String));
  return (pet) =>
    (part === undefined || fold(pet.name).includes(part)) &&
    categories?.has(cellText(pet.categoryId)) !== false &&
    ids?.has(String(pet.id)) !== false;
}

/** The conditions as a message shows them, such as `status sold`, `name "rex"` and `category 3 or 4`. */
export function describeFilters({ status, name, category }: Filters): string[] {
  return [
    ...(status ? [`status ${status}`] : []),
    ...(name ? [`name ${JSON.stringify(name)}`] : []),
    ...(category ? [`category ${category.join(' or ')}`] : []),
  ];
}
