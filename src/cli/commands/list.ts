import { pageSize } from '../../contract/api.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { petView } from '../animals/pet-view.ts';
import {
  describeFilters,
  filterOptions,
  hasOwnFilter,
  limitOption,
  listOptions,
  orderOf,
  parseNameText,
  type Reading,
  readPages,
  type Selection,
} from '../animals/selection.ts';
import {
  connectionFor,
  followUpCommand,
  footerLabel,
  targetLabel,
  withClient,
} from '../connection/connect.ts';
import { usageError } from '../core/errors.ts';
import { sortByField } from '../core/sort.ts';
import { fieldAt, fieldNames } from '../core/values.ts';
import { createPrinter, type Footer } from '../output/printer.ts';
import { formatCount, listNames } from '../output/text.ts';
import type { Connection } from '../profiles/profile.ts';
import { argument, type Command, type CommandContext, option } from '../program/command.ts';
import { allOutputOptions } from '../program/program.ts';

export const list: Command<Selection> = {
  name: 'list',
  aliases: ['ls'],
  summary: 'list animals',
  examples: [
    'pets list --all --json | jq length',
    'pets list --category 3 --sort name --columns name,status',
    'pets list --all --excel --output animals.csv',
  ],
  extraHint: 'for all animals: pets list --all; only some: pets list --status sold; by name: pets find rex',
  options: [
    option('--all', 'list all animals').conflicts('limit'),
    ...filterOptions,
    ...listOptions,
    limitOption('100 in a table, else 20; all with --category, several --status, --sort or --output'),
  ],
  prints: 'rows',
  outputOptions: allOutputOptions,
  run: listAnimals,
};

export const find: Command<Selection & { text: string }> = {
  name: 'find',
  summary: 'find animals by name',
  examples: ['pets find rex', 'pets find rex --category 3 --status available'],
  arguments: [argument('<text>', 'part of the name; case and accents do not matter', parseNameText)],
  extraHint: 'put quotes around a text with spaces: pets find "Lady Bella"',
  options: [...filterOptions, ...listOptions, limitOption('all')],
  prints: 'rows',
  outputOptions: allOutputOptions,
  run: ({ text, ...selection }, context) => listAnimals({ ...selection, name: text }, context),
};

/** Prints the selected animals and a footer. @throws CliError, such as for an unknown column; the errors of `withClient` */
async function listAnimals(selection: Selection, context: CommandContext): Promise<undefined> {
  const { sort, columns = [], all, limit, output } = selection;
  const isWhole = all === true || hasOwnFilter(selection) || (sort ?? output) !== undefined;
  const { console } = context;
  // Either number costs one request. A script may depend on the default of the service.
  const defaultCount = console.format === 'table' ? pageSize.max : pageSize.default;
  const enough = limit ?? (isWhole ? Number.POSITIVE_INFINITY : defaultCount);
  const connection = connectionFor(context);
  const printer = createPrinter(console, petView(selection.columns));
  // If animals must be sorted, or a column may be mistyped, nothing is printed before all animals are known.
  const isKept = sort !== undefined || columns.length > 0;
  const kept: ReceivedPet[] = [];
  const options = {
    enough: sort === undefined ? enough : Number.POSITIVE_INFINITY,
    onResults: (pets: readonly ReceivedPet[]) => (isKept ? void kept.push(...pets) : printer.write(pets)),
    showStatus: console.showStatus,
  };
  const reading = await withClient(context, connection, (client) => readPages(client, selection, options));
  const missing = columns.filter((field) => kept.every((pet) => fieldAt(pet, field) === undefined));
  if (missing.length > 0 && kept.length > 0)
    throw usageError(
      `--columns: no listed animal has the field ${missing.join(' or ')}`,
      `use some of these fields: ${listNames(fieldNames(kept))}`,
    );
  const rest = sort === undefined ? kept : sortByField(kept, orderOf(sort)).slice(0, enough);
  await printer.write(rest);
  const shown = sort === undefined ? reading.found : rest.length;
  const isPage = !isWhole && enough < pageSize.max;
  await printer.end(footerOf(context, connection, selection, { ...reading, shown, isPage }));
}

/** The footer of a list or a count of `shown` animals. With `isPage`, `--all` would request larger pages than this list. */
export function footerOf(
  context: CommandContext,
  connection: Connection,
  selection: Selection,
  { found, more, shown, isPage }: Pick<Reading, 'found' | 'more'> & { shown: number; isPage?: boolean },
): Footer {
  const filters = describeFilters(selection);
  const command = (name: string) => followUpCommand(context, name);
  if (found === 0 && more === 'no') {
    const all = selection.category ? `${command('count')} --by category` : `${command('list')} --all`;
    const add = `Add one: ${command('add')} <name> --category <id>`;
    const end = filters.length === 0 ? `. ${add}` : ` with ${filters.join(' and ')}. Try: ${all}`;
    return { summary: `no animals at ${targetLabel(connection)}${end}` };
  }
  const isCut = more !== 'no' && shown === selection.limit && shown > 1;
  const start = shown < found ? `${shown} of ` : isCut ? 'the first ' : '';
  const count = `${start}${formatCount(found, 'animal')}`;
  const summary = [`${count}${footerLabel(connection)}`, ...filters].join(', ');
  // A user who gives --limit knows that the list ends there.
  if (more === 'no' || shown === selection.limit) return { summary };
  if (more === 'yes') return { summary, warning: 'more animals follow; for all, add --all' };
  const warning = 'there may be more animals, but the service sends no link to a next page';
  return { summary, warning: isPage ? `${warning}; to ask for more at once, add --all` : warning };
}
