import type { OperationInput } from '../contract/operations.ts';
import type { Pet } from '../contract/schemas.ts';
import type { Answer, Client } from './client.ts';
import { ContractError } from './errors.ts';
import { findLink } from './links.ts';

/** `more` tells whether animals follow: a service that sends no links leaves a full page unknown. */
export type ListedPage = { pets: Pet[]; more: 'yes' | 'no' | 'unknown' };

/** A filter may empty a page; a service that links from nothing to nothing would keep us for ever. */
const MAX_EMPTY_PAGES = 10;

/**
 * Lists page by page, following `Link: …; rel="next"` (design D1) for as long as the caller asks for more. Who wants `all`
 * is one call of many, and has the next page asked for as soon as one is there: it comes while that one is read and used,
 * and never more than one ahead. What becomes of it is told in its turn.
 *
 * @throws ClientError; ContractError for a link to another origin or to a page that was already read
 */
export async function* listPages(
  client: Client,
  query: OperationInput<'listPets'>['query'],
  pageSize: number,
  { all = false }: { all?: boolean } = {},
): AsyncGenerator<ListedPage> {
  const ask = (url?: URL) => {
    const answer = client.ask('listPets', { query }, { paced: all, ...(url && { url }) });
    // A page whose turn does not come fails unheard.
    answer.catch(() => {});
    return answer;
  };
  const seen = new Set<string>();
  let isLinked = false;
  let emptyInARow = 0;
  let coming = ask();
  for (;;) {
    const answer = await coming;
    seen.add(answer.url.href);
    const next = nextLink(answer);
    const fault = next && faultOf(next, answer.url, seen);
    // Even if this page turns out to be empty, it must not be one too many.
    const mayAsk = next && fault === undefined && emptyInARow < MAX_EMPTY_PAGES;
    const ahead = all && mayAsk ? ask(next) : undefined;
    if (ahead) await nextTurn();
    const pets = answer.read();
    isLinked ||= next !== undefined;
    emptyInARow = pets.length === 0 ? emptyInARow + 1 : 0;
    // A service that has sent a link sends none only behind the last page.
    const isFull = pets.length >= pageSize && !isLinked;
    yield { pets, more: next ? 'yes' : isFull ? 'unknown' : 'no' };
    if (next === undefined) return;
    if (fault !== undefined) throw new ContractError(200, `${fault}: not followed`);
    if (emptyInARow > MAX_EMPTY_PAGES) {
      throw new ContractError(200, `${emptyInARow} empty pages in a row lead on: not followed`);
    }
    coming = ahead ?? ask(next);
  }
}

/** Why a link is not followed; undefined where it is. */
function faultOf(next: URL, { origin }: URL, seen: ReadonlySet<string>): string | undefined {
  if (next.origin !== origin) return `the next page is at another origin (${next.origin})`;
  return seen.has(next.href) ? 'the pages lead in a circle' : undefined;
}

function nextLink({ headers, url }: Pick<Answer<'listPets'>, 'headers' | 'url'>): URL | undefined {
  const target = findLink(headers, 'next');
  if (target === undefined) return undefined;
  try {
    return new URL(target, url);
  } catch (cause) {
    throw new ContractError(200, `the link to the next page is none: ${target}`, { cause });
  }
}

/** The event loop's next turn: what was asked for in this one is written by then, which an immediate alone may precede. */
const nextTurn = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
