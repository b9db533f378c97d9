import { header } from '../contract/headers.ts';
import { API_PREFIX } from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import type { Answer } from './handlers.ts';
import { methodNotAllowed } from './refusals.ts';
import { ServiceError } from './service-error.ts';

const METHODS = 'GET, HEAD, OPTIONS';

/** What stands at the root, outside the API: for anybody, and uncounted. */
export function createRoot(store: Store): (method: string, path: string) => Promise<Answer> {
  let description: Promise<string> | undefined;

  const pages: Readonly<Record<string, () => string | Promise<string>>> = {
    '/healthz': () => JSON.stringify({ status: 'ok', store: store.id }),
    '/openapi.json': () => {
      description ??= describe();
      return description;
    },
  };

  return async (method, path) => {
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
    if (page === undefined) {
      throw new ServiceError('not_found', `There is nothing at ${path}: the service is under ${API_PREFIX}`);
    }
    if (method === 'OPTIONS') return { status: 204, headers: { [header.allow]: METHODS }, body: '' };
    if (method !== 'GET') throw methodNotAllowed(path, METHODS);
    return { status: 200, headers: {}, body: await page() };
  };
}

/** Loaded when it is asked for: a service that only serves starts without it. */
async function describe(): Promise<string> {
  const { openApiDocument } = await import('./openapi/document.ts');
  return JSON.stringify(openApiDocument());
}
