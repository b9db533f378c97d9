import type { Client } from '../../client/client.ts';
import { ApiFailure, ContractError, InterruptedError } from '../../client/errors.ts';
import { listPages } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { connectionFor, followUpCommand, withClient } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { parseInt64Argument } from '../core/parsers.ts';
import { renderPets } from '../output/pets.ts';
import type { Command, CommandContext } from '../program/command.ts';

type Options = { id: bigint[] };

/** The maximum number of pages to search if the service no longer gets animals by id. */
const MAX_PAGES = 10;

export const get: Command<Options> = {
  name: 'get',
  summary: 'show animals by id',
  examples: ['pets get 7', 'pets get 7 8 9 --json'],
  arguments: [
    {
      name: '<id...>',
      description: 'ids of the animals',
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
      if (!(error instanceof ApiFailure)) throw error;
      if (error.status === 410) return searchList(client, ids, context);
      if (error.status !== 404) throw error;
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

async function searchList(
  client: Client,
  ids: readonly bigint[],
  { console }: CommandContext,
): Promise<Found> {
  const missing = new Set(ids.map(String));
  const found: Found = new Map();
  let pages = 0;
  let isComplete = false;
  for await (const { pets, more } of listPages(client, { limit: pageSize.max }, pageSize.max)) {
    for (const pet of pets) if (missing.delete(String(pet.id))) found.set(String(pet.id), pet);
    pages++;
    isComplete = more === 'no';
    if (missing.size === 0 || pages === MAX_PAGES) break;
  }
  const searched = pages === 1 ? 'first page' : `first ${pages} pages`;
  console.notice(
    `the service can no longer get animals by id; searched the ${searched} of the list. Use instead: pets list --all --json`,
  );
  if (missing.size > 0 && !isComplete)
    console.notice(
      `the remaining pages were not searched and may contain these ids: ${[...missing].join(', ')}`,
    );
  return found;
}
