import type { Client } from '../../client/client.ts';
import { listPages, type PetPage } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import type { Console } from '../output/console.ts';
import { formatCount } from '../output/text.ts';
import { hasOwnFilter, matcherOf, type Selection, statusForService } from './selection.ts';

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
  /** Shows on the status line of a terminal how much was read. */
  showStatus: Console['status'];
};

/** Reads pages and passes on the animals that meet the conditions. */
export async function readPages(
  client: Client,
  selection: Selection,
  { enough, onResults, showStatus }: ReadingOptions,
): Promise<Reading> {
  const reading: Reading = { pages: 0, animals: 0, found: 0, more: 'no' };
  const isFiltered = hasOwnFilter(selection);
  const size = isFiltered ? pageSize.max : Math.min(enough, pageSize.max);
  const matches = matcherOf(selection);
  const pages = listPages(client, { limit: size, status: statusForService(selection.status) }, () => {
    // Do not prefetch if the page that has just arrived may contain all that is missing.
    return enough - reading.found > size;
  });
  for await (const { pets, more } of pages) {
    const results = isFiltered ? pets.filter(matches) : pets;
    const taken = results.slice(0, enough - reading.found);
    reading.pages++;
    reading.animals += pets.length;
    reading.found += taken.length;
    reading.more = taken.length < results.length ? 'yes' : more;
    await onResults(taken);
    if (more !== 'yes' || reading.found >= enough) break;
    const read = `read ${formatCount(reading.animals, 'animal')}`;
    showStatus(isFiltered ? `${read}, found ${reading.found}` : read);
  }
  showStatus(undefined);
  return reading;
}
