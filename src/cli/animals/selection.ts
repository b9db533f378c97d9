import { pageSize } from '../../contract/operations.ts';
import { type PetStatus, petStatuses } from '../../contract/schemas.ts';
import { usageError } from '../core/errors.ts';
import { ArgumentError, oneOf, parseInt64Argument } from '../core/parsers.ts';
import { parseFields } from '../fields/parse-fields.ts';
import { petFields } from '../output/pets.ts';
import type { Option } from '../program/command.ts';
import { type NameFilter, parseNameFilter } from './name-filter.ts';

/** The conditions that animals must meet. The service checks only the status. */
export type Filters = { status?: PetStatus; name?: NameFilter; category?: readonly bigint[] };

/** The fields by which animals can be sorted, as `--sort` names them. */
export const sortFields = { name: 'name', id: 'id', category: 'categoryId', status: 'status' } as const;
type SortField = keyof typeof sortFields;
export type SortOrder = SortField | `${SortField}:desc`;
const sortOrders = Object.keys(sortFields).flatMap((field) => [field, `${field}:desc`]);

/** The animals that a list shows, and in which order and columns. */
export type Selection = Filters & {
  sort?: SortOrder;
  columns?: readonly string[];
  limit?: number;
  all?: boolean;
  yes?: boolean;
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

export const nameOption: Option = {
  flags: '--name <text>',
  description: 'only animals with this text in their name, ignoring case and accents, or matching /regex/',
  parse: parseNameFilter,
};

export const yesOption: Option = {
  flags: '--yes',
  description: "don't ask before spending more than half of a rate limit",
};

/** The options that `list` and `find` share, besides the filters. */
export const listOptions: readonly Option[] = [
  {
    flags: '--sort <field>',
    description: 'sort by',
    choices: sortOrders,
    parse: (text) => oneOf(sortOrders)(text.replace(/:asc$/, '')),
  },
  {
    flags: '--columns <names>',
    description: `fields to print, such as ${petFields.join()}`,
    parse: parseColumns,
  },
];

/** Whether all pages have to be read to find the animals, because the service can only filter by status. */
export const needsAllPages = ({ name, category, sort }: Selection): boolean =>
  (name ?? category ?? sort) !== undefined;

const PAGE_LIMIT = `an integer from ${pageSize.min} to ${pageSize.max}`;
const LIMIT = `must be ${PAGE_LIMIT}, or any positive integer with --name, --category or --sort`;

export const limitOption: Option = {
  flags: '--limit <number>',
  description: `animals per page, ${pageSize.min} to ${pageSize.max} (default: ${pageSize.default}; ${pageSize.max} with --all); with --name, --category or --sort: maximum number of animals to list`,
  parse: positiveInteger(LIMIT),
};

/** `--limit` of a command that always reads all pages. */
export const resultLimitOption: Option = {
  flags: '--limit <number>',
  description: 'maximum number of animals to list',
  parse: positiveInteger('must be a positive integer'),
};

/** Returns a parser for a number of animals. Other texts cause an ArgumentError with this message. */
function positiveInteger(message: string): (text: string) => number {
  return (text) => {
    if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
    throw new ArgumentError(message);
  };
}

/** @throws CliError if the limit is a page size that the service does not accept */
export function checkLimit(selection: Selection): void {
  const { limit } = selection;
  if (limit === undefined || limit <= pageSize.max || needsAllPages(selection)) return;
  throw usageError(`--limit ${LIMIT}, not "${limit}"`, 'to list all animals: pets list --all');
}

/** The fields of every animal, by their names in lower case. `category` is the head of a column. */
const FIELDS: ReadonlyMap<string, string> = new Map([
  ...petFields.map((field) => [field.toLowerCase(), field] as const),
  ['category', 'categoryId'],
]);

function parseColumns(text: string): readonly string[] {
  return parseFields(text, (name) => FIELDS.get(name.toLowerCase()) ?? name);
}
