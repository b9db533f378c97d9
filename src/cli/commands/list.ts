import { listPages, type PetPage } from '../../client/pages.ts';
import { operations, pageSize } from '../../contract/operations.ts';
import { type PetStatus, petStatuses } from '../../contract/schemas.ts';
import { connectionFor, followUpCommand, targetLabel, withClient } from '../connection/connect.ts';
import { listFormats } from '../output/format.ts';
import { formatCount } from '../output/format-count.ts';
import { createPetWriter } from '../output/pet-writer.ts';
import type { Connection } from '../profiles/profile.ts';
import type { Command, CommandContext } from '../program/command.ts';
import { parseWith } from '../program/parsers.ts';

type Options = { status?: PetStatus; limit?: number; all?: boolean };

const { limit } = operations.listPets.query.shape;

export const list: Command<Options> = {
  name: 'list',
  summary: 'list animals',
  examples: [
    'pets list --status available',
    'pets list --all --json | jq length',
    'pets list --all --output animals.csv',
  ],
  options: [
    { flags: '--status <status>', description: 'only list animals with this status', choices: petStatuses },
    {
      flags: '--limit <number>',
      description: `animals per page, ${pageSize.min} to ${pageSize.max} (default: ${pageSize.default}; ${pageSize.max} with --all)`,
      parse: parseWith(limit),
    },
    { flags: '--all', description: 'fetch all pages' },
  ],
  prints: listFormats,
  async run(options, context) {
    const connection = connectionFor(context);
    await withClient(context, connection, async (client) => {
      const size = options.limit ?? (options.all ? pageSize.max : undefined);
      const query = { limit: size, status: options.status };
      const pages = listPages(client, query, size ?? pageSize.default, { all: options.all === true });
      const writer = createPetWriter(context.console);
      let count = 0;
      for await (const page of pages) {
        count += page.pets.length;
        await writer.write(page.pets);
        if (!options.all || page.more !== 'yes') {
          await writer.end();
          const notice = noticeBelow(context, connection, { count, more: page.more }, options);
          if (notice !== undefined) context.console.notice(notice);
          return;
        }
      }
    });
  },
};

/** The notice below a list: how many animals it shows, and how to list more. Undefined if no notice is needed. */
function noticeBelow(
  context: CommandContext,
  connection: Connection,
  { count, more }: { count: number; more: PetPage['more'] },
  { status, all }: Options,
): string | undefined {
  const { isTerminal, format } = context.console;
  const target = targetLabel(connection);
  const isEmpty = isTerminal && count === 0 && more === 'no';
  if (isEmpty && status)
    return `no ${status} animals at ${target}. See all: ${followUpCommand(context, 'list')}`;
  if (isEmpty)
    return `no animals at ${target}. Add one: ${followUpCommand(context, 'add')} <name> --category <id>`;
  const animals = formatCount(count, 'animal');
  const unknown = 'There may be more animals; the service sends no link to a next page';
  if (!isTerminal || format !== 'rows') {
    if (more === 'no') return undefined;
    return `${animals} shown. ${more === 'yes' ? 'For all animals, add --all' : unknown}`;
  }
  // For the most common sources of the key, omit the name of the service to keep the notice short.
  const isUsual = ['profile prod', 'PETS_API_KEY'].includes(connection.keySource);
  const filter = status ? `, status ${status}` : '';
  const shown = `${animals}${isUsual ? '' : ` at ${target}`}${filter}`;
  const command = `${followUpCommand(context, 'list')}${status ? ` --status ${status}` : ''}`;
  if (more === 'no') return shown;
  if (more === 'yes') return `${shown}. More available: ${command} --all`;
  if (all || count >= pageSize.max) return `${shown}. ${unknown}`;
  return `${shown}. ${unknown}. For a larger page: ${command} --limit ${pageSize.max}`;
}
