import type { Client } from '../../client/client.ts';
import { ApiFailure, ContractError, InterruptedError, RemovedError } from '../../client/errors.ts';
import { pageSize } from '../../contract/operations.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { connectionFor, followUpCommand, withClient } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { parseInt64Argument } from '../core/parsers.ts';
import { renderPets } from '../output/pets.ts';
import type { Command, CommandContext } from '../program/command.ts';

type Options = { id: bigint[] };

export const get: Command<Options> = {
  name: 'get',
  summary: 'show animals by id',
  examples: ['pets get 7', 'pets get 7 8 9 --json'],
  arguments: [
    {
      name: '<id...>',
      description:
        'ids of the animals; if the service no longer offers single animals, pets searches its list',
      parse: parseInt64Argument,
      hint: 'use the number in the ID column of pets list --all',
    },
  ],
  prints: ['rows', 'json'],
  async run({ id: ids }, context) {
    const { console } = context;
    const connection = connectionFor(context);
    const found = await withClient(context, connection, (client) => findAll(client, ids, context));
    const pets = ids.flatMap((id) => found.get(String(id)) ?? []);
    const missing = ids.filter((id) => !found.has(String(id)));
    if (console.json && ids.length > 1) await console.writeJson(pets);
    else if (console.json && pets.length > 0) await console.writeJson(pets[0]);
    else if (pets.length > 0) await console.write(await renderPets(console, pets));
    if (missing.length === 0) return;
    const what = missing.length === 1 ? 'animal with id' : 'animals with ids';
    const hint = `to list all animals: ${followUpCommand(context, 'list')} --all`;
    throw new CliError(`no ${what} ${missing.join(', ')}`, { code: 'not_found', hint });
  },
};

/** The animals found, by their id as text, because some services send ids as strings. */
type Found = Map<string, ReceivedPet>;

/** Requests the animals one after another, because a burst could exceed the rate limit. */
async function findAll(client: Client, ids: readonly bigint[], context: CommandContext): Promise<Found> {
  const found: Found = new Map();
  for (const petId of ids) {
    try {
      const { value: pet } = await client.call('getPet', { params: { petId } });
      if (String(pet.id) !== String(petId))
        throw new ContractError(200, `expected animal ${petId}, received animal ${pet.id}`);
      found.set(String(petId), pet);
    } catch (error) {
      if (error instanceof RemovedError) return searchList(client, ids, context);
      if (!(error instanceof ApiFailure) || error.status !== 404) throw error;
    }
  }
  if (found.size === 0) await checkBaseUrl(client);
  return found;
}

/** Detects a wrong base URL, with which every animal seems missing. @throws ContractError if the list is missing too */
async function checkBaseUrl(client: Client): Promise<void> {
  try {
    await client.call('listPets', { query: { limit: 1 } });
  } catch (error) {
    // Ignore other errors, because the result of `get` is already known.
    if (error instanceof InterruptedError || (error instanceof ContractError && error.status === 404))
      throw error;
  }
}

/** Searches the whole list, until all animals are found. */
async function searchList(client: Client, ids: readonly bigint[], context: CommandContext): Promise<Found> {
  const { readAll } = await import('../animals/read-all.ts');
  context.console.notice('the service no longer offers single animals; searching its list');
  const wanted = new Set(ids.map(String));
  const found: Found = new Map();
  const select = (pets: readonly ReceivedPet[]) => pets.filter(({ id }) => wanted.has(String(id)));
  const plan = { selection: {}, size: pageSize.max, enough: wanted.size, select };
  const { more } = await readAll(context, client, plan, (pets) => {
    for (const pet of pets) found.set(String(pet.id), pet);
  });
  if (more === 'unknown' && found.size < wanted.size)
    context.console.notice('the service may have more animals, but sends no link to a next page');
  return found;
}
