import type { Client } from '../../client/client.ts';
import { listPages, type PetPage } from '../../client/pages.ts';
import { type OpenRateLimit, readRateLimits } from '../../client/rate-limit.ts';
import type { ReceivedPet } from '../../contract/schemas.ts';
import { CliError } from '../core/errors.ts';
import type { StatusLine } from '../output/console.ts';
import { formatCount } from '../output/format-count.ts';
import { formatTime } from '../output/time.ts';
import type { CommandContext } from '../program/command.ts';
import { canAsk, confirm } from '../prompts/prompt.ts';
import { selectorOf } from './filters.ts';
import type { Selection } from './selection.ts';
import { createSpending, type SpentWindow } from './spending.ts';

export type ReadPlan = {
  selection: Selection;
  /** The page size. */
  size: number;
  /** Reading stops after this number of results. */
  enough: number;
  /** Selects the results of a page; by default those that meet the conditions of the selection. */
  select?: (pets: readonly ReceivedPet[]) => readonly ReceivedPet[];
};

/** What has been read so far. */
export type Reading = {
  pages: number;
  animals: number;
  /** The number of results. */
  found: number;
  requests: number;
  /** Whether more animals follow on pages that were not read, or as results after `enough`. */
  more: PetPage['more'];
  /** Whether a notice has announced the cost, so that the footer should show it. */
  isAnnounced: boolean;
};

/**
 * Reads all pages and passes the results on, page by page. On a terminal, shows the progress, and asks before it spends
 * more than half of a rate-limit window. Elsewhere, a notice replaces the question.
 *
 * @throws CliError if the user does not want to continue, or if a regular expression takes too long
 */
export async function readAll(
  context: CommandContext,
  client: Client,
  { selection, size, enough, select = selectorOf(selection) }: ReadPlan,
  onResults: (pets: readonly ReceivedPet[]) => Promise<void> | void,
): Promise<Reading> {
  const { console, clock, stderr } = context;
  const spending = createSpending();
  const reading: Reading = { pages: 0, animals: 0, found: 0, requests: 0, more: 'no', isAnnounced: false };
  let limits: readonly OpenRateLimit[] = [];
  const { status, all = false, yes = false } = selection;
  const pages = listPages(client, { limit: size, status }, size, {
    canPrefetch(headers) {
      limits = readRateLimits(headers, clock.now());
      spending.record(limits, client.attempts(), clock.now());
      // The page that has just arrived may complete the results.
      return enough - reading.found > size && spending.exceeded().length === 0;
    },
  });
  for await (const { pets, more } of pages) {
    const results = select(pets);
    const taken = results.slice(0, enough - reading.found);
    reading.pages++;
    reading.animals += pets.length;
    reading.found += taken.length;
    reading.requests = client.attempts();
    reading.more = taken.length < results.length ? 'yes' : more;
    await onResults(taken);
    if (more !== 'yes' || reading.found === enough) break;
    // A script that uses --all expects the cost.
    if (reading.pages === 1 && (stderr.isTTY === true || !all)) {
      reading.isAnnounced = true;
      console.notice(costText(context, limits, pets.length || size));
    }
    console.status(progressLine(reading));
    const exceeded = spending.exceeded();
    if (exceeded.length > 0) {
      await reportExceeded(context, reading, exceeded, yes);
      spending.accept();
    }
  }
  console.status(undefined);
  return reading;
}

function progressLine(reading: Reading): StatusLine {
  const [animals, pages] = [formatCount(reading.animals, 'animal'), formatCount(reading.pages, 'page')];
  return [`read ${animals} on ${pages}${foundText(reading)}`, `read ${animals}${foundText(reading)}`];
}

/** The number of results. Without a filter, every animal is a result. */
const foundText = ({ animals, found }: Reading): string => (found === animals ? '' : `, found ${found}`);

/** Messages show the cost of reading this number of animals. */
const COST_UNIT = 1_000;

/** The cost of further pages, and the requests left in each window. `size` is the number of animals per page. */
function costText(context: CommandContext, limits: readonly OpenRateLimit[], size: number): string {
  const cost = `each further ${COST_UNIT} animals cost ${formatCount(Math.ceil(COST_UNIT / size), 'request')}`;
  const left = limits.map(
    ({ limit, remaining, reset }) =>
      `${remaining}${limit === undefined ? '' : ` of ${limit}`}${untilText(context, reset)}`,
  );
  return left.length === 0 ? cost : `${cost}; requests left: ${left.join(', ')}`;
}

/**
 * Asks whether to spend more than half of these windows. If the command must not ask, prints a notice instead.
 *
 * @throws CliError if the answer is no
 */
async function reportExceeded(
  context: CommandContext,
  reading: Reading,
  windows: readonly SpentWindow[],
  yes: boolean,
): Promise<void> {
  const pages = formatCount(reading.pages, 'page');
  const read = `read ${pages} (${formatCount(reading.animals, 'animal')})${foundText(reading)}`;
  const spent = windows.map((window) => spentText(context, window, reading));
  const text = [read, ...spent].join('. ');
  if (yes || !canAsk(context)) return context.console.notice(text);
  if (await confirm(context, `${text}. Continue?`)) return;
  throw new CliError(`stopped after ${pages}; the list is not complete`, {
    code: 'declined',
    hint: 'to continue without the question, add --yes',
  });
}

function spentText(
  context: CommandContext,
  { limit, spent, available }: SpentWindow,
  { animals, pages }: Reading,
): string {
  const { name, remaining, reset } = limit;
  // The service may send smaller pages than requested.
  const animalsFor = (requests: number) => formatCount(Math.round((requests * animals) / pages), 'animal');
  const until = untilText(context, reset) || ' that were left';
  const text = `${spent} of the ${available} requests${until} are spent`;
  // The next minute allows more requests soon, so show how fast the command can continue.
  if (name === 'minute')
    return `${text}; the limit allows ${animalsFor(limit.limit ?? available)} per minute`;
  return `${text}; the other ${remaining} are enough for ${animalsFor(remaining)}`;
}

/** The end of a window, such as ` until 12:01:00`; empty if the service has sent none, or a time in the past. */
function untilText({ clock, console }: CommandContext, reset = 0): string {
  const now = clock.now();
  return reset <= now ? '' : ` until ${formatTime(reset, now, console.timeZone())}`;
}
