import { IdempotencyKey } from '../../contract/headers.ts';
import { type PetStatus, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { petView } from '../animals/pet-view.ts';
import { connectionFor, followUpCommand, reportTarget, withClient } from '../connection/connect.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { parseInt64Argument, parseWith } from '../core/parsers.ts';
import { shellQuote } from '../core/shell-words.ts';
import { OutputError } from '../output/console.ts';
import { print } from '../output/printer.ts';
import type { Command, CommandContext } from '../program/command.ts';
import { EMPTY_NAME } from '../rows/input.ts';

type Options = { name: string; category?: bigint; status?: PetStatus; idempotencyKey?: string };

const EXAMPLE = 'for example: pets add Rex --category 3';
const CATEGORIES = 'categories are numbers; to list those in use: pets count --by category';

const FILE_NAME = /\.(csv|tsv|ndjson|jsonl|json|xlsx?|ods)$/i;

export const add: Command<Options> = {
  name: 'add',
  summary: 'add an animal; it cannot be changed or deleted later',
  examples: [
    'pets add Rex --category 3',
    'pets add "Fürst Pückler" --category 2 --status pending',
    'pets add Rex --category 3 --json | jq .id',
  ],
  arguments: [
    { name: '<name>', description: "the animal's name; if it begins with a hyphen, put it last, after --" },
  ],
  options: [
    {
      flags: '--category <id>',
      description: 'number of the category (required); those in use: pets count --by category',
      parse: parseInt64Argument,
      hint: CATEGORIES,
    },
    {
      flags: '--status <status>',
      description: 'status of the animal',
      defaultText: 'available',
      choices: petStatuses,
    },
    {
      flags: '--idempotency-key <key>',
      description:
        '1 to 255 ASCII characters; for 24 hours, adding again with the same text adds no second animal, if the service supports it',
      parse: parseWith(IdempotencyKey),
    },
  ],
  prints: 'rows',
  outputOptions: [],
  async run({ name, category, status, idempotencyKey }, context) {
    const { console, platform } = context;
    // An empty name usually comes from an unset variable in a script, and an added animal cannot be removed.
    if (EMPTY_NAME.test(name)) throw usageError('the name is empty', EXAMPLE);
    if (category === undefined) {
      const importing = `to add all animals from a file: ${shellQuote(['pets', 'import', name], platform)}`;
      throw usageError(
        'missing --category <id>',
        FILE_NAME.test(name) ? importing : `${EXAMPLE}; ${CATEGORIES}`,
      );
    }
    const body = { name, categoryId: category, ...(status && { status }) };
    const connection = connectionFor(context);
    reportTarget(context, connection, 'adding at');
    const { value: pet } = await withClient(context, connection, async (client) => {
      if (idempotencyKey === undefined) return client.call('createPet', { body });
      // Only a response shows whether the service supports idempotency keys. The client must know this to retry.
      if (!client.supportsIdempotency()) await client.call('listPets', { query: { limit: 1 } });
      return client.call('createPet', { body }, { idempotencyKey });
    });
    try {
      await print(console, { ...petView(), isSingle: true }, [pet]);
      await console.finish();
    } catch (error) {
      throw outputFailed(error, pet.id, context);
    }
    return exitCodes.ok;
  },
};

/** Adds to an output error that the animal was added. Returns any other error, and that of a closed pipe, unchanged. */
function outputFailed(error: unknown, id: ReceivedPet['id'], context: CommandContext): unknown {
  if (!(error instanceof OutputError) || error.isClosedPipe) return error;
  // `pets get` accepts only int64 ids, but some services use other ids.
  const command =
    typeof id === 'bigint'
      ? `${followUpCommand(context, 'get')} ${id}`
      : `${followUpCommand(context, 'list')} --all`;
  return new CliError(`animal ${id} was added, but the output could not be written: ${error.reason}`, {
    code: 'output_error',
    hint: `do not add it again; to see it: ${command}`,
    cause: error,
  });
}
