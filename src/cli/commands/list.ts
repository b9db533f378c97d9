import type { ListedPage } from '../../client/pages.ts';
import { stringifyJson } from '../../contract/json.ts';
import { operations, pageSize } from '../../contract/operations.ts';
import type { Pet, PetStatus } from '../../contract/schemas.ts';
import { by } from '../arguments.ts';
import { usageError } from '../cli-error.ts';
import type { Command, Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../exit-codes.ts';
import { petFields, renderPets } from '../output/pets.ts';

type Options = { status?: PetStatus; limit?: number; all?: boolean; ndjson?: boolean; csv?: boolean };

const { limit, status } = operations.listPets.query.shape;

export const list: Command<Options> = {
  name: 'list',
  summary: 'list animals',
  examples: [
    'pets list --status available',
    'pets list --all --json | jq length',
    'pets list --all --csv > animals.csv',
  ],
  options: [
    { flags: '--status <status>', description: 'only animals with this status', parse: by(status) },
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
      const pages = listPages(client, { limit: size, status: options.status }, size ?? pageSize.default);
      const sink = createSink(format, runtime);
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

type Format = 'rows' | 'json' | 'ndjson' | 'csv';

function chooseFormat({ ndjson, csv }: Options, { globals }: Runtime): Format {
  const asked = [globals.json && 'json', ndjson && 'ndjson', csv && 'csv'].filter(
    (name) => name !== false && name,
  );
  if (asked.length > 1)
    throw usageError(`--${asked.join(' and --')} exclude each other`, 'choose one of them');
  return (asked[0] as Format | undefined) ?? 'rows';
}

type Sink = { take(pets: readonly Pet[]): Promise<void>; end(): Promise<void> };

/**
 * Writes page by page what may be written page by page. A table needs all rows for its widths, and a JSON document
 * is written only once it is complete: on a failure stdout stays empty.
 */
function createSink(format: Format, runtime: Runtime): Sink {
  const { console } = runtime;
  const kept: Pet[] = [];
  const keep = async (pets: readonly Pet[]) => {
    for (const pet of pets) kept.push(pet);
  };
  switch (format) {
    case 'json':
      return { take: keep, end: () => console.writeJson(kept) };
    case 'ndjson':
      return {
        take: (pets) => console.write(pets.map((pet) => `${stringifyJson(pet)}\n`).join('')),
        end: async () => {},
      };
    case 'csv':
      return createCsvSink(runtime);
    case 'rows':
      if (!console.isTerminal) {
        return { take: async (pets) => console.write(await renderPets(console, pets)), end: async () => {} };
      }
      return {
        take: keep,
        end: async () => {
          if (kept.length > 0) await console.write(await renderPets(console, kept));
        },
      };
  }
}

function createCsvSink({ console }: Runtime): Sink {
  const write = async (rows: Parameters<typeof import('../output/csv.ts').renderCsv>[0]) => {
    const { renderCsv } = await import('../output/csv.ts');
    await console.write(renderCsv(rows));
  };
  let isFirst = true;
  return {
    async take(pets) {
      const rows = pets.map(({ id, name, categoryId, status = '' }) => [id, name, categoryId, status]);
      await write(isFirst ? [[...petFields], ...rows] : rows);
      isFirst = false;
    },
    end: async () => {},
  };
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
