import { IdempotencyKey } from '../../contract/idempotency-key.ts';
import { operations } from '../../contract/operations.ts';
import type { PetStatus } from '../../contract/schemas.ts';
import { by, int64Argument } from '../arguments.ts';
import type { Command } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../exit-codes.ts';
import { renderPets } from '../output/pets.ts';

type Options = {
  name: string;
  category: bigint;
  status?: PetStatus;
  idempotencyKey?: string;
  dryRun?: boolean;
};

const { shape } = operations.createPet.body;

export const add: Command<Options> = {
  name: 'add',
  summary: 'add an animal',
  examples: [
    'pets add Rex --category 3',
    "pets add 'Fürst Pückler' --category 2 --status pending",
    'pets add Rex --category 3 --json | jq .id',
  ],
  arguments: [{ name: '<name>', description: "the animal's name" }],
  options: [
    { flags: '--category <id>', description: 'its category', parse: int64Argument, required: true },
    { flags: '--status <status>', description: 'its status (default: available)', parse: by(shape.status) },
    {
      flags: '--idempotency-key <key>',
      description: 'repeat a creation without adding the animal twice',
      parse: by(IdempotencyKey),
    },
    { flags: '--dry-run', description: 'check and show what would be sent, and send nothing' },
  ],
  async run({ name, category, status, idempotencyKey, dryRun }, runtime) {
    const { console } = runtime;
    const body = { name, categoryId: category, ...(status && { status }) };
    const connection = connectionFor(runtime);
    if (dryRun) {
      console.notice(
        `nothing is sent: this would be added at ${connection.baseUrl} (profile ${connection.profile})`,
      );
      await console.writeJson(body);
      return exitCodes.ok;
    }
    const { value: pet } = await withClient(runtime, connection, (client) =>
      client.call('createPet', { body }, idempotencyKey ? { idempotencyKey } : {}),
    );
    if (console.json) await console.writeJson(pet);
    else await console.write(await renderPets(console, [pet]));
    return exitCodes.ok;
  },
};
