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

/** The methods of a developer tool, besides HEAD and OPTIONS. */
type ToolMethods = Readonly<Partial<Record<RouteBase['method'], Handler>>>;

type RouteBase = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** `{name}` as a segment is a parameter. */
  path: string;
  /** The name in metrics. */
  label: string;
  /** Headers of all responses, also of errors. */
  headers: HeaderLines;
};

/** An operation. Its callers need an API key, and their requests are counted (docs/service.md 5 and 8). */
export type OperationRoute = RouteBase & {
  access: 'key';
  kind: 'public';
  operation: OperationName;
  run(input: OperationInput<OperationName>, call: OperationCall): Maybe<ServiceResponse>;
};

export type OtherRoute = RouteBase & {
  /** `token`: callers need the developer token (docs/testing.md). */
  access: 'token' | 'open';
  /**
   * Only `public` routes are recorded, so that health checks do not fill the log. Tools and their page get no CORS headers.
   * Pages of other origins cannot use tools, but can link to the page.
   */
  kind: 'public' | 'health' | 'tool' | 'page';
  run: Handler;
};

export type Route = OperationRoute | OtherRoute;

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
  tools?: { routes: readonly OtherRoute[] } | undefined;
};

/** Everything that the service responds to. Who may ask, Allow, 404 and 405, labels and more follow from this table. */
export function createRoutes(options: RoutesOptions): Route[] {
  const { store, clock, publicUrl, metrics, isLocal = true, tools } = options;
  const basePath = publicUrl === undefined ? API_PREFIX : new URL(publicUrl).pathname;
  const handlers = createHandlers({ store, clock, basePath });
  return [
    ...operationEntries.map(({ name, method, path }): Route => {
      const headers = deprecationHeaders(name, basePath);
      return {
        ...{ method, path, label: name, headers, access: 'key', kind: 'public' },
        ...{ operation: name, run: handlers[name] },
      };
    }),
    publicRoute('/healthz', 'health', () => json({ status: 'ok', store: store.id })),
    publicRoute('/readyz', 'health', async () => {
      await store.checkWritable();
      return json({ status: 'ready', store: store.id });
    }),
    publicRoute('/openapi.json', 'public', async (_, { host }) => {
      // Load the description only when it is requested, for a faster start.
      const { openApiDocument } = await import('./openapi.ts');
      const baseUrl = publicUrl ?? (host === undefined ? '' : `http://${host}`) + API_PREFIX;
      return { status: 200, body: openApiDocument(baseUrl) };
    }),
    ...(metrics ? toolRoutes('/metrics', isLocal ? 'open' : 'token', { GET: metrics }) : []),
    ...(tools?.routes ?? []),
  ];
}

/** A route that supports GET, and that anyone may use. */
export const publicRoute = (
  path: string,
  kind: OtherRoute['kind'],
  run: Handler,
  label = path,
): OtherRoute => ({
  ...{ method: 'GET', path, label, headers: [], access: 'open', kind, run },
});

/** The routes of a developer tool. */
export const toolRoutes = (path: string, access: OtherRoute['access'], methods: ToolMethods): OtherRoute[] =>
  Object.entries(methods).map(([method, run]) => ({
    ...{ method: method as RouteBase['method'], path, label: path, headers: NO_STORE },
    ...{ access, kind: 'tool', run },
  }));

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

/**
 * A path of the table: the value of its Allow header, and its route for each method. The routes of a path differ neither in
 * `access` nor in `kind`, so `first` is any of them.
 */
type Path = { segments: readonly string[]; allow: string; methods: ReadonlyMap<string, Route>; first: Route };

export type PathMatch = Path & { params: Params };

/** Returns a function that finds the routes of a request target, or the error 400 or 404. */
export function createRouteTable(routes: readonly Route[]): (target: string) => PathMatch | ServiceError {
  const paths = [...new Map(routes.map((route) => [route.path, route])).values()].map((first): Path => {
    const here = routes.filter(({ path }) => path === first.path);
    const methods = new Map(here.map((route) => [route.method, route]));
    return { segments: segmentsOf(first.path), allow: allowHeader(methods.keys()), methods, first };
  });
  // Paths without parameters are usually found without decoding the path of the request.
  const exact = new Map(
    paths
      .filter(({ segments }) => !segments.some(isParameter))
      .map((path) => [`/${path.segments.join('/')}`, { ...path, params: {} }]),
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
