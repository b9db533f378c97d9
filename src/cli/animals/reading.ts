import type { Client } from '../../client/client.ts';
import { listPages, type PetPage } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { withClient } from '../connection/connect.ts';
import { formatCount } from '../output/text.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { hasOwnFilter, matcherOf, onlyStatus, type Selection } from './selection.ts';

// Reads the pages of a selection, and shows how far it is.

/** What has been read so far. */
export type Reading = {
  pages: number;
  animals: number;
  /** The number of animals that meet the conditions, at most `enough`. */
  found: number;
  /** Whether more animals follow: on pages that were not read, or beyond `enough` on the last page that was read. */
  more: PetPage['more'];
};

/** `onResults` gets the animals that meet the conditions, page by page. Reading stops after `enough` of them. */
export type ReadingOptions = {
  enough: number;
  onResults(pets: readonly ReceivedPet[]): Promise<void> | void;
};

/** Reads pages and passes on the animals that meet the conditions. A terminal shows the progress. */
export function readAnimals(
  context: CommandContext,
  connection: Connection,
  selection: Selection,
  options: ReadingOptions,
): Promise<Reading> {
  const progress = createProgress(context);
  const read = (client: Client) => readPages(client, selection, { ...options, progress });
  return withClient(context, connection, read, { showWait: progress.showWait });
}

export async function readPages(
  client: Client,
  selection: Selection,
  { enough, onResults, progress }: ReadingOptions & { progress: Pick<Progress, 'show' | 'end'> },
): Promise<Reading> {
  const reading: Reading = { pages: 0, animals: 0, found: 0, more: 'no' };
  const size = hasOwnFilter(selection) ? pageSize.max : Math.min(enough, pageSize.max);
  const matches = matcherOf(selection);
  const pages = listPages(client, { limit: size, status: onlyStatus(selection.status) }, () => {
    // Do not prefetch if the page that has just arrived may contain all that is missing.
    return enough - reading.found > size;
  });
  for await (const { pets, more } of pages) {
    const results = hasOwnFilter(selection) ? pets.filter(matches) : pets;
    const taken = results.slice(0, enough - reading.found);
    reading.pages++;
    reading.animals += pets.length;
    reading.found += taken.length;
    reading.more = taken.length < results.length ? 'yes' : more;
    await onResults(taken);
    if (more !== 'yes' || reading.found >= enough) break;
    progress.show(reading);
  }
  progress.end();
  return reading;
}

export type Progress = ReturnType<typeof createProgress>;

/** Shows on the status line how much was read, and why the command waits. */
export function createProgress({ console }: CommandContext) {
  let shown: string | undefined;
  const show = () => console.status(shown);
  return {
    show({ animals, found }: Reading): void {
      shown = `read ${formatCount(animals, 'animal')}${found === animals ? '' : `, found ${found}`}`;
      show();
    },
    /** Shows a countdown after the progress; undefined removes the countdown. */
    showWait(wait: string | undefined): void {
      if (wait === undefined) show();
      else console.status(shown === undefined ? wait : `${shown}; ${wait}`);
    },
    end(): void {
      shown = undefined;
      show();
    },
  };
}
