import type { Client } from '../../client/client.ts';
import { ApiFailure, ContractError } from '../../client/errors.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { petView } from '../animals/pet-view.ts';
import { createProgress, readPages } from '../animals/reading.ts';
import { connectionFor, followUpCommand, withClient } from '../connection/connect.ts';
import { CliError } from '../core/errors.ts';
import { parseInt64Argument } from '../core/parsers.ts';
import { createPrinter } from '../output/printer.ts';
import { formatCount } from '../output/text.ts';
import type { Command, CommandContext } from '../program/command.ts';

type Options = { id: bigint[] };

export const get: Command<Options> = {
  name: 'get',
  summary: 'show animals by id',
  examples: ['pets get 7', 'pets get 7 8 9 --json', 'xargs pets get < ids.txt'],
  arguments: [
    {
      name: '<id...>',
      description: 'ids of the animals',
      parse: parseInt64Argument,
      hint: 'use a number from the ID column of pets list; to search by name: pets find <text>',
    },
  ],
  prints: 'rows',
  outputOptions: ['csv', 'excel', 'output'],
  async run({ id: ids }, context) {
    const connection = connectionFor(context);
    const progress = createProgress(context);
    const isSingle = ids.length === 1;
    const printer = createPrinter(context.console, { ...petView(), isSingle });
    const missing: bigint[] = [];
    const onRead: OnRead = (id, pet) => (pet ? printer.write([pet]) : void missing.push(id));
    // One request at a time, because of the rate limit.
    const work = async (client: Client) => {
      for (const [i, petId] of ids.entries()) {
        const pet = await requestPet(client, petId);
        if (pet === 'removed') return searchList(context, client, ids.slice(i), progress, onRead);
        await onRead(petId, pet);
      }
      return undefined;
    };
    await withClient(context, connection, work, { showWait: progress.showWait });
    if (missing.length < ids.length || !isSingle) await printer.end();
    if (missing.length === 0) return;
    const what = missing.length === 1 ? 'animal with id' : 'animals with ids';
    const list = followUpCommand(context, 'list');
    const hint = `to list all animals: ${list} --all; if it is the id of an order: pets orders ${missing[0]}`;
    throw new CliError(`no ${what} ${missing.join(', ')}`, { code: 'not_found', hint });
  },
};

/** Called for each id, in the order of the ids; `pet` is undefined if there is no such animal. */
type OnRead = (id: bigint, pet: ReceivedPet | undefined) => Promise<void> | void;

/** Undefined means that there is no such animal, and `removed` that the service has removed the operation. */
async function requestPet(client: Client, petId: bigint): Promise<ReceivedPet | 'removed' | undefined> {
  try {
    const { value: pet } = await client.call('getPet', { params: { petId } });
    if (String(pet.id) === String(petId)) return pet;
    throw new ContractError(200, `expected animal ${petId}, received animal ${pet.id}`);
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    if (error.status === 410) return 'removed';
    if (error.status !== 404) throw error;
    // Without an error code, the response is not from the service: the base URL is wrong.
    if (!error.isFromService) throw new ContractError(404, error.message);
    return undefined;
  }
}

/** Finds animals in the list. Some services send ids as strings. */
async function searchList(
  context: CommandContext,
  client: Client,
  ids: readonly bigint[],
  progress: ReturnType<typeof createProgress>,
  onRead: OnRead,
): Promise<void> {
  const wanted = new Set(ids.map(String));
  const found = new Map<string, ReceivedPet>();
  const onResults = (pets: readonly ReceivedPet[]) => {
    for (const pet of pets) found.set(String(pet.id), pet);
  };
  const options = { enough: wanted.size, onResults, progress };
  const reading = await readPages(client, { ids: wanted }, options);
  const read = `read ${formatCount(reading.animals, 'animal')} with ${formatCount(reading.pages, 'request')}`;
  context.console.notice(
    `the service no longer supports requests for one animal, so the list was searched: ${read}`,
  );
  if (reading.more === 'unknown' && found.size < wanted.size)
    context.console.notice('the list may be incomplete, because the service sends no link to a next page');
  for (const id of ids) await onRead(id, found.get(String(id)));
}
