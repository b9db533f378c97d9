import type { PetPage } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { connectionFor, followUpCommand, footerLabel, targetLabel } from '../connection/connect.ts';
import { usageError } from '../core/errors.ts';
import { fieldAt, fieldNames, sortByField } from '../core/fields.ts';
import { createPrinter, type Footer } from '../output/printer.ts';
import { formatCount, listNames } from '../output/text.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { petView } from './pet-view.ts';
import { type Reading, readAnimals } from './reading.ts';
import { describeFilters, hasOwnFilter, onlyStatus, type Selection } from './selection.ts';

// Lists animals for pets list and pets find, and says in a footer what the list leaves out.

/** Prints the selected animals and a footer, for `pets list` and `pets find`. @throws CliError for an unknown column */
export async function listAnimals(selection: Selection, context: CommandContext): Promise<undefined> {
  const { sort, columns, all, limit, output } = selection;
  const isWhole = all === true || hasOwnFilter(selection) || (sort ?? output) !== undefined;
  const enough = limit ?? (isWhole ? Number.POSITIVE_INFINITY : pageSize.default);
  const connection = connectionFor(context);
  const printer = createPrinter(context.console, petView(columns));
  /** The columns that no animal has had so far, because their names may be mistyped. Nothing is printed before they exist. */
  const missing = new Set(columns);
  const waiting: ReceivedPet[] = [];
  const reading = await readAnimals(context, connection, selection, {
    enough: sort === undefined ? enough : Number.POSITIVE_INFINITY,
    async onResults(pets) {
      waiting.push(...pets);
      for (const field of missing)
        if (pets.some((pet) => fieldAt(pet, field) !== undefined)) missing.delete(field);
      if (sort === undefined && missing.size === 0) await printer.write(waiting.splice(0));
    },
  });
  if (missing.size > 0 && waiting.length > 0)
    throw usageError(
      `--columns: no animal has the field ${[...missing].join(' or ')}`,
      `use some of these fields: ${listNames(fieldNames(waiting))}`,
    );
  const rest = sort === undefined ? waiting : sortByField(waiting, sort).slice(0, enough);
  await printer.write(rest);
  const shown = sort === undefined ? reading.found : rest.length;
  await printer.end(footerOf(context, connection, selection, { ...reading, shown }));
  return undefined;
}

/** The footer of a list or a count. `shown` is the number of animals that were printed or counted. */
export function footerOf(
  context: CommandContext,
  connection: Connection,
  selection: Selection,
  { found, more, shown }: Pick<Reading, 'found' | 'more'> & { shown: number },
): Footer {
  if (found === 0 && more === 'no') return { summary: describeNothing(context, connection, selection) };
  const isCut = more !== 'no' && shown === selection.limit && shown > 1;
  const count =
    shown < found
      ? `${shown} of ${formatCount(found, 'animal')}`
      : `${isCut ? 'the first ' : ''}${formatCount(shown, 'animal')}`;
  const summary = [`${count}${footerLabel(connection)}`, ...describeFilters(selection)].join(', ');
  return { summary, warning: describeRest(context, selection, { shown, more }) };
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
