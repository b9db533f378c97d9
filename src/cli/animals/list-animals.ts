import type { Client } from '../../client/client.ts';
import { hasStatus, listPages, type PetPage } from '../../client/pages.ts';
import { type RateLimit, readRateLimits } from '../../client/rate-limit.ts';
import { readHeader } from '../../client/response.ts';
import { stringifyJson } from '../../contract/json.ts';
import { pageSize } from '../../contract/operations.ts';
import { type PetStatus, petJson, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { formatDuration } from '../../system/time-text.ts';
import {
  connectionFor,
  followUpCommand,
  footerLabel,
  targetLabel,
  withClient,
} from '../connection/connect.ts';
import { usageError } from '../core/errors.ts';
import {
  cellText,
  type FieldOrder,
  fieldAt,
  fieldNames,
  parseFields,
  pick,
  sortByField,
} from '../core/fields.ts';
import { ArgumentError, oneOf, parseInt64Argument } from '../core/parsers.ts';
import type { StatusVariants } from '../output/console.ts';
import { type Column, createPrinter, type Footer, type View } from '../output/printer.ts';
import { formatCount, listNames } from '../output/text.ts';
import { formatTime } from '../output/time.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext, Option } from '../program/command.ts';

export const petFields = ['id', 'name', 'categoryId', 'status'] as const;

const STATUS_COLOR: Partial<Record<string, 'green' | 'yellow' | 'gray'>> = {
  available: 'green',
  pending: 'yellow',
  sold: 'gray',
};

/** A field of animals as a column. */
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

/** How animals are printed. With `fields`, only these fields are printed. */
export const petView = (fields?: readonly string[]): View<ReceivedPet> => ({
  columns: (fields ?? petFields).map(petColumn<ReceivedPet>),
  json: fields ? (pet) => stringifyJson(pick(pet, fields)) : petText,
});

/** Formats an animal as JSON. Uses a faster serializer if the animal has exactly `petFields`, with valid values. */
function petText(pet: ReceivedPet): string {
  const { id, name, categoryId, status } = pet;
  const isPlain =
    typeof id === 'bigint' &&
    typeof categoryId === 'bigint' &&
    petStatuses.includes(status as PetStatus) &&
    Object.keys(pet).length === petFields.length;
  return isPlain ? petJson({ id, name, categoryId, status: status as PetStatus }) : stringifyJson(pet);
}

// What the options of pets list, pets find and pets count select.

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
    description: 'only animals with this status (repeatable)',
    choices: petStatuses,
    repeatable: true,
  },
  {
    flags: '--category <id>',
    description: 'only animals of this category (repeatable)',
    parse: parseInt64Argument,
    repeatable: true,
    hint: 'categories are numbers; to list those in use: pets count --by category. Repeat the option for several categories',
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
const hasOwnFilter = ({ name, category, ids, status }: Filters): boolean =>
  (name ?? category ?? ids) !== undefined || (status !== undefined && onlyStatus(status) === undefined);

/** The status by which the service can filter. Undefined if there are several, which only the client can check. */
const onlyStatus = (status: readonly PetStatus[] = []): PetStatus | undefined =>
  new Set(status).size === 1 ? status[0] : undefined;

/** Returns a function that checks the conditions that the service does not check. */
function matcherOf({ name, category, ids, status }: Filters): (pet: ReceivedPet) => boolean {
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
function describeFilters({ status, name, category }: Filters): string[] {
  return [
    ...(status ? [`status ${[...new Set(status)].join(' or ')}`] : []),
    ...(name ? [`name ${JSON.stringify(name)}`] : []),
    ...(category ? [`category ${category.join(' or ')}`] : []),
  ];
}

/** Prints the selected animals and a footer, for `pets list` and `pets find`. */
export async function listAnimals(selection: Selection, context: CommandContext): Promise<undefined> {
  const { sort, columns, all, limit, output } = selection;
  const isWhole = all === true || hasOwnFilter(selection) || (sort ?? output) !== undefined;
  const enough = limit ?? (isWhole ? Number.POSITIVE_INFINITY : pageSize.default);
  const connection = connectionFor(context);
  const printer = createPrinter(context.console, petView(columns));
  const fields = columns && createFieldCheck(columns);
  const found: ReceivedPet[] = [];
  const reading = await readAnimals(context, connection, selection, {
    enough: sort === undefined ? enough : Number.POSITIVE_INFINITY,
    async onResults(pets) {
      for (const pet of pets) found.push(pet);
      // Nothing is printed before it is known that the fields exist.
      const isFieldMissing = fields?.hasMissing(pets);
      if (sort !== undefined || isFieldMissing) return;
      await printer.write(found.splice(0));
    },
  });
  fields?.end();
  const rest = sort === undefined ? found : sortByField(found, sort).slice(0, enough);
  await printer.write(rest);
  const shown = sort === undefined ? reading.found : rest.length;
  await printer.end(footerOf(context, connection, selection, { ...reading, shown }));
  return undefined;
}

/** Finds fields that no animal has, because their names may be mistyped. */
function createFieldCheck(columns: readonly string[]) {
  const missing = new Set(columns);
  const known = new Set<string>();
  return {
    /** Looks for the missing fields in these animals, and returns whether some are still missing. */
    hasMissing(pets: readonly ReceivedPet[]): boolean {
      for (const pet of pets) {
        if (missing.size === 0) break;
        for (const field of missing) if (fieldAt(pet, field) !== undefined) missing.delete(field);
      }
      if (missing.size > 0) for (const field of fieldNames(pets)) known.add(field);
      return missing.size > 0;
    },
    /** @throws CliError if there is a field that no animal has, unless there are no animals */
    end(): void {
      if (missing.size === 0 || known.size === 0) return;
      throw usageError(
        `--columns: no animal has the field ${[...missing].join(' or ')}`,
        `use some of these fields: ${listNames([...known])}`,
      );
    },
  };
}

/** What has been read so far. */
export type Reading = {
  pages: number;
  animals: number;
  /** The number of animals that meet the conditions, at most `enough`. */
  found: number;
  /** Whether more animals follow: on pages that were not read, or beyond `enough` on the last page that was read. */
  more: PetPage['more'];
  requests: number;
  /** Reads the rate-limit windows from the latest response that has a link to a next page. */
  limits(): readonly RateLimit[];
  /** The number of animals that the service has, if the response that `limits` reads shows it. */
  total: number | undefined;
};

/** `onResults` gets the animals that meet the conditions, page by page. Reading stops after `enough` of them. */
export type ReadingOptions = {
  enough: number;
  onResults(pets: readonly ReceivedPet[]): Promise<void> | void;
};

/** Reads pages and passes on the animals that meet the conditions. A terminal shows the progress. */
export function readAnimals(
  context: CommandContext,
  connection: Connection,
  selection: Selection,
  options: ReadingOptions,
): Promise<Reading> {
  const progress = createProgress(context);
  const read = (client: Client) => readPages(context, client, selection, { ...options, progress });
  return withClient(context, connection, read, { showWait: progress.showWait });
}

export async function readPages(
  { clock }: Pick<CommandContext, 'clock'>,
  client: Client,
  selection: Selection,
  { enough, onResults, progress }: ReadingOptions & { progress: Pick<Progress, 'show' | 'end'> },
): Promise<Reading> {
  const reading: Reading = {
    pages: 0,
    animals: 0,
    found: 0,
    more: 'no',
    requests: 0,
    limits: () => [],
    total: undefined,
  };
  const size = hasOwnFilter(selection) ? pageSize.max : Math.min(enough, pageSize.max);
  const matches = matcherOf(selection);
  const pages = listPages(client, { limit: size, status: onlyStatus(selection.status) }, (headers) => {
    const now = clock.now();
    reading.limits = () => readRateLimits(headers, now);
    reading.total = Number(readHeader(headers, 'X-Total-Count')) || undefined;
    // Do not prefetch if the page that has just arrived may contain all that is missing.
    return enough - reading.found > size;
  });
  for await (const { pets, more } of pages) {
    const results = hasOwnFilter(selection) ? pets.filter(matches) : pets;
    const taken = results.slice(0, enough - reading.found);
    reading.pages++;
    reading.animals += pets.length;
    reading.found += taken.length;
    reading.requests = client.attempts();
    reading.more = taken.length < results.length ? 'yes' : more;
    await onResults(taken);
    if (more !== 'yes' || reading.found >= enough) break;
    progress.show(reading);
  }
  progress.end();
  return reading;
}

const MINUTE = 60_000;

export type Progress = ReturnType<typeof createProgress>;

/** Shows on the status line how much was read, how long the rest takes, and why the command waits. */
export function createProgress({ console, clock }: CommandContext) {
  const started = clock.now();
  let shown: StatusVariants | undefined;
  return {
    show(reading: Reading): void {
      if (!console.hasStatus) return;
      const { animals, pages, found, limits } = reading;
      const read = `read ${formatCount(animals, 'animal')}`;
      const results = found === animals ? '' : `, found ${found}`;
      const left = timeLeft(reading);
      const minute = limits().find(({ name, reset }) =>
        name === undefined ? reset - clock.now() <= MINUTE : name === 'minute',
      );
      const plan = minute?.limit === undefined ? '' : `your plan allows ${minute.limit} requests a minute`;
      const isLimited = minute?.limit !== undefined && left !== undefined && left.pages > minute.remaining;
      const time =
        left === undefined
          ? plan && `; ${plan}`
          : isLimited
            ? `; about ${formatMinutes((left.pages / (minute?.limit ?? 1)) * MINUTE)} left: ${plan}`
            : `; about ${formatMinutes(left.milliseconds)} left`;
      const short = `${read}${results}`;
      shown = [`${read} on ${formatCount(pages, 'page')}${results}${time}`, `${short}${time}`, short];
      console.status(shown);
    },
    /** Shows a countdown after the progress; undefined removes the countdown. */
    showWait(wait: StatusVariants | undefined): void {
      const last = shown?.at(-1);
      const both = last === undefined ? [] : (wait ?? []).map((text) => `${last}; ${text}`);
      console.status(wait === undefined ? shown : [...both, ...wait]);
    },
    end(): void {
      shown = undefined;
      console.status(undefined);
    },
  };

  function timeLeft({ animals, pages, total }: Reading) {
    if (total === undefined || total <= animals) return undefined;
    const pagesLeft = Math.ceil(((total - animals) / animals) * pages);
    return { pages: pagesLeft, milliseconds: ((clock.now() - started) / pages) * pagesLeft };
  }
}

/** Formats a rough duration: from 1.5 minutes on in whole minutes, because they are easier to read than seconds. */
const formatMinutes = (milliseconds: number): string =>
  milliseconds < 1.5 * MINUTE ? formatDuration(milliseconds) : `${Math.round(milliseconds / MINUTE)} minutes`;

/** The footer of a list or a count. `shown` is the number of animals that were printed or counted. */
export function footerOf(
  context: CommandContext,
  connection: Connection,
  selection: Selection,
  { shown, ...reading }: Reading & { shown: number },
): Footer {
  const { found, more } = reading;
  if (found === 0 && more === 'no') return { summary: describeNothing(context, connection, selection) };
  const isCut = more !== 'no' && shown === selection.limit && shown > 1;
  const count =
    shown < found
      ? `${shown} of ${formatCount(found, 'animal')}`
      : `${isCut ? 'the first ' : ''}${formatCount(shown, 'animal')}`;
  const parts = [
    `${count}${footerLabel(context, connection)}`,
    ...describeFilters(selection),
    ...describeCost(context, reading),
  ];
  return { summary: parts.join(', '), warning: describeRest(context, selection, { shown, more }) };
}

function describeNothing(context: CommandContext, connection: Connection, selection: Selection): string {
  const target = targetLabel(connection);
  const filters = describeFilters(selection);
  if (filters.length === 0)
    return `no animals at ${target}. Add one: ${followUpCommand(context, 'add')} <name> --category <id>`;
  const all = `See all: ${followUpCommand(context, 'list')} --all`;
  const categories = `See the categories: ${followUpCommand(context, 'count')} --by category`;
  const isCategory = selection.category && filters.length === 1;
  return `no animals at ${target} with ${filters.join(' and ')}. ${isCategory ? categories : all}`;
}

/** Says that more animals may follow, or how to list them; undefined if none follow, or if `--limit` ended the list. */
function describeRest(
  context: CommandContext,
  { status, limit }: Selection,
  { shown, more }: { shown: number; more: PetPage['more'] },
): string | undefined {
  // A user who gives --limit knows that the list ends there.
  if (more === 'no' || shown === limit) return undefined;
  if (more === 'unknown') return 'there may be more animals, but the service sends no link to a next page';
  if (!context.console.isForPeople)
    return `only the first ${formatCount(shown, 'animal')}; for all, add --all`;
  return `for all: ${followUpCommand(context, 'list')}${status ? ` --status ${onlyStatus(status)}` : ''} --all`;
}

/** The number of requests sent and left, if few are left in a window that does not end soon; otherwise empty. */
function describeCost({ clock, console }: CommandContext, { requests, limits }: Reading): string[] {
  const now = clock.now();
  const scarce = limits().find(
    ({ limit = 100, remaining, reset }) => reset - now > 2 * MINUTE && remaining < limit / 5,
  );
  if (scarce === undefined) return [];
  const { limit, remaining, reset } = scarce;
  const left = `${remaining}${limit === undefined ? '' : ` of ${limit}`} left`;
  return [
    `${formatCount(requests, 'request')} (${left} until ${formatTime(reset, now, console.timeZone())})`,
  ];
}
