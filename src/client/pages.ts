import type { OperationInput } from '../contract/operations.ts';
import type { ReceivedPet } from '../contract/schemas.ts';
import type { Client } from './client.ts';
import { ContractError } from './errors.ts';
import { findLink, type HttpHeaders } from './response.ts';

/** `more` shows whether more animals follow. It is `unknown` after a full page if the service sends no links. */
export type PetPage = { pets: ReceivedPet[]; more: 'yes' | 'no' | 'unknown' };

export type PagesOptions = {
  /** Whether all pages are read. Requests then wait for a rate limit as often as necessary. */
  all?: boolean;
  /**
   * Whether to request the next page before a page is parsed; called with the headers of the page. If the result is false,
   * the next page is requested when it is consumed. By default, pages are prefetched if all are read.
   */
  canPrefetch?: (headers: HttpHeaders) => boolean;
};

/** The maximum number of successive empty pages. Filters may cause some, but the client must not follow links forever. */
const MAX_EMPTY_PAGES = 10;

/**
 * Lists animals page by page, following `Link: …; rel="next"` (docs/service.md, D1). An error of a prefetched page
 * surfaces when that page is consumed.
 *
 * @throws ClientError, for example a ContractError if a link leads to an earlier page or to another origin (for an
 * exception, see `withOrigin`)
 */
export async function* listPages(
  client: Client,
  query: OperationInput<'listPets'>['query'],
  pageSize: number,
  { all = false, canPrefetch = () => all }: PagesOptions = {},
): AsyncGenerator<PetPage> {
  const request = (url?: URL) => {
    const response = client.request('listPets', { query }, { background: all, ...(url && { url }) });
    // If the caller never consumes this page, an error of the page must not become an unhandled rejection.
    response.catch(() => {});
    return response;
  };
  const seen = new Set<string>();
  let hasLinks = false;
  let emptyPages = 0;
  let nextResponse = request();
  for (;;) {
    const { url, headers, parse } = await nextResponse;
    seen.add(url.href);
    const next = nextLink(headers, url, client.baseUrl);
    const refusal = next && whyNotFollow(next, url, seen);
    // The current page is not parsed yet. Do not prefetch if the current page may be one empty page too many.
    const isFollowed = next && refusal === undefined && emptyPages < MAX_EMPTY_PAGES;
    const prefetched = isFollowed && canPrefetch(headers) ? request(next) : undefined;
    if (prefetched) await requestWritten();
    const pets = parse();
    hasLinks ||= next !== undefined;
    emptyPages = pets.length === 0 ? emptyPages + 1 : 0;
    // If the service sends links, a page without a link is the last.
    const isUnknown = pets.length >= pageSize && !hasLinks;
    yield { pets, more: next ? 'yes' : isUnknown ? 'unknown' : 'no' };
    if (next === undefined) return;
    if (refusal !== undefined)
      throw new ContractError(200, `the link to the next page ${refusal}, so it was not followed`);
    if (emptyPages > MAX_EMPTY_PAGES) {
      throw new ContractError(200, `stopped after ${emptyPages} empty pages in a row`);
    }
    nextResponse = prefetched ?? request(next);
  }
}

function whyNotFollow(next: URL, { origin }: URL, seen: ReadonlySet<string>): string | undefined {
  if (next.origin !== origin) return `leads to another origin (${next.origin})`;
  return seen.has(next.href) ? 'leads to an earlier page' : undefined;
}

function nextLink(headers: HttpHeaders, url: URL, baseUrl: string): URL | undefined {
  const target = findLink(headers, 'next');
  if (target === undefined) return undefined;
  try {
    return withOrigin(url, new URL(target, url), baseUrl);
  } catch (cause) {
    throw new ContractError(200, `invalid link to the next page: ${target}`, { cause });
  }
}

/**
 * A service behind a proxy may link to its internal address. If the path of the link is below the path of the base URL,
 * the link means the same path and query at the origin of the page.
 */
function withOrigin(page: URL, next: URL, baseUrl: string): URL {
  if (next.origin === page.origin || !next.pathname.startsWith(new URL(`${baseUrl}/`).pathname)) return next;
  const own = new URL(page);
  own.pathname = next.pathname;
  own.search = next.search;
  return own;
}

/** Waits until undici has written the latest request, so that parsing the current page does not delay that request. */
const requestWritten = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
