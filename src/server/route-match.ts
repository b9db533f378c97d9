import { header } from '../contract/headers.ts';
import { API_PREFIX, type Operation, type OperationName, operations } from '../contract/operations.ts';
import { methodNotAllowed, notFound, ServiceError } from './http-errors.ts';
import { decodeSegments, pathOf } from './request/target.ts';
import type { ResponseHeaders } from './response.ts';

/** The operation that a request asks for. */
export type RouteMatch = {
  operation: OperationName;
  path: string;
  /** The path parameters, decoded. */
  params: Readonly<Record<string, string>>;
  /** The methods of the path, as an Allow header lists them. */
  allow: string;
};

/** A path of the operations table: `{name}` in `segments` is a parameter. */
type PathTemplate = {
  segments: readonly string[];
  allow: string;
  operations: ReadonlyMap<string, OperationName>;
};

type PathMatch = PathTemplate & Pick<RouteMatch, 'params'>;

const entries = Object.entries(operations) as [OperationName, Operation][];
const templates = [...new Set(entries.map(([, { path }]) => path))].map((path): PathTemplate => {
  const here = entries.filter(([, operation]) => operation.path === path);
  const byMethod = new Map(here.map(([name, { method }]): [string, OperationName] => [method, name]));
  const segments = (API_PREFIX + path).slice(1).split('/');
  return { segments, allow: allowHeader(byMethod.keys()), operations: byMethod };
});
/** Paths without parameters, which are found without decoding the path of the request. */
const exactPaths = new Map(
  templates
    .filter(({ segments }) => !segments.some(isParameter))
    .map((template): [string, PathMatch] => [`/${template.segments.join('/')}`, { ...template, params: {} }]),
);

/** All methods of the service, as an Allow header lists them. */
export const allMethods = allowHeader(new Set(entries.map(([, { method }]) => method)));

/**
 * Finds the operation of a request; HEAD is handled like GET (D15).
 *
 * @returns the match, or the error 400, 404 or 405 to send once the caller is authenticated
 */
export function matchRoute(method: string, target: string): RouteMatch | ServiceError {
  try {
    const path = pathOf(target);
    const match = findPath(path);
    if (match === undefined) return notFound();
    const operation = match.operations.get(method === 'HEAD' ? 'GET' : method);
    if (operation === undefined) return methodNotAllowed(path, match.allow);
    const { params, allow } = match;
    return { operation, path, params, allow };
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** The methods of a path as an Allow header lists them; undefined for an unknown path. */
export const allowedMethods = (path: string): string | undefined => findPath(path)?.allow;

/** The deprecation headers of each operation; none if it is not deprecated. `basePath` is the path of the base URL. */
export const allDeprecationHeaders = (basePath: string): ReadonlyMap<OperationName, ResponseHeaders> =>
  new Map(entries.map(([name]) => [name, deprecationHeaders(name, basePath) ?? {}]));

/** The headers that announce the removal of a deprecated operation; undefined for other operations (D12). */
export function deprecationHeaders(name: OperationName, basePath = API_PREFIX): ResponseHeaders | undefined {
  const { deprecated }: Operation = operations[name];
  return (
    deprecated && {
      [header.deprecation]: `@${deprecated.since.getTime() / 1_000}`,
      [header.sunset]: deprecated.sunset.toUTCString(),
      [header.link]: `<${basePath}${deprecated.successor}>; rel="successor-version"`,
    }
  );
}

/** @throws ServiceError `invalid_request` for malformed percent-encoding */
function findPath(path: string): PathMatch | undefined {
  const exact = exactPaths.get(path);
  if (exact) return exact;
  const segments = decodeSegments(path);
  for (const template of templates) {
    const params = matchSegments(template.segments, segments);
    if (params) return { ...template, params };
  }
  return undefined;
}

function matchSegments(
  template: readonly string[],
  segments: readonly string[],
): Record<string, string> | undefined {
  if (template.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of template.entries()) {
    const segment = segments[i] ?? '';
    if (isParameter(part)) params[part.slice(1, -1)] = segment;
    else if (part !== segment) return undefined;
  }
  return params;
}

/** The value of an Allow header. A path that supports GET supports HEAD, and every path supports OPTIONS. */
function allowHeader(methods: Iterable<string>): string {
  return [...methods, 'OPTIONS']
    .flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method))
    .join(', ');
}

function isParameter(segment: string): boolean {
  return segment.startsWith('{');
}
