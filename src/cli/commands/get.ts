import type { Client } from '../../client/client.ts';
import { ApiFailure, ContractError, InterruptedError } from '../../client/errors.ts';
import { listPages } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import type { Pet } from '../../contract/schemas.ts';
import { int64Argument } from '../arguments.ts';
import type { Command, Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { CliError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { renderPets } from '../output/pets.ts';
import { sameService } from '../same-service.ts';

type Options = { id: bigint[] };

/** After the removal of the operation the list is looked through, but not without end. */
const MAX_PAGES = 10;

export const get: Command<Options> = {
  name: 'get',
  summary: 'show animals by id',
  examples: ['pets get 7', 'pets get 7 8 9 --json'],
  arguments: [
    {
      name: '<id...>',
      description: "the animals' ids",
      parse: int64Argument,
      hint: 'an id is a number, the first column of: pets list --all',
    },
  ],
  async run({ id: ids }, runtime) {
    const { console } = runtime;
    const connection = connectionFor(runtime);
    const pets = await withClient(runtime, connection, (client) => findAll(client, ids, runtime));
    const found = pets.filter((pet) => pet !== undefined);
    const missing = ids.filter((_, i) => pets[i] === undefined);
    if (ids.length > 1 || found.length > 0) await show(found, ids.length === 1, console);
    if (missing.length > 0) throw notFound(missing, runtime);
    return exitCodes.ok;
  },
};

async function show(pets: readonly Pet[], isSingle: boolean, console: Runtime['console']): Promise<void> {
  if (console.json) await console.writeJson(isSingle ? pets[0] : pets);
  else if (pets.length > 0) await console.write(await renderPets(console, pets));
}

/** One after another: a handful of ids is not worth a burst against the rate limit. */
async function findAll(
  client: Client,
  ids: readonly bigint[],
  runtime: Runtime,
): Promise<(Pet | undefined)[]> {
  const pets: (Pet | undefined)[] = [];
  for (const petId of ids) {
    try {
      pets.push(await getOne(client, petId));
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      if (error.status === 410) return lookThrough(client, ids, runtime);
      if (error.status !== 404) throw error;
      pets.push(undefined);
    }
  }
  if (pets.every((pet) => pet === undefined)) await expectService(client);
  return pets;
}

/** Under a wrong base URL every animal seems to be missing. @throws ContractError where there is no list either */
async function expectService(client: Client): Promise<void> {
  try {
    await client.call('listPets', { query: { limit: 1 } });
  } catch (error) {
    // What else goes wrong with it is not what was asked for.
    if (error instanceof InterruptedError || (error instanceof ContractError && error.status === 404))
      throw error;
  }
}

async function getOne(client: Client, petId: bigint): Promise<Pet> {
  const { value: pet } = await client.call('getPet', { params: { petId } });
  if (pet.id !== petId) throw new ContractError(200, `it was asked for animal ${petId} and sent ${pet.id}`);
  return pet;
}

async function lookThrough(
  client: Client,
  ids: readonly bigint[],
  { console }: Runtime,
): Promise<(Pet | undefined)[]> {
  const found = new Map<bigint, Pet>();
  let pages = 0;
  let isWhole = false;
  for await (const { pets, more } of listPages(client, { limit: pageSize.max }, pageSize.max)) {
    for (const pet of pets) if (ids.includes(pet.id)) found.set(pet.id, pet);
    pages++;
    isWhole = more === 'no';
    if (found.size === new Set(ids).size || pages === MAX_PAGES) break;
  }
  const looked = pages === 1 ? 'the first page was' : `the first ${pages} pages were`;
  console.notice(
    `the service has removed this operation; ${looked} looked through. Use: pets list --all --json`,
  );
  const missing = ids.filter((id) => !found.has(id));
  if (missing.length > 0 && !isWhole)
    console.notice(`what lies behind was not looked through: ${missing.join(', ')} may be there`);
  return ids.map((id) => found.get(id));
}

function notFound(ids: readonly bigint[], runtime: Runtime): CliError {
  return new CliError(`there is no animal with ${ids.length === 1 ? 'id' : 'the ids'} ${ids.join(', ')}`, {
    code: 'not_found',
    hint: `see which there are: ${sameService(runtime, 'list')} --all`,
  });
}
