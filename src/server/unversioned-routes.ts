import { header } from '../contract/headers.ts';
import type { Store } from '../store/store.ts';
import { methodNotAllowed, notFound } from './http-errors.ts';
import type { ServiceResponse } from './response.ts';

const METHODS = 'GET, HEAD, OPTIONS';

/** The routes outside the API prefix. Their requests need no API key and are not counted (docs/service.md 12). */
export function createUnversionedRoutes(
  store: Store,
): (method: string, path: string) => Promise<ServiceResponse> {
  let description: Promise<string> | undefined;
  const bodies = new Map<string, () => string | Promise<string>>([
    ['/healthz', () => JSON.stringify({ status: 'ok', store: store.id })],
    ['/openapi.json', () => (description ??= describeService())],
  ]);

  return async (method, path) => {
    const body = bodies.get(path);
    if (body === undefined) throw notFound();
    if (method === 'OPTIONS') return { status: 204, headers: { [header.allow]: METHODS }, body: '' };
    if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(path, METHODS);
    return { status: 200, headers: {}, body: await body() };
  };
}

/** Loads the module only when the description is requested, for a faster start. */
async function describeService(): Promise<string> {
  const { openApiDocument } = await import('./openapi/document.ts');
  return JSON.stringify(openApiDocument());
}
