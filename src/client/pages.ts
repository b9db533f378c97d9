import type { OperationInput } from '../contract/operations.ts';
import type { Pet } from '../contract/schemas.ts';
import type { CallOptions, CallResult, Client } from './client.ts';
import { ContractError } from './errors.ts';
import { findLink } from './links.ts';

/** `more` tells whether animals follow: a service that sends no links leaves a full page unknown. */
export type ListedPage = { pets: Pet[]; more: 'yes' | 'no' | 'unknown' };

/** A filter may empty a page; a service that links from nothing to nothing would keep us for ever. */
const MAX_EMPTY_PAGES = 10;

/**
 * Lists page by page, following `Link: …; rel="next"` (design D1) for as long as the caller asks for more.
 *
 * @throws ClientError; ContractError for a link to another origin or to a page that was already read
 */
export async function* listPages(
  client: Client,
  query: OperationInput<'listPets'>['query'],
  pageSize: number,
  options: Pick<CallOptions, 'paced'> = {},
): AsyncGenerator<ListedPage> {
  const seen = new Set<string>();
  let isLinked = false;
  let emptyInARow = 0;
  let result = await client.call('listPets', { query }, options);
  for (;;) {
    const next = nextLink(result);
    isLinked ||= next !== undefined;
    emptyInARow = result.value.length === 0 ? emptyInARow + 1 : 0;
    // A service that has sent a link sends none only behind the last page.
    const isFull = result.value.length >= pageSize && !isLinked;
    yield { pets: result.value, more: next ? 'yes' : isFull ? 'unknown' : 'no' };
    if (next === undefined) return;
    seen.add(result.url.href);
    if (next.origin !== result.url.origin) {
      throw new ContractError(200, `the next page is at another origin (${next.origin}): not followed`);
    }
    if (emptyInARow > MAX_EMPTY_PAGES) {
      throw new ContractError(200, `${emptyInARow} empty pages in a row lead on: not followed`);
    }
    if (seen.has(next.href)) throw new ContractError(200, 'the pages lead in a circle: not followed');
    result = await client.call('listPets', { query }, { ...options, url: next });
  }
}

function nextLink({ headers, url }: CallResult<'listPets'>): URL | undefined {
  const target = findLink(headers, 'next');
  if (target === undefined) return undefined;
  if (!URL.canParse(target, url.href))
    throw new ContractError(200, `the link to the next page is none: ${target}`);
  return new URL(target, url);
}
