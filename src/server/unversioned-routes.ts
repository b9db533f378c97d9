import { header } from '../contract/headers.ts';
import type { Store } from '../store/store.ts';
import { methodNotAllowed, notFound } from './http-errors.ts';
import { validateTarget } from './request/target.ts';
import type { ServiceResponse } from './response.ts';
import { allMethods } from './route-match.ts';

const METHODS = 'GET, HEAD, OPTIONS';

/** The routes outside the API prefix. Their requests need no API key and are not counted (docs/service.md 12). */
export function createUnversionedRoutes(
  store: Store,
): (method: string, target: string) => Promise<ServiceResponse> {
  let description: Promise<string> | undefined;
  const bodies = new Map<string, () => string | Promise<string>>([
    ['/healthz', () => JSON.stringify({ status: 'ok', store: store.id })],
    ['/openapi.json', () => (description ??= describeService())],
  ]);

  return async (method, target) => {
    // Both ask about the whole server: `*` by RFC 9110, 9.3.7, and `/` because it is the default health check of HAProxy.
    if (method === 'OPTIONS' && (target === '*' || target === '/')) return describeMethods(allMethods);
    const path = validateTarget(target);
    const body = bodies.get(path);
    if (body === undefined) throw notFound();
    if (method === 'OPTIONS') return describeMethods(METHODS);
    if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(path, METHODS);
    return { status: 200, headers: {}, body: await body() };
  };
}

const describeMethods = (allow: string): ServiceResponse => ({
  status: 204,
  headers: { [header.allow]: allow },
  body: '',
});

/** Loads the module only when the description is requested, for a faster start. */
async function describeService(): Promise<string> {
  const { openApiDocument } = await import('./openapi/document.ts');
  return JSON.stringify(openApiDocument());
}
