import { ServiceError } from '../service-error.ts';

/** The path of a request target in origin form, and its decoded segments. */
export type Path = { path: string; segments: readonly string[] };

/** A request target with its query parameters by name. */
export type Target = Path & { query: Readonly<Record<string, string>> };

/**
 * Reads `/v1/pets` of `/v1/pets?limit=5`. Stricter than the URL class, which mends what a client got wrong.
 *
 * @throws ServiceError `invalid_request` for another form or malformed percent-encoding
 */
export function parsePath(url: string): Path {
  if (!url.startsWith('/') || url.startsWith('//')) {
    throw new ServiceError('invalid_request', 'The request target must be a path, such as /v1/pets');
  }
  const mark = url.indexOf('?');
  const path = mark === -1 ? url : url.slice(0, mark);
  return { path, segments: path.slice(1).split('/').map(decode) };
}

/**
 * Reads `limit=5` of `/v1/pets?limit=5`.
 *
 * @throws ServiceError `invalid_request` for malformed percent-encoding or a doubled parameter
 */
export function parseQuery(url: string): Target['query'] {
  const query: Record<string, string> = Object.create(null);
  const mark = url.indexOf('?');
  if (mark === -1) return query;
  for (const pair of url.slice(mark + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decode((equals === -1 ? pair : pair.slice(0, equals)).replaceAll('+', ' '));
    if (name in query)
      throw new ServiceError('invalid_request', `The query parameter ${name} is given twice`);
    query[name] = equals === -1 ? '' : decode(pair.slice(equals + 1).replaceAll('+', ' '));
  }
  return query;
}

/** Both. @throws ServiceError `invalid_request` */
export const parseTarget = (url: string): Target => ({ ...parsePath(url), query: parseQuery(url) });

function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ServiceError('invalid_request', 'The request target has malformed percent-encoding');
  }
}
