import type { Clock } from '../contract/clock.ts';
import { header } from '../contract/headers.ts';
import {
  API_PREFIX,
  type Operation,
  type OperationInput,
  type OperationName,
  operations,
} from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import { notFound, ServiceError } from './errors.ts';
import { createHandlers, type OperationCall } from './handlers.ts';
import { decodeSegments, pathOf } from './request/input.ts';
import type { Handler, HeaderLines, Maybe, ServiceResponse } from './response.ts';

/** An operation on a path. Its callers need an API key, and their requests are counted (docs/service.md 5 and 8). */
export type OperationRoute = {
  operation: OperationName;
  /** Headers of all responses, also of errors. */
  headers: HeaderLines;
  run(input: OperationInput<OperationName>, call: OperationCall): Maybe<ServiceResponse>;
};

/** A path with operations. */
type OperationPath = {
  /** `{name}` as a segment is a parameter. */
  path: string;
  access: 'key';
  kind: 'public';
  methods: Readonly<Record<string, OperationRoute>>;
};

/** Any other path, with its methods besides HEAD and OPTIONS. */
export type OtherPath = {
  path: string;
  /** `token`: callers need the developer token (docs/testing.md). */
  access: 'token' | 'open';
  /**
   * Only `public` paths are recorded, so that health checks do not fill the log. Tools and their page get no CORS headers.
   * Pages of other origins cannot use tools, but can link to the page.
   */
  kind: 'public' | 'health' | 'tool' | 'page';
  /** The name in metrics. */
  label: string;
  /** Headers of all responses, also of errors. */
  headers: HeaderLines;
  methods: Readonly<Record<string, Handler>>;
};

export type Path = OperationPath | OtherPath;

export type RoutesOptions = {
  store: Store;
  clock: Clock;
  /** The base URL as clients of a reverse proxy see it. */
  publicUrl?: string | undefined;
  /** The response to `GET /metrics`. */
  metrics?: (() => Promise<ServiceResponse>) | undefined;
  /** Whether the service is meant only for programs on this machine, so that `GET /metrics` needs no token. */
  isLocal?: boolean | undefined;
  /** The developer tools and their page (docs/testing.md); undefined if there are none. */
  tools?: { paths: readonly OtherPath[] } | undefined;
};

/** Everything that the service responds to. Who may ask, Allow, 404 and 405, labels and more follow from this table. */
export function createPaths(options: RoutesOptions): Path[] {
  const { store, clock, publicUrl, metrics, isLocal = true, tools } = options;
  const basePath = publicUrl === undefined ? API_PREFIX : new URL(publicUrl).pathname;
  const handlers = createHandlers({ store, clock, basePath });
  const methodsOf = (path: string) =>
    operationEntries
      .filter((entry) => entry.path === path)
      .map(({ name, method }): [string, OperationRoute] => [
        method,
        { operation: name, headers: deprecationHeaders(name, basePath), run: handlers[name] },
      ]);
  return [
    ...[...new Set(operationEntries.map(({ path }) => path))].map(
      (path): OperationPath => ({
        ...{ path, access: 'key', kind: 'public', methods: Object.fromEntries(methodsOf(path)) },
      }),
    ),
    publicPath('/healthz', 'health', () => json({ status: 'ok', store: store.id })),
    publicPath('/readyz', 'health', async () => {
      await store.checkWritable();
      return json({ status: 'ready', store: store.id });
    }),
    publicPath('/openapi.json', 'public', async (_, { host }) => {
      // Load the description only when it is requested, for a faster start.
      const { openApiDocument } = await import('./openapi.ts');
      const baseUrl = publicUrl ?? (host === undefined ? '' : `http://${host}`) + API_PREFIX;
      return { status: 200, body: openApiDocument(baseUrl) };
    }),
    ...(metrics ? [toolPath('/metrics', isLocal ? 'open' : 'token', { GET: metrics })] : []),
    ...(tools?.paths ?? []),
  ];
}

/** A path that supports GET, and that anyone may use. */
export const publicPath = (path: string, kind: OtherPath['kind'], run: Handler, label = path): OtherPath => ({
  path,
  access: 'open',
  kind,
  label,
  headers: [],
  methods: { GET: run },
});

/** The path of a developer tool. */
export const toolPath = (
  path: string,
  access: OtherPath['access'],
  methods: OtherPath['methods'],
): OtherPath => ({ path, access, kind: 'tool', label: path, headers: NO_STORE, methods });

const NO_STORE: HeaderLines = ['Cache-Control', 'no-store'];

const json = (content: object): ServiceResponse => ({ status: 200, body: JSON.stringify(content) });

/** The headers that announce the removal of a deprecated operation (D12). */
export function deprecationHeaders(name: OperationName, basePath = API_PREFIX): HeaderLines {
  const { deprecated }: Operation = operations[name];
  if (deprecated === undefined) return [];
  return [
    ...[header.deprecation, `@${deprecated.since.getTime() / 1_000}`],
    ...[header.sunset, deprecated.sunset.toUTCString()],
    ...[header.link, `<${basePath}${deprecated.successor}>; rel="successor-version"`],
  ];
}

/** The values of the path parameters, decoded. */
export type Params = Readonly<Record<string, string>>;

/** A path that was requested. `allow` is the value of its Allow header. */
export type PathMatch = Path & { allow: string; params: Params };

/** Returns a function that finds the path of a request target, or the error 400 or 404. */
export function createPathTable(table: readonly Path[]): (target: string) => PathMatch | ServiceError {
  const paths = table.map((path) => ({
    ...path,
    segments: segmentsOf(path.path),
    allow: allowHeader(Object.keys(path.methods)),
  }));
  // Paths without parameters are usually found without decoding the path of the request.
  const exact = new Map(
    paths
      .filter(({ segments }) => !segments.some(isParameter))
      .map((path) => [path.path, { ...path, params: {} }]),
  );

  function find(target: string): PathMatch {
    const requested = pathOf(target);
    const found = exact.get(requested);
    if (found) return found;
    const segments = decodeSegments(requested);
    for (const path of paths) {
      const params = matchSegments(path.segments, segments);
      if (params) return { ...path, params };
    }
    throw notFound();
  }

  return (target) => {
    try {
      return find(target);
    } catch (error) {
      if (error instanceof ServiceError) return error;
      throw error;
    }
  };
}

/** The value of an Allow header. A path that supports GET supports HEAD, and every path supports OPTIONS (D15). */
export const allowHeader = (methods: Iterable<string>): string =>
  [...methods, 'OPTIONS'].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method)).join(', ');

export function matchSegments(template: readonly string[], segments: readonly string[]): Params | undefined {
  if (template.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of template.entries()) {
    const segment = segments[i] ?? '';
    if (isParameter(part)) params[part.slice(1, -1)] = segment;
    else if (part !== segment) return undefined;
  }
  return params;
}

/** The segments of the path of a route. */
export const segmentsOf = (path: string): readonly string[] => path.slice(1).split('/');

const isParameter = (segment: string): boolean => segment.startsWith('{');

/** The operations of the contract with their whole paths. */
export const operationEntries = Object.entries<Operation>(operations).map(([name, { method, path }]) => ({
  name: name as OperationName,
  method,
  path: API_PREFIX + path,
}));

/** The methods of all operations, as an Allow header lists them. */
export const allMethods = allowHeader(new Set(operationEntries.map(({ method }) => method)));
