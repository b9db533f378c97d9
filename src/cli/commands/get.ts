import type { Client } from '../../client/client.ts';
import { ApiFailure, ContractError } from '../../client/errors.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { petView } from '../animals/pet-view.ts';
import { connectionFor, followUpCommand, withClient } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { parseInt64Argument } from '../core/values.ts';
import { createPrinter } from '../output/printer.ts';
import { argument, type Command } from '../program/command.ts';

export const get: Command<{ id: bigint[] }> = {
  name: 'get',
  aliases: ['show'],
  summary: 'show animals by id',
  examples: ['pets get 7', 'pets get 7 8 9 --json', 'xargs pets get < ids.txt'],
  arguments: [
    argument(
      '<id...>',
      'ids of the animals',
      parseInt64Argument,
      'use a number from the ID column of pets list; by name: pets find rex; from a file: xargs pets get < ids.txt',
    ),
  ],
  prints: 'rows',
  outputOptions: ['csv', 'excel', 'output'],
  async run({ id: ids }, context) {
    const isSingle = ids.length === 1;
    const printer = createPrinter(context.console, { ...petView(), isSingle });
    const missing: bigint[] = [];
    await withClient(context, connectionFor(context), async (client) => {
      // One request at a time, because of the rate limit.
      for (const petId of ids) {
        const pet = await requestPet(client, petId);
        if (pet) await printer.write([pet]);
        else missing.push(petId);
      }
    });
    if (missing.length < ids.length || !isSingle) await printer.end();
    if (missing.length === 0) return;
    const [list, orders] = ['list', 'orders'].map((name) => followUpCommand(context, name));
    const hint = `to list all animals: ${list} --all; if it is the id of an order: ${orders} ${missing[0]}`;
    throw new CliError(`no animal with id ${missing.join(' or ')}`, { code: 'not_found', hint });
  },
};

/** Requests an animal; undefined if there is none. @throws the errors of `call`, and ContractError for a wrong response */
async function requestPet(client: Client, petId: bigint): Promise<ReceivedPet | undefined> {
  try {
    const { value: pet } = await client.call('getPet', { params: { petId } });
    if (String(pet.id) === String(petId)) return pet;
    throw new ContractError(200, `expected animal ${petId}, received animal ${pet.id}`);
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.status !== 404) throw error;
    // Without an error code, another server may have responded, because the base URL is wrong.
    if (!error.isFromService) throw new ContractError(404, error.message);
    return undefined;
  }
}
