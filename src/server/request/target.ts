import { ServiceError } from '../service-error.ts';

/** The query parameters of a request by their names, each once. */
export type Query = ReadonlyMap<string, string>;

const NO_QUERY: Query = new Map();

/**
 * Reads `/v1/pets` of `/v1/pets?limit=5`, as it was sent. Stricter than the URL class, which mends what a client got
 * wrong.
 *
 * @throws ServiceError `invalid_request` for a request target in another form
 */
export function pathOf(url: string): string {
  if (!url.startsWith('/') || url.startsWith('//')) {
    throw new ServiceError('invalid_request', 'The request target must be a path, such as /v1/pets');
  }
  const mark = url.indexOf('?');
  return mark === -1 ? url : url.slice(0, mark);
}

/** The segments of a path, decoded. @throws ServiceError `invalid_request` for malformed percent-encoding */
export const segmentsOf = (path: string): readonly string[] => path.slice(1).split('/').map(decode);

/**
 * Reads `limit=5` of `/v1/pets?limit=5`.
 *
 * @throws ServiceError `invalid_request` for malformed percent-encoding or a doubled parameter
 */
export function parseQuery(url: string): Query {
  const mark = url.indexOf('?');
  if (mark === -1) return NO_QUERY;
  const query = new Map<string, string>();
  for (const pair of url.slice(mark + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decodeField(equals === -1 ? pair : pair.slice(0, equals));
    if (query.has(name))
      throw new ServiceError('invalid_request', `The query parameter ${name} is given twice`);
    query.set(name, equals === -1 ? '' : decodeField(pair.slice(equals + 1)));
  }
  return query;
}

/** Reads the path of a request target that must be right as a whole. @throws ServiceError `invalid_request` */
export function checkTarget(url: string): string {
  const path = pathOf(url);
  segmentsOf(path);
  parseQuery(url);
  return path;
}

const decodeField = (text: string): string => decode(text.includes('+') ? text.replaceAll('+', ' ') : text);

function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ServiceError('invalid_request', 'The request target has malformed percent-encoding');
  }
}
