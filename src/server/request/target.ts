import { invalidRequest } from '../errors.ts';

const ABSOLUTE = /^https?:\/\/([^/?]*)(.*)$/i;

/**
 * Splits an absolute target, as clients of proxies send it (RFC 9112, 3.2.2), into its host and the target without it:
 * `http://shop.example/v1/pets` becomes `shop.example` and `/v1/pets`. Other targets have no host and stay as they are.
 */
export function splitTarget(method: string, target: string): { targetHost?: string; target: string } {
  const [, targetHost, rest = ''] = ABSOLUTE.exec(target) ?? [];
  if (targetHost === undefined) return { target };
  // Without a path, OPTIONS asks about the whole server (RFC 9112, 3.2.4).
  if (rest === '') return { targetHost, target: method === 'OPTIONS' ? '*' : '/' };
  return { targetHost, target: rest.startsWith('/') ? rest : `/${rest}` };
}

/**
 * The path of a request target, still encoded: `/v1/pets` of `/v1/pets?limit=5`. This function does not use the URL
 * class, because the URL class silently corrects invalid targets.
 *
 * @throws ServiceError `invalid_request` for a target that is not a path
 */
export function pathOf(target: string): string {
  if (!target.startsWith('/') || target.startsWith('//')) {
    throw invalidRequest('The request target must be a path, such as /v1/pets');
  }
  const mark = target.indexOf('?');
  return mark === -1 ? target : target.slice(0, mark);
}

/** The decoded segments of a path. @throws ServiceError `invalid_request` for malformed percent-encoding */
export const decodeSegments = (path: string): readonly string[] =>
  path
    .slice(1)
    .split('/')
    .map((segment) => decode(segment));

/**
 * The query parameters of a request target, by name.
 *
 * @throws ServiceError `invalid_request` for malformed percent-encoding or a repeated parameter
 */
export function parseQuery(target: string): Readonly<Record<string, string>> {
  const query = new QueryParameters();
  const mark = target.indexOf('?');
  if (mark === -1) return query;
  for (const pair of target.slice(mark + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals), true);
    if (name in query) throw invalidRequest(`The query parameter ${name} is given more than once`);
    query[name] = equals === -1 ? '' : decode(pair.slice(equals + 1), true);
  }
  return query;
}

// Objects without a prototype, because any name may occur in a query. This is faster than Object.create(null).
const QueryParameters = function QueryParameters() {} as unknown as new () => Record<string, string>;
QueryParameters.prototype = Object.create(null);

/** Checks the whole request target, and returns its path. @throws ServiceError `invalid_request` */
export function validateTarget(target: string): string {
  const path = pathOf(target);
  decodeSegments(path);
  parseQuery(target);
  return path;
}

/** Decodes percent-encoding. In a query, `+` is a space. */
function decode(text: string, isQuery = false): string {
  const encoded = isQuery && text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!encoded.includes('%')) return encoded;
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw invalidRequest('The request target has malformed percent-encoding');
  }
}
