import type { IncomingMessage } from 'node:http';
import { API_PREFIX } from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import { methodNotAllowed, notFound } from './http-errors.ts';
import { createPage } from './page.ts';
import type { RequestContext } from './request/context.ts';
import { validateTarget } from './request/target.ts';
import { optionsResponse, type ResponseContent, type ServiceResponse } from './response.ts';
import { allMethods } from './route-match.ts';

const METHODS = 'GET, HEAD, OPTIONS';

export type UnversionedRoutesOptions = {
  store: Store;
  /** The response to `GET /metrics`; if undefined, that route does not exist. */
  metrics?: (() => Promise<ResponseContent>) | undefined;
  /** Whether the page of the developer tools exists. */
  hasPage?: boolean;
  /** The base URL as clients of a reverse proxy see it. */
  publicUrl?: string | undefined;
};

/** The routes outside the API prefix, which need no API key and have no rate limit (docs/service.md 12). */
export function createUnversionedRoutes({
  store,
  metrics,
  hasPage = false,
  publicUrl,
}: UnversionedRoutesOptions): (
  request: IncomingMessage,
  context: RequestContext,
) => Promise<ServiceResponse> {
  const sendPage = createPage();
  const routes = new Map<string, (context: RequestContext) => Promise<ResponseContent>>([
    ['/healthz', async () => ({ body: JSON.stringify({ status: 'ok', store: store.id }) })],
    ['/readyz', () => checkReady(store)],
    [
      '/openapi.json',
      async ({ host }) => {
        // Load the description only when it is requested, for a faster start.
        const { describe } = await import('./openapi.ts');
        return { body: describe(publicUrl ?? (host === undefined ? '' : `http://${host}`) + API_PREFIX) };
      },
    ],
  ]);
  if (metrics) routes.set('/metrics', metrics);

  return async (request, context) => {
    const { method = '', url: target = '' } = request;
    // Both targets mean the whole server: `*` by RFC 9110, 9.3.7, and `/` because HAProxy checks it by default.
    if (method === 'OPTIONS' && (target === '*' || target === '/')) {
      context.operation = 'options';
      return optionsResponse(allMethods);
    }
    const path = validateTarget(target);
    const isPage = hasPage && context.kind === 'page';
    const route = isPage ? () => sendPage(path, request) : routes.get(path);
    if (route === undefined) throw notFound();
    context.operation = isPage ? '/' : path;
    if (method === 'OPTIONS') return optionsResponse(METHODS);
    if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(path, METHODS);
    return { status: 200, headers: {}, ...(await route(context)) };
  };
}

/** @throws ServiceError if the store cannot write */
async function checkReady(store: Store): Promise<ResponseContent> {
  await store.checkWritable();
  return { body: JSON.stringify({ status: 'ready', store: store.id }) };
}
