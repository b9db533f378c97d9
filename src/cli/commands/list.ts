import { type ListedPage, listPages } from '../../client/pages.ts';
import { operations, pageSize } from '../../contract/operations.ts';
import { type PetStatus, petStatuses } from '../../contract/schemas.ts';
import { by } from '../arguments.ts';
import type { Command, Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { usageError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { createPetSink, type PetFormat } from '../output/pet-sink.ts';
import { type Connection, placeOf } from '../profiles/resolve.ts';
import { sameService } from '../same-service.ts';

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
      const size = options.limit ?? (options.all ? pageSize.max : undefined);
      const query = { limit: size, status: options.status };
      const pages = listPages(client, query, size ?? pageSize.default, { all: options.all === true });
      const sink = createPetSink(format, runtime.console);
      let count = 0;
      for await (const page of pages) {
        count += page.pets.length;
        await sink.take(page.pets);
        if (!options.all || page.more !== 'yes') {
          await sink.end();
          tellTheRest(runtime, connection, { count, more: page.more, options, format });
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

type Listed = { count: number; more: ListedPage['more']; options: Options; format: PetFormat };

/** Says on stderr whether there are more, and how to get them; below a table also what it is a table of. */
function tellTheRest(runtime: Runtime, connection: Connection, listed: Listed): void {
  const { console } = runtime;
  const { count, more } = listed;
  if (count === 0 && more === 'no') {
    if (console.isTerminal) console.notice(emptiness(runtime, connection, listed));
  } else if (console.isTerminal && listed.format === 'rows') {
    console.notice(footer(runtime, connection, listed));
  } else if (more === 'yes') {
    console.notice(`${count} shown, there are more: --all`);
  } else if (more === 'unknown') {
    console.notice(
      listed.options.all
        ? `${count} shown; the service does not say whether there are more`
        : `${count} shown, there may be more: the service sends no link to a next page`,
    );
  }
}

function footer(runtime: Runtime, connection: Connection, { count, more, options }: Listed): string {
  const { status } = options;
  // Who reads another profile than the usual one is reminded of it.
  const isUsual = ['profile prod', 'PETS_API_KEY'].includes(connection.keySource);
  const place = isUsual ? '' : ` at ${placeOf(connection)}`;
  const what = `${count === 1 ? '1 animal' : `${count} animals`}${place}${status ? `, status ${status}` : ''}`;
  if (more === 'no') return what;
  if (more === 'yes') return `${what}; there are more: ${again(runtime, status, '--all')}`;
  if (options.all) return `${what}; the service does not say whether there are more`;
  const most = count < pageSize.max ? `: ${again(runtime, status, '--limit', `${pageSize.max}`)}` : '';
  return `${what}; there may be more, the service sends no link to a next page${most}`;
}

function emptiness(runtime: Runtime, connection: Connection, { options: { status } }: Listed): string {
  const place = placeOf(connection);
  return status
    ? `no animal is ${status} at ${place}. Look for any: ${again(runtime, undefined)}`
    : `there are no animals at ${place}. Add one: ${sameService(runtime, 'add')} <name> --category <id>`;
}

const again = (runtime: Runtime, status: PetStatus | undefined, ...more: string[]): string =>
  [sameService(runtime, 'list'), ...(status ? ['--status', status] : []), ...more].join(' ');
