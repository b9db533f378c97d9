import { API_PREFIX, type Operation, type OperationName, operations } from '../contract/operations.ts';
import { decodeSegments } from './request/target.ts';

/** The values of the path parameters, decoded. */
export type Params = Readonly<Record<string, string>>;

/** A path of a table: the value of its Allow header, and its entry for each method. */
type Path<Entry> = { segments: readonly string[]; allow: string; methods: ReadonlyMap<string, Entry> };

export type PathMatch<Entry> = Path<Entry> & { params: Params };

/** Returns a function that finds the entries of a path. `{name}` as a segment of a path is a parameter. */
export function createPathTable<Entry extends { method: string; path: string }>(
  entries: readonly Entry[],
): (path: string) => PathMatch<Entry> | undefined {
  const paths = [...new Set(entries.map(({ path }) => path))].map((path): Path<Entry> => {
    const here = entries.filter((entry) => entry.path === path);
    const methods = new Map(here.map((entry) => [entry.method, entry]));
    return { segments: path.slice(1).split('/'), allow: allowHeader(methods.keys()), methods };
  });
  // Paths without parameters are usually found without decoding the path of the request.
  const exact = new Map(
    paths
      .filter(({ segments }) => !segments.some(isParameter))
      .map((path) => [`/${path.segments.join('/')}`, { ...path, params: {} }]),
  );

  /** Undefined for an unknown path. @throws ServiceError `invalid_request` for malformed percent-encoding */
  return (requested) => {
    const found = exact.get(requested);
    if (found) return found;
    const segments = decodeSegments(requested);
    for (const path of paths) {
      const params = matchSegments(path.segments, segments);
      if (params) return { ...path, params };
    }
    return undefined;
  };
}

/** The value of an Allow header. A path that supports GET supports HEAD, and every path supports OPTIONS (D15). */
export const allowHeader = (methods: Iterable<string>): string =>
  [...methods, 'OPTIONS'].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method)).join(', ');

function matchSegments(template: readonly string[], segments: readonly string[]): Params | undefined {
  if (template.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of template.entries()) {
    const segment = segments[i] ?? '';
    if (isParameter(part)) params[part.slice(1, -1)] = segment;
    else if (part !== segment) return undefined;
  }
  return params;
}

const isParameter = (segment: string): boolean => segment.startsWith('{');

/** The operations of the contract with their whole paths. */
export const operationEntries = Object.entries<Operation>(operations).map(([name, { method, path }]) => ({
  name: name as OperationName,
  method,
  path: API_PREFIX + path,
}));

/** Finds the operations of a path. */
export const findOperations = createPathTable(operationEntries);

/** The methods of all operations, as an Allow header lists them. */
export const allMethods = allowHeader(new Set(operationEntries.map(({ method }) => method)));
