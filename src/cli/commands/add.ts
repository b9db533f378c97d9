import { IdempotencyKey } from '../../contract/idempotency-key.ts';
import { type PetStatus, petStatuses } from '../../contract/schemas.ts';
import { by, int64Argument } from '../arguments.ts';
import type { Command, Runtime } from '../command.ts';
import { connectionFor, tellPlace, withClient } from '../connect.ts';
import { CliError, usageError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { type RowFormat, rowFormats } from '../input/row-formats.ts';
import { OutputError } from '../output/console.ts';
import { renderPets } from '../output/pets.ts';
import { placeOf } from '../profiles/resolve.ts';
import { sameService } from '../same-service.ts';

type Options = One & Partial<Many> & { dryRun?: boolean };
type One = { name?: string; category?: bigint; status?: PetStatus; idempotencyKey?: string };
type Many = { from: string; format: RowFormat; skipAdded: boolean; restart: boolean };

export const add: Command<Options> = {
  name: 'add',
  summary: 'add an animal, or all animals of a file',
  examples: [
    'pets add Rex --category 3',
    'pets add "Fürst Pückler" --category 2 --status pending',
    'pets add Rex --category 3 --json | jq .id',
    'pets add --from animals.csv',
  ],
  arguments: [{ name: '[name]', description: "the animal's name" }],
  options: [
    { flags: '--category <id>', description: 'its category', parse: int64Argument },
    { flags: '--status <status>', description: 'its status (default: available)', choices: petStatuses },
    {
      flags: '--idempotency-key <key>',
      description: 'repeat a creation without adding the animal twice',
      parse: by(IdempotencyKey),
    },
    {
      flags: '--from <file>',
      description:
        'add every animal of a file, or of standard input (-); interrupted, the same command goes on',
    },
    {
      flags: '--format <format>',
      description: "the file's form, where its name does not tell",
      choices: rowFormats,
    },
    {
      flags: '--skip-added',
      description: 'of a file that was changed since, add only the rows that no earlier run of it has added',
    },
    {
      flags: '--restart',
      description: 'add every row of the file, those that are added already a second time',
    },
    { flags: '--dry-run', description: 'check and show what would be sent, and send nothing' },
  ],
  check(options) {
    if (options.from === undefined) checkOne(options);
    else checkMany(options);
  },
  async run({ from, ...options }, runtime) {
    if (from === undefined) return addOne(options as Required<Pick<One, 'name' | 'category'>>, runtime);
    const { addFrom } = await import('../bulk/run.ts');
    return addFrom({ from, ...options }, runtime);
  },
};

const HELP = 'see: pets help add';
const EXAMPLE = 'for example: pets add Rex --category 3';

/** What somebody has who forgot --from. */
const FILE_NAME = /\.(csv|tsv|ndjson|jsonl|json|xlsx?|ods)$/i;

function checkOne({ name, category, format, skipAdded, restart }: Options): void {
  if (format !== undefined || skipAdded || restart)
    throw usageError('--format, --skip-added and --restart belong to --from', HELP);
  if (name === undefined) throw usageError('the name of the animal is missing', EXAMPLE);
  // Mostly an unset variable of a script; and nothing can take the animal away again.
  if (name.trim() === '') throw usageError('the name is empty', EXAMPLE);
  if (category === undefined) {
    const fromFile = `to add every animal of a file: pets add --from ${name}`;
    throw usageError('--category is missing', FILE_NAME.test(name) ? fromFile : EXAMPLE);
  }
}

function checkMany({ name, category, status, idempotencyKey }: Options): void {
  const given = {
    'a name': name,
    '--category': category,
    '--status': status,
    '--idempotency-key': idempotencyKey,
  };
  const [excess] = Object.entries(given).find(([, value]) => value !== undefined) ?? [];
  if (excess !== undefined) {
    throw usageError(
      `${excess} and --from exclude each other`,
      name === undefined
        ? 'put names, categories and statuses into the file'
        : 'put quotes around a file name of several words',
    );
  }
}

/** Whoever takes the failure for one of the creation would add the animal again. */
function unwritten(error: unknown, id: bigint, runtime: Runtime): unknown {
  if (!(error instanceof OutputError) || error.code === 'EPIPE') return error;
  return new CliError(`animal ${id} was added, but that could not be written: ${error.message}`, {
    code: 'output_error',
    hint: `do not add it again; look at it: ${sameService(runtime, 'get')} ${id}`,
    cause: error,
  });
}

async function addOne(
  { name, category, status, idempotencyKey, dryRun }: Options & Required<Pick<One, 'name' | 'category'>>,
  runtime: Runtime,
): Promise<number> {
  const { console } = runtime;
  const body = { name, categoryId: category, ...(status && { status }) };
  const connection = connectionFor(runtime);
  if (dryRun) {
    console.notice(`nothing is sent: this would be added at ${placeOf(connection)}`);
    await console.writeJson(body);
    return exitCodes.ok;
  }
  tellPlace(runtime, connection, 'adding at');
  const { value: pet } = await withClient(runtime, connection, async (client) => {
    if (idempotencyKey === undefined) return client.call('createPet', { body });
    // Whether the service honours a key has to be known before an answer can be lost.
    if (!client.honoursIdempotency()) await client.call('listPets', { query: { limit: 1 } });
    return client.call('createPet', { body }, { idempotencyKey });
  });
  try {
    if (console.json) await console.writeJson(pet);
    else await console.write(await renderPets(console, [pet]));
  } catch (error) {
    throw unwritten(error, pet.id, runtime);
  }
  return exitCodes.ok;
}
