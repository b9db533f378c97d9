import type { Client } from '../../client/client.ts';
import { listPages } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { connectionFor, withClient } from '../connection/connect.ts';
import { createPetWriter, type PetWriter } from '../output/pet-writer.ts';
import type { CommandContext } from '../program/command.ts';
import { type Listed, listFooter } from './footer.ts';
import { needsAllPages, type Selection } from './selection.ts';

/** Prints the selected animals and a footer, for `pets list` and `pets find`. */
export async function listAnimals(selection: Selection, context: CommandContext): Promise<undefined> {
  const { console } = context;
  const connection = connectionFor(context);
  await withClient(context, connection, async (client) => {
    const writer = createPetWriter(console, selection.columns);
    const listed =
      selection.all || needsAllPages(selection)
        ? await listAll(context, client, selection, writer)
        : await listPage(client, selection, writer);
    await writer.end();
    const footer = listFooter(context, connection, listed, selection);
    if (footer !== undefined) console.notice(footer);
  });
  return undefined;
}

/** Prints one page, or as many as are needed if the service sends animals with another status. */
async function listPage(client: Client, { status, limit }: Selection, writer: PetWriter): Promise<Listed> {
  const size = limit ?? pageSize.default;
  const listed: Listed = { shown: 0, found: 0, more: 'no' };
  for await (const { pets, more } of listPages(client, { limit, status }, size)) {
    const shown = pets.slice(0, size - listed.shown);
    await writer.write(shown);
    listed.shown += shown.length;
    listed.found = listed.shown;
    listed.more = shown.length < pets.length ? 'yes' : more;
    if (listed.shown === size || status === undefined) break;
  }
  return listed;
}

async function listAll(
  context: CommandContext,
  client: Client,
  selection: Selection,
  writer: PetWriter,
): Promise<Listed> {
  const { readAll } = await import('./read-all.ts');
  // Otherwise, `--limit` is the page size.
  const limitsResults = needsAllPages(selection);
  const { limit = Number.POSITIVE_INFINITY, sort } = selection;
  const plan = {
    selection,
    size: limitsResults ? pageSize.max : (selection.limit ?? pageSize.max),
    enough: limitsResults && sort === undefined ? limit : Number.POSITIVE_INFINITY,
  };
  if (sort === undefined) {
    const reading = await readAll(context, client, plan, (pets) => writer.write(pets));
    return { shown: reading.found, ...reading };
  }
  const { compareAnimals } = await import('./sort.ts');
  const found: ReceivedPet[] = [];
  const reading = await readAll(context, client, plan, (pets) => {
    for (const pet of pets) found.push(pet);
  });
  const shown = found.sort(compareAnimals(sort)).slice(0, limit);
  await writer.write(shown);
  return { shown: shown.length, ...reading };
}
