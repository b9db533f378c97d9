import { IdempotencyKey } from '../../contract/idempotency-key.ts';
import { type PetStatus, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import {
  connectionFor,
  followUpCommand,
  reportTarget,
  targetLabel,
  withClient,
} from '../connection/connect.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { parseInt64Argument, parseWith } from '../core/parsers.ts';
import { OutputError } from '../output/console.ts';
import { renderPets } from '../output/pets.ts';
import type { Command, CommandContext } from '../program/command.ts';
import { EMPTY_NAME, type RowFormat, rowFormats } from '../rows/row.ts';

type Options = One & Partial<Many> & { dryRun?: boolean };
type One = { name?: string; category?: bigint; status?: PetStatus; idempotencyKey?: string };
type Many = {
  from: string;
  format: RowFormat;
  skipAdded: boolean;
  restart: boolean;
  settle: boolean;
  keepGoing: boolean;
  allowEmptyNames: boolean;
  yes: boolean;
};

export const add: Command<Options> = {
  name: 'add',
  summary: 'add an animal, or all animals from a file',
  examples: [
    'pets add Rex --category 3',
    'pets add "Fürst Pückler" --category 2 --status pending',
    'pets add Rex --category 3 --json | jq .id',
    'pets add --from animals.csv',
  ],
  arguments: [{ name: '[name]', description: "the animal's name" }],
  options: [
    { flags: '--category <id>', description: 'category of the animal', parse: parseInt64Argument },
    {
      flags: '--status <status>',
      description: 'status of the animal (default: available)',
      choices: petStatuses,
    },
    {
      flags: '--idempotency-key <key>',
      description: 'adding again with the same key does not add a second animal',
      parse: parseWith(IdempotencyKey),
    },
    {
      flags: '--from <file>',
      description:
        'add all animals from a file, or from standard input (-); if interrupted, rerun the command to resume',
    },
    {
      flags: '--format <format>',
      description: "file format, if the extension doesn't show it",
      choices: rowFormats,
    },
    { flags: '--skip-added', description: 'skip rows already added from an earlier version of the file' },
    { flags: '--restart', description: 'add every row, including those that were already added' },
    {
      flags: '--settle',
      description:
        'first compare rows that may have been added with the inventory, and add those that were not added',
    },
    {
      flags: '--keep-going',
      description: 'continue even if the first 20 rows are rejected with the same error',
    },
    { flags: '--allow-empty-names', description: 'also add rows whose name is empty' },
    { flags: '--yes', description: "don't ask before adding rows from a file to profile prod" },
    { flags: '--dry-run', description: 'show what would be sent without sending it' },
  ],
  prints: ['rows', 'json'],
  check(options) {
    if (options.from === undefined) checkOne(options);
    else checkMany(options);
  },
  async run({ from, ...options }, context) {
    if (from === undefined) return addOne(options as Required<Pick<One, 'name' | 'category'>>, context);
    const { addFrom } = await import('../bulk/run.ts');
    return addFrom({ from, ...options }, context);
  },
};

const HELP = 'see: pets help add';
const EXAMPLE = 'for example: pets add Rex --category 3';

/** Matches a name that looks like a file name. The user has probably forgotten `--from`. */
const FILE_NAME = /\.(csv|tsv|ndjson|jsonl|json|xlsx?|ods)$/i;

function checkOne({
  name,
  category,
  format,
  skipAdded,
  restart,
  settle,
  keepGoing,
  allowEmptyNames,
  yes,
}: Options): void {
  const given = {
    '--format': format,
    '--skip-added': skipAdded,
    '--restart': restart,
    '--settle': settle,
    '--keep-going': keepGoing,
    '--allow-empty-names': allowEmptyNames,
    '--yes': yes,
  };
  const excess = firstGiven(given);
  if (excess !== undefined) throw usageError(`${excess} can only be used with --from`, HELP);
  if (name === undefined) throw usageError('missing name of the animal', EXAMPLE);
  // An empty name usually comes from an unset variable in a script. An animal cannot be removed again.
  if (EMPTY_NAME.test(name)) throw usageError('the name is empty', EXAMPLE);
  if (category === undefined) {
    const fromFile = `to add all animals from a file: pets add --from ${name}`;
    throw usageError('missing --category', FILE_NAME.test(name) ? fromFile : EXAMPLE);
  }
}

/** The name of the first option that has a value. */
const firstGiven = (values: Record<string, unknown>): string | undefined =>
  Object.keys(values).find((name) => values[name] !== undefined);

function checkMany({ name, category, status, idempotencyKey, restart, skipAdded, settle }: Options): void {
  const given = {
    'a name': name,
    '--category': category,
    '--status': status,
    '--idempotency-key': idempotencyKey,
  };
  const excess = firstGiven(given);
  if (excess !== undefined) {
    throw usageError(
      `${excess} and --from cannot be combined`,
      name === undefined
        ? 'put names, categories and statuses into the file'
        : 'put quotes around a file name with spaces',
    );
  }
  if (restart && skipAdded) {
    throw usageError(
      '--restart and --skip-added cannot be combined',
      '--skip-added adds the rows that were not added before; --restart adds every row',
    );
  }
  if (restart && settle) {
    throw usageError(
      '--restart and --settle cannot be combined',
      '--settle compares the rows of earlier runs; --restart ignores earlier runs',
    );
  }
}

/** Returns an error that says that the animal was added, so that the user does not run the command again. */
function outputFailed(error: unknown, id: ReceivedPet['id'], context: CommandContext): unknown {
  if (!(error instanceof OutputError) || error.code === 'EPIPE') return error;
  // `pets get` accepts only int64 ids, but some services use other ids.
  const command =
    typeof id === 'bigint'
      ? `${followUpCommand(context, 'get')} ${id}`
      : `${followUpCommand(context, 'list')} --all`;
  return new CliError(`animal ${id} was added, but its data could not be written: ${error.message}`, {
    code: 'output_error',
    hint: `do not add it again; to see it: ${command}`,
    cause: error,
  });
}

async function addOne(
  { name, category, status, idempotencyKey, dryRun }: Options & Required<Pick<One, 'name' | 'category'>>,
  context: CommandContext,
): Promise<number> {
  const { console } = context;
  const body = { name, categoryId: category, ...(status && { status }) };
  const connection = connectionFor(context);
  if (dryRun) {
    console.notice(`dry run: would add this animal at ${targetLabel(connection)}`);
    await console.writeJson(body);
    return exitCodes.ok;
  }
  reportTarget(context, connection, 'adding at');
  const { value: pet } = await withClient(context, connection, async (client) => {
    if (idempotencyKey === undefined) return client.call('createPet', { body });
    // Find out whether the service supports idempotency keys before a response can be lost.
    if (!client.supportsIdempotency()) await client.call('listPets', { query: { limit: 1 } });
    return client.call('createPet', { body }, { idempotencyKey });
  });
  try {
    if (console.json) await console.writeJson(pet);
    else await console.write(await renderPets(console, [pet]));
    await console.finish();
  } catch (error) {
    throw outputFailed(error, pet.id, context);
  }
  return exitCodes.ok;
}
