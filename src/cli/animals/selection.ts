import type { Client, PetPage } from '../../client/client.ts';
import { pageSize } from '../../contract/api.ts';
import { mayHaveStatus, type PetStatus, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { type FieldOrder, parseFieldOrder } from '../core/sort.ts';
import { ArgumentError, cellText, integerParser, parseFields, parseInt64Argument } from '../core/values.ts';
import type { Console } from '../output/console.ts';
import { formatCount } from '../output/text.ts';
import { option, repeatable } from '../program/command.ts';
import { CATEGORY_HINT, PET_FIELDS_HINT } from '../program/words.ts';
import { petFields } from './pet-view.ts';

// Which animals pets list, pets find and pets count select: the options, and the conditions that the service does not check.

/** The conditions that animals must meet. The service checks only a single status. `name` is a part of the name. */
type Filters = { status?: readonly PetStatus[]; name?: string; category?: readonly bigint[] };

/** The animals that a list shows, and in which order and columns. A list in a file (`output`) has no default limit. */
export type Selection = Filters & {
  /** A field, perhaps with `:asc` or `:desc`. */
  sort?: string;
  columns?: readonly string[];
  limit?: number;
  all?: boolean;
  output?: string;
};

export const filterOptions = [
  repeatable('--status <status>', 'only this status: available, pending or sold', petStatuses),
  repeatable(
    '--category <id>',
    'only this category; for its number: pets count --by category',
    parseInt64Argument,
    CATEGORY_HINT,
  ),
];

/** The options that `list` and `find` share, besides the filters and `--limit`. */
export const listOptions = [
  option(
    '--sort <field>',
    'name, id, category or status; id:desc reverses',
    ['name', 'id', 'category', 'status'].flatMap((field) => [field, `${field}:asc`, `${field}:desc`]),
    `id:desc reverses the order; ${PET_FIELDS_HINT}`,
  ),
  option('--columns <fields>', `only these fields, such as ${petFields.join()}`, (text) =>
    parseFields(text, fieldOf),
  ),
];

/** Converts a typed name, in any case, to the name of a field. `category` is the head of the column for `categoryId`. */
const fieldOf = (name: string): string =>
  petFields.find((field) => [field.toLowerCase(), field.replace('Id', '')].includes(name.toLowerCase())) ??
  name;

export function orderOf(sort: string): FieldOrder {
  const { field, descending } = parseFieldOrder(sort);
  return { field: fieldOf(field), descending };
}

/** `defaultLimit` describes how many animals are listed without the option. */
export const limitOption = (defaultLimit: string) =>
  option('--limit <number>', `at most this many (default: ${defaultLimit})`, integerParser(1, 1e15));

/** Parses a part of a name. An empty text is refused, because every name contains it. */
export function parseNameText(text: string): string {
  if (foldCase(text) === '') throw new ArgumentError('must not be empty');
  return text;
}

/** Texts that differ only in case or accents are mapped to the same text. */
const foldCase = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toUpperCase();

/** Whether there are conditions that the service does not check. */
export const hasOwnFilter = ({ name, category, status }: Filters): boolean =>
  (name ?? category) !== undefined || (status !== undefined && statusForService(status) === undefined);

/** The status by which the service can filter. Undefined if there is none, or several, which only the client can check. */
const statusForService = (status: readonly PetStatus[] = []): PetStatus | undefined =>
  new Set(status).size === 1 ? status[0] : undefined;

/** Returns a function that checks the conditions that the service does not check. */
export function matcherOf({ name, category, status }: Filters): (pet: ReceivedPet) => boolean {
  const part = name && foldCase(name);
  // A service may send numbers as text.
  const categories = category && new Set(category.map(String));
  const statuses = statusForService(status) === undefined ? status : undefined;
  return (pet) =>
    (statuses === undefined || mayHaveStatus(pet, statuses)) &&
    (part === undefined || foldCase(pet.name).includes(part)) &&
    categories?.has(cellText(pet.categoryId)) !== false;
}

/** The conditions as a message shows them, such as `status sold`, `name "rex"` and `category 3 or 4`. */
export function describeFilters({ status, name, category }: Filters): string[] {
  return [
    ...(status ? [`status ${[...new Set(status)].join(' or ')}`] : []),
    ...(name ? [`name ${JSON.stringify(name)}`] : []),
    ...(category ? [`category ${category.join(' or ')}`] : []),
  ];
}

/** What `readPages` has read so far. */
export type Reading = {
  pages: number;
  animals: number;
  /** The number of animals that meet the conditions, at most `enough`. */
  found: number;
  /** Whether more animals follow: on pages that were not read, or beyond `enough` on the last page that was read. */
  more: PetPage['more'];
};

/** `onResults` gets the animals that meet the conditions, page by page. Reading stops after `enough` of them. */
export type ReadingOptions = {
  enough: number;
  onResults(pets: readonly ReceivedPet[]): Promise<void> | void;
  /** Shows on the status line of a terminal how much was read. */
  showStatus: Console['showStatus'];
};

/** Reads pages and passes on the animals that meet the conditions. @throws the errors of `listPages` and `onResults` */
export async function readPages(
  client: Client,
  selection: Selection,
  { enough, onResults, showStatus }: ReadingOptions,
): Promise<Reading> {
  const reading: Reading = { pages: 0, animals: 0, found: 0, more: 'no' };
  const isFiltered = hasOwnFilter(selection);
  const size = isFiltered ? pageSize.max : Math.min(enough, pageSize.max);
  const matches = matcherOf(selection);
  const { listPages } = await import('../../client/client.ts');
  const pages = listPages(client, { limit: size, status: statusForService(selection.status) }, () => {
    // Do not prefetch if the page that has just arrived may contain all that is missing.
    return enough - reading.found > size;
  });
  for await (const { pets, more } of pages) {
    const results = isFiltered ? pets.filter(matches) : pets;
    const taken = results.slice(0, enough - reading.found);
    reading.pages++;
    reading.animals += pets.length;
    reading.found += taken.length;
    reading.more = taken.length < results.length ? 'yes' : more;
    await onResults(taken);
    if (more !== 'yes' || reading.found >= enough) break;
    const read = `read ${formatCount(reading.animals, 'animal')}`;
    showStatus(isFiltered ? `${read}, found ${reading.found}` : read);
  }
  showStatus(undefined);
  return reading;
}
