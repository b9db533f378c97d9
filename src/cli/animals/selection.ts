import { hasStatus } from '../../client/pages.ts';
import { type PetStatus, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { cellText, type FieldOrder, parseFields } from '../core/fields.ts';
import { ArgumentError, oneOf, parseInt64Argument } from '../core/parsers.ts';
import type { Option } from '../program/command.ts';
import { petFields } from './pet-view.ts';

// Which animals pets list, pets find and pets count select: the options, and the conditions that the service does not check.

/** The conditions that animals must meet. The service checks only a single status. `name` is a part of the name. */
export type Filters = {
  status?: readonly PetStatus[];
  name?: string;
  category?: readonly bigint[];
  ids?: ReadonlySet<string>;
};

/** The animals that a list shows, and in which order and columns. A list in a file (`output`) has no default limit. */
export type Selection = Filters & {
  sort?: FieldOrder;
  columns?: readonly string[];
  limit?: number;
  all?: boolean;
  output?: string;
};

export const filterOptions: readonly Option[] = [
  {
    flags: '--status <status>',
    description: 'only this status (repeatable)',
    choices: petStatuses,
    repeatable: true,
  },
  {
    flags: '--category <id>',
    description: 'only this category (repeatable); for its number: pets count --by category',
    parse: parseInt64Argument,
    repeatable: true,
    hint: 'categories are numbers; to see names of each: pets count --by category',
  },
];

/** The fields by which animals can be sorted, as `--sort` names them. */
const sortFields = { name: 'name', id: 'id', category: 'categoryId', status: 'status' } as const;
const sortOrders = Object.keys(sortFields).flatMap((field) => [field, `${field}:desc`]);

/** The options that `list` and `find` share, besides the filters and `--limit`. */
export const listOptions: readonly Option[] = [
  {
    flags: '--sort <field>',
    description: 'name, id, category or status; id:desc for the reverse order',
    choices: sortOrders,
    parse: parseSort,
  },
  {
    flags: '--columns <fields>',
    description: `only these fields, such as ${petFields.join()}`,
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

/** Maps names in lower case to the fields of every animal. `category` is the head of the column for `categoryId`. */
const FIELDS: ReadonlyMap<string, string> = new Map([
  ...petFields.map((field) => [field.toLowerCase(), field] as const),
  ['category', 'categoryId'],
]);

/** Parses a part of a name. An empty text is refused, because every name contains it. */
export function parseNameText(text: string): string {
  if (fold(text) === '') throw new ArgumentError('must not be empty');
  return text;
}

/** Texts that differ only in case or accents are mapped to the same text. */
const fold = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toUpperCase();

/** Whether there are conditions that the service does not check. */
export const hasOwnFilter = ({ name, category, ids, status }: Filters): boolean =>
  (name ?? category ?? ids) !== undefined || (status !== undefined && onlyStatus(status) === undefined);

/** The status by which the service can filter. Undefined if there are several, which only the client can check. */
export const onlyStatus = (status: readonly PetStatus[] = []): PetStatus | undefined =>
  new Set(status).size === 1 ? status[0] : undefined;

/** Returns a function that checks the conditions that the service does not check. */
export function matcherOf({ name, category, ids, status }: Filters): (pet: ReceivedPet) => boolean {
  const part = name && fold(name);
  // A service may send numbers as text.
  const categories = category && new Set(category.map(String));
  const statuses = onlyStatus(status) === undefined ? status : undefined;
  return (pet) =>
    (statuses === undefined || hasStatus(pet, statuses)) &&
    (part === undefined || fold(pet.name).includes(part)) &&
    categories?.has(cellText(pet.categoryId)) !== false &&
    ids?.has(String(pet.id)) !== false;
}

/** The conditions as a message shows them, such as `status sold`, `name "rex"` and `category 3 or 4`. */
export function describeFilters({ status, name, category }: Filters): string[] {
  return [
    ...(status ? [`status ${[...new Set(status)].join(' or ')}`] : []),
    ...(name ? [`name ${JSON.stringify(name)}`] : []),
    ...(category ? [`category ${category.join(' or ')}`] : []),
  ];
}
