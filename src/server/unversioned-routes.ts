import { header } from '../contract/headers.ts';
import type { Store } from '../store/store.ts';
import type { RequestContext } from './auth/authentication.ts';
import { methodNotAllowed, notFound, storageError } from './http-errors.ts';
import { validateTarget } from './request/target.ts';
import type { ResponseContent, ServiceResponse } from './response.ts';
import { allMethods } from './route-match.ts';

const METHODS = 'GET, HEAD, OPTIONS';

/**
 * The routes outside the API prefix. Their requests need no API key and are not counted (docs/service.md 12). `metrics`
 * returns the response to `GET /metrics`; if it is undefined, that route does not exist.
 */
export function createUnversionedRoutes(
  store: Store,
  metrics: (() => Promise<ResponseContent>) | undefined,
): (method: string, target: string, context: RequestContext) => Promise<ServiceResponse> {
  let description: Promise<ResponseContent> | undefined;
  const routes = new Map<string, () => Promise<ResponseContent>>([
    ['/healthz', async () => ({ body: JSON.stringify({ status: 'ok', store: store.id }) })],
    ['/readyz', () => checkReady(store)],
    ['/openapi.json', () => (description ??= describeService())],
  ]);
  if (metrics) routes.set('/metrics', metrics);

  return async (method, target, context) => {
    // Both ask about the whole server: `*` by RFC 9110, 9.3.7, and `/` because it is the default health check of HAProxy.
    if (method === 'OPTIONS' && (target === '*' || target === '/')) {
      context.operation = 'options';
      return describeMethods(allMethods);
    }
    const path = validateTarget(target);
    const route = routes.get(path);
    if (route === undefined) throw notFound();
    context.operation = path;
    if (method === 'OPTIONS') return describeMethods(METHODS);
    if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(path, METHODS);
    return { status: 200, headers: {}, ...(await route()) };
  };
}

const describeMethods = (allow: string): ServiceResponse => ({
  status: 204,
  headers: { [header.allow]: allow },
  body: '',
});

/** @throws ServiceError if the store cannot write */
async function checkReady(store: Store): Promise<ResponseContent> {
  await store.checkWritable().catch((error) => {
    throw storageError(error);
  });
  return { body: JSON.stringify({ status: 'ready', store: store.id }) };
}

/** Loads the module only when the description is requested, for a faster start. */
async function describeService(): Promise<ResponseContent> {
  const { openApiDocument } = await import('./openapi/document.ts');
  return { body: JSON.stringify(openApiDocument()) };
}
