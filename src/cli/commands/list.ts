import type { ListedPage } from '../../client/pages.ts';
import { operations, pageSize } from '../../contract/operations.ts';
import { type PetStatus, petStatuses } from '../../contract/schemas.ts';
import { by } from '../arguments.ts';
import { usageError } from '../cli-error.ts';
import type { Command, Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../exit-codes.ts';
import { createPetSink, type PetFormat } from '../output/pet-sink.ts';

type Options = { status?: PetStatus; limit?: number; all?: boolean; ndjson?: boolean; csv?: boolean };

const { limit } = operations.listPets.query.shape;

export const list: Command<Options> = {
  name: 'list',
  summary: 'list animals',
  examples: [
    'pets list --status available',
    'pets list --all --json | jq length',
    'pets list --all --csv > animals.csv',
  ],
  options: [
    { flags: '--status <status>', description: 'only animals with this status', choices: petStatuses },
    {
      flags: '--limit <number>',
      description: `animals a page, ${pageSize.min} to ${pageSize.max} (default: ${pageSize.default})`,
      parse: by(limit),
    },
    { flags: '--all', description: 'every page, not only the first' },
    { flags: '--ndjson', description: 'one JSON object a line, as the pages come' },
    { flags: '--csv', description: 'comma-separated values with a header' },
  ],
  async run(options, runtime) {
    const format = chooseFormat(options, runtime);
    const connection = connectionFor(runtime);
    await withClient(runtime, connection, async (client) => {
      const { listPages } = await import('../../client/pages.ts');
      const size = options.limit ?? (options.all ? pageSize.max : undefined);
      const query = { limit: size, status: options.status };
      const pages = listPages(client, query, size ?? pageSize.default, { paced: options.all === true });
      const sink = createPetSink(format, runtime.console);
      let count = 0;
      for await (const page of pages) {
        count += page.pets.length;
        await sink.take(page.pets);
        if (!options.all || page.more !== 'yes') {
          await sink.end();
          tellTheRest(runtime, page, count, options);
          return;
        }
      }
    });
    return exitCodes.ok;
  },
};

function chooseFormat({ ndjson, csv }: Options, { globals }: Runtime): PetFormat {
  const asked = [globals.json && 'json', ndjson && 'ndjson', csv && 'csv'].filter(
    (name) => name !== false && name,
  );
  if (asked.length > 1)
    throw usageError(`--${asked.join(' and --')} exclude each other`, 'choose one of them');
  return (asked[0] as PetFormat | undefined) ?? 'rows';
}

/** Says on stderr whether there are more, and how to get them. */
function tellTheRest({ console }: Runtime, page: ListedPage, count: number, options: Options): void {
  if (page.more === 'yes') console.notice(`${count} shown, there are more: --all`);
  else if (page.more === 'unknown') {
    console.notice(
      options.all
        ? `${count} shown; the service does not say whether there are more`
        : `${count} shown, there may be more: the service sends no link to a next page`,
    );
  } else if (count === 0 && console.isTerminal) {
    console.notice(
      options.status
        ? `no animal is ${options.status}`
        : 'the inventory is empty: pets add <name> --category <id>',
    );
  }
}
