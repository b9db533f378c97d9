import { ServiceError } from '../service-error.ts';

/** A request target in origin form: decoded path segments, and query parameters by name. */
export type Target = { path: string; segments: readonly string[]; query: Readonly<Record<string, string>> };

/**
 * Reads `/v1/pets?limit=5`. Stricter than the URL class, which mends what a client got wrong.
 *
 * @throws ServiceError `invalid_request` for another form, malformed percent-encoding or a doubled parameter
 */
export function parseTarget(url: string): Target {
  if (!url.startsWith('/') || url.startsWith('//')) {
    throw new ServiceError('invalid_request', 'The request target must be a path, such as /v1/pets');
  }
  const mark = url.indexOf('?');
  const path = mark === -1 ? url : url.slice(0, mark);
  return {
    path,
    segments: path.slice(1).split('/').map(decode),
    query: mark === -1 ? {} : parseQuery(url.slice(mark + 1)),
  };
}

function parseQuery(text: string): Record<string, string> {
  const query: Record<string, string> = Object.create(null);
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decode((equals === -1 ? pair : pair.slice(0, equals)).replaceAll('+', ' '));
    if (name in query)
      throw new ServiceError('invalid_request', `The query parameter ${name} is given twice`);
    query[name] = equals === -1 ? '' : decode(pair.slice(equals + 1).replaceAll('+', ' '));
  }
  return query;
}

function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ServiceError('invalid_request', 'The request target has malformed percent-encoding');
  }
}
