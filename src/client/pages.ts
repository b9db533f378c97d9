import type { OperationInput } from '../contract/operations.ts';
import type { PetStatus, ReceivedPet } from '../contract/schemas.ts';
import type { Client } from './client.ts';
import { ContractError } from './errors.ts';
import { findLink, type HttpHeaders, readHeader } from './response.ts';

/** `more` shows whether more animals follow. It is `unknown` if they may follow, but the page has no link to them. */
export type PetPage = { pets: ReceivedPet[]; more: 'yes' | 'no' | 'unknown' };

type Query = OperationInput<'listPets'>['query'];

/**
 * Lists animals page by page, following `Link: …; rel="next"` (docs/service.md, D1). Animals with another status than
 * `query.status` are left out, because some services ignore that parameter.
 *
 * @param canPrefetch decides, when a page arrives, whether to request the next page before parsing this page. An error of
 *   a prefetched page is thrown only when the caller asks for that page.
 * @throws ClientError, for example a ContractError if the path of a link is not below that of the base URL
 */
export async function* listPages(
  client: Client,
  query: Query & { limit: number },
  canPrefetch: () => boolean = () => false,
): AsyncGenerator<PetPage> {
  const request = (url?: URL) => {
    const response = client.request('listPets', { query }, url && { url });
    // If the caller never consumes this page, an error of the page must not become an unhandled rejection.
    response.catch(() => {});
    return response;
  };
  const base = new URL(`${client.baseUrl}/`);
  const seen = new Set<string>();
  let hasLinks = false;
  let nextResponse = request();
  for (;;) {
    const { url, headers, parse } = await nextResponse;
    seen.add(url.href);
    const next = nextPage(headers, url, base, seen);
    const prefetched = next instanceof URL && canPrefetch() ? request(next) : undefined;
    if (prefetched) await requestWritten();
    const pets = parse();
    hasLinks ||= readHeader(headers, 'Link') !== undefined;
    // More animals may follow a full page of a service that sends no links at all.
    const more = next ? 'yes' : !hasLinks && pets.length >= query.limit ? 'unknown' : 'no';
    const { status } = query;
    yield { pets: status ? pets.filter((pet) => hasStatus(pet, [status])) : pets, more };
    if (next === undefined) return;
    if (next instanceof ContractError) throw next;
    nextResponse = prefetched ?? request(next);
  }
}

/** Whether an animal may have one of these statuses: it has it, or its status is missing or not a text. */
export const hasStatus = ({ status }: ReceivedPet, statuses: readonly PetStatus[]): boolean =>
  typeof status !== 'string' || (statuses as readonly string[]).includes(status.trim().toLowerCase());

/**
 * The URL of the next page, undefined without a link, or why the link is not followed. A service behind a proxy may link to
 * its internal address, but the API key must not be sent to another origin. So a link below the path of the base URL gets
 * the origin of the current page. `base` is the base URL with a final slash.
 */
function nextPage(
  headers: HttpHeaders,
  page: URL,
  base: URL,
  seen: ReadonlySet<string>,
): URL | ContractError | undefined {
  const target = findLink(headers, 'next');
  if (target === undefined) return undefined;
  const refuse = (reason: string) =>
    new ContractError(200, `the link to the next page leads to ${reason}, so it was not followed`);
  if (!URL.canParse(target, page.href)) return refuse(`${target}, which is not a URL`);
  const link = new URL(target, page);
  if (!link.pathname.startsWith(base.pathname))
    return refuse(`${link.href}, outside ${base.href} (a proxy may have changed the path)`);
  const next = new URL(page.origin + link.pathname + link.search);
  return seen.has(next.href) ? refuse('an earlier page') : next;
}

/** Waits until undici has written the latest request, so that parsing the current page does not delay that request. */
const requestWritten = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
