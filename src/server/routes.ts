import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { API_PREFIX, type Operation, type OperationName, operations, pageSize } from '../contract/api.ts';
import { decodeIdempotencyKey, header } from '../contract/headers.ts';
import { parseInt64 } from '../contract/json.ts';
import { NewPet, petStatuses } from '../contract/schemas.ts';
import type { AcceptedKeys } from '../store/keys.ts';
import type { RateLimitDecision } from '../store/limiter.ts';
import type { CreateRequest, IdempotentCall, PageQuery, Store } from '../store/store.ts';
import type { Clock, SteadyClock } from '../system/clock.ts';
import type { Caller } from './authentication.ts';
import { invalidRequest, methodNotAllowed, notFound, ServiceError } from './errors.ts';
import { pathOf, type Query, validate } from './request/input.ts';
import { type Handler, json, type RawHeaders, type ServiceResponse, windowHeaders } from './response.ts';
import type { Recorder } from './tools/recorder.ts';

/**
 * A request for an operation. `body` is the parsed JSON, undefined if the operation has none. `rateLimit` is the decision
 * that allowed the request.
 */
type OperationCall = {
  request: IncomingMessage;
  caller: Caller;
  rateLimit: RateLimitDecision;
  query: Query;
  body: unknown;
};

type OperationHandler = (call: OperationCall) => Promise<ServiceResponse>;

/** A path whose methods are operations. Callers need an API key, and requests are counted (docs/service.md 5 and 8). */
export type OperationPath = {
  path: string;
  access: 'key';
  kind: 'public';
  /** By method, without HEAD and OPTIONS. As soon as the route is found, the response has the `headers`, even an error. */
  methods: Readonly<
    Record<string, { name: OperationName; headers: RawHeaders; readsBody: boolean; run: OperationHandler }>
  >;
};

/** A path outside the API, such as `/healthz`. `label` is its name in metrics; for `headers`, see `OperationPath`. */
export type RootPath = {
  /** The last segment may be a parameter, such as `{name}`. */
  path: string;
  /** `token`: callers need the developer token or the session of the page (docs/testing.md). */
  access: 'token' | 'open';
  /**
   * Requests are recorded only if the path is `public` or unknown, so that health checks do not fill the log. Tools and
   * their page get no CORS headers. Pages of other origins cannot use tools, but can link to the page.
   */
  kind: 'public' | 'health' | 'tool' | 'page';
  label: string;
  headers: RawHeaders;
  methods: Readonly<Record<string, Handler>>;
};

type Path = OperationPath | RootPath;

export type RoutesOptions = {
  store: Store;
  keys: Pick<AcceptedKeys, 'find' | 'list'>;
  clock: SteadyClock;
  /** The base URL as clients of a reverse proxy see it. */
  publicUrl?: string | undefined;
  metrics?: (() => Promise<ServiceResponse>) | undefined;
  /** Whether the service is meant only for programs on this machine. If so, `GET /metrics` needs no token. */
  isLocal?: boolean | undefined;
  /** The developer tools and their page (docs/testing.md). If undefined, `Prefer` has no effect either. */
  tools?: { paths: readonly RootPath[]; recorder?: Recorder } | undefined;
};

/** Returns all paths of the service. Access, CORS, Allow, 404 and 405, labels and more follow from this table. */
export function createPaths(options: RoutesOptions): Path[] {
  const { store, keys, clock, publicUrl, metrics, isLocal = true, tools } = options;
  const basePath = publicUrl === undefined ? API_PREFIX : new URL(publicUrl).pathname;
  const handlers = createHandlers(store, clock, basePath);
  const checkWritable = atMostOnceASecond(clock, () => store.checkWritable());
  const operationPaths = new Map<string, OperationPath['methods']>();
  for (const [name, { method, path, body }] of operationEntries) {
    const headers = deprecationHeaders(name, basePath);
    const route = { name, headers, readsBody: body !== undefined, run: handlers[name] };
    const fullPath = API_PREFIX + path;
    operationPaths.set(fullPath, { ...operationPaths.get(fullPath), [method]: route });
  }
  return [
    ...Array.from(operationPaths, ([path, methods]) => ({
      ...({ path, access: 'key', kind: 'public', methods } as const),
    })),
    publicPath('/healthz', 'health', () => json({ status: 'ok', store: store.id })),
    publicPath('/readyz', 'health', async () => {
      await checkWritable();
      // Without the keys, no request can be accepted.
      await keys.list();
      return json({ status: 'ready', store: store.id });
    }),
    publicPath('/openapi.json', 'public', ({ headers: { host } }) => {
      const document = readFileSync(new URL('openapi.json', import.meta.url), 'utf8');
      const baseUrl = publicUrl ?? (host === undefined ? '' : `http://${host}`) + API_PREFIX;
      return { status: 200, body: document.replace('"/v1"', () => JSON.stringify(baseUrl)) };
    }),
    ...(metrics ? [toolPath('/metrics', isLocal ? 'open' : 'token', { GET: metrics })] : []),
    ...(tools?.paths ?? []),
  ];
}

/** A path that supports GET, and that anyone may use. */
export const publicPath = (path: string, kind: RootPath['kind'], run: Handler, label = path): RootPath => ({
  path,
  access: 'open',
  kind,
  label,
  headers: [],
  methods: { GET: run },
});

export const toolPath = (
  path: string,
  access: RootPath['access'],
  methods: RootPath['methods'],
): RootPath => ({ path, access, kind: 'tool', label: path, headers: NO_STORE, methods });

const NO_STORE: RawHeaders = ['Cache-Control', 'no-store'];

/** Implements the operations of the contract (docs/service.md 4). `basePath` is the path of the base URL, for links. */
const createHandlers = (
  store: Store,
  clock: Clock,
  basePath: string,
): Record<OperationName, OperationHandler> => ({
  async listPets({ query, rateLimit }) {
    const page = readPageQuery(query);
    const { pets, next } = await store.list(page);
    const headers = windowHeaders(rateLimit);
    // If there is only one page, it links to itself, so that a client knows that a full page is the last one (D1).
    if (next !== undefined || page.after === undefined) {
      const filter = page.status === undefined ? '' : `&status=${page.status}`;
      const [position, relation] =
        next === undefined ? ['', 'first'] : [`&cursor=${encodeCursor(next)}`, 'next'];
      const link = `${basePath}${operations.listPets.path}?limit=${page.limit}${filter}${position}`;
      headers.push(header.link, `<${link}>; rel="${relation}"`);
    }
    // Node sends a string body together with the headers, but a buffer separately.
    const body = `[${pets.toString('latin1')}]`;
    return { status: operations.listPets.success.status, headers, body, encoding: 'latin1' };
  },

  async createPet({ body, caller, request }) {
    const { name, categoryId, status = 'available' } = validate(NewPet, body, 'The body');
    const pet = { name, categoryId, status };
    const idempotency = readIdempotency(request, caller, pet);
    const result = await store.add(idempotency ? { pet, idempotency } : { pet });
    if (!('pet' in result)) {
      const [code, message] = IDEMPOTENCY_ERRORS[result.kind];
      throw new ServiceError(code, message);
    }
    const headers = result.kind === 'replayed' ? [header.idempotencyReplayed, 'true'] : [];
    return { status: operations.createPet.success.status, headers, body: result.pet };
  },

  async getPet({ request: { url = '' } }) {
    const path = pathOf(url);
    const id = parseInt64(path.slice(path.lastIndexOf('/') + 1));
    if (id === undefined)
      throw new ServiceError('not_found', 'Not found: an id is a 64-bit integer without leading zeros');
    const { sunset, successor } = operations.getPet.deprecated;
    if (clock.now() >= sunset.getTime()) {
      throw new ServiceError(
        'operation_removed',
        `This operation was removed on ${sunset.toUTCString()}. GET ${API_PREFIX}${successor} lists the animals`,
      );
    }
    const pet = await store.get(id);
    if (pet === undefined) throw new ServiceError('not_found', `There is no animal with id ${id}`);
    return { status: operations.getPet.success.status, body: pet };
  },

  async listOrders() {
    const orders = await store.orders();
    return { status: operations.listOrders.success.status, body: `[${orders.join(',')}]` };
  },
});

/** The three parameters of a list (docs/service.md 4.1). @throws ServiceError 400, which names every problem */
function readPageQuery(query: Query): PageQuery {
  const limit = query.get('limit') ?? String(pageSize.default);
  const [status, cursor] = [query.get('status'), query.get('cursor')];
  const validStatus = petStatuses.find((other) => other === status);
  const after = cursor === undefined ? undefined : decodeCursor(cursor);
  const problems: string[] = [];
  if (!/^[1-9]\d{0,2}$/.test(limit) || Number(limit) > pageSize.max)
    problems.push(`limit must be an integer from ${pageSize.min} to ${pageSize.max}`);
  if (status !== validStatus) problems.push(`status must be one of ${petStatuses.join(', ')}`);
  if (cursor !== undefined && after === undefined)
    problems.push('cursor is not valid, so start again without it');
  if (problems.length > 0) throw invalidRequest(problems.join('; '));
  return { limit: Number(limit), status: validStatus, after };
}

const IDEMPOTENCY_KEY = header.idempotencyKey.toLowerCase();

const IDEMPOTENCY_ERRORS = {
  mismatch: ['idempotency_mismatch', 'This Idempotency-Key was used for another animal in the last 24 hours'],
  in_flight: [
    'idempotency_in_flight',
    'The result of the first request with this Idempotency-Key is not certain yet, so try again later',
  ],
} as const;

/** The Idempotency-Key with a hash of the new animal (D10); undefined without one. @throws ServiceError 400 */
function readIdempotency(
  request: IncomingMessage,
  { id }: Caller,
  { name, categoryId, status }: CreateRequest['pet'],
): IdempotentCall | undefined {
  const value = request.headers[IDEMPOTENCY_KEY];
  if (value === undefined) return undefined;
  const key = decodeIdempotencyKey(String(value));
  if (key === undefined) {
    throw invalidRequest('Idempotency-Key must be a token or a quoted string of 1 to 255 ASCII characters');
  }
  return { scope: id, key, bodyHash: hash('sha256', JSON.stringify([name, categoryId.toString(), status])) };
}

/** The form of a cursor: the version of the format, then the id as 64 bits in hexadecimal. */
const CURSOR = /^v1([0-9a-f]{16})$/;

/** The cursor of the page after the animal with id `after` (docs/service.md, D1). Clients must not interpret it. */
export const encodeCursor = (after: bigint): string =>
  `v1${BigInt.asUintN(64, after).toString(16).padStart(16, '0')}`;

/** The id in a cursor; undefined if the text does not have the form of a cursor. */
export function decodeCursor(cursor: string): bigint | undefined {
  const digits = CURSOR.exec(cursor)?.[1];
  return digits === undefined ? undefined : BigInt.asIntN(64, BigInt(`0x${digits}`));
}

/** The headers that announce the removal of a deprecated operation (D12); empty for other operations. */
function deprecationHeaders(name: OperationName, basePath = API_PREFIX): RawHeaders {
  const { deprecated }: Operation = operations[name];
  if (deprecated === undefined) return [];
  return [
    ...[header.deprecation, `@${deprecated.since.getTime() / 1_000}`],
    ...[header.sunset, deprecated.sunset.toUTCString()],
    ...[header.link, `<${basePath}${deprecated.successor}>; rel="successor-version"`],
  ];
}

/** A path of the table. `allow` is the value of its Allow header. */
export type KnownPath = Path & { allow: string };

/**
 * Returns a function that finds the path of a request target. Paths are compared as they were sent: no path of the service
 * needs percent-encoding.
 */
export function createPathFinder(table: readonly Path[]) {
  const withParameter = (path: string) => `${path.slice(0, path.lastIndexOf('/'))}/{}`;
  const paths = new Map(
    table.map((entry): [string, KnownPath] => [
      entry.path.endsWith('}') ? withParameter(entry.path) : entry.path,
      { ...entry, allow: allowHeader(Object.keys(entry.methods)) },
    ]),
  );
  return (target: string): KnownPath | undefined => {
    const path = pathOf(target);
    return paths.get(path) ?? paths.get(withParameter(path));
  };
}

/** The method whose handler a request gets: that of GET for HEAD (D15), otherwise its own. */
export const asGet = (method = ''): string => (method === 'HEAD' ? 'GET' : method);

export const noRouteError = (path: KnownPath | undefined): ServiceError =>
  path ? methodNotAllowed(path.path, path.allow) : notFound();

/** The value of an Allow header. A path that supports GET supports HEAD, and every path supports OPTIONS (D15). */
const allowHeader = (methods: Iterable<string>): string =>
  [...methods, 'OPTIONS'].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method)).join(', ');

const operationEntries = Object.entries(operations) as [OperationName, Operation][];

export const allMethodsHeader = allowHeader(new Set(operationEntries.map(([, { method }]) => method)));

/** Returns a function that runs a check at most once a second, and otherwise returns its last result. */
function atMostOnceASecond(clock: SteadyClock, check: () => Promise<void>): () => Promise<void> {
  let last: { at: number; result: Promise<void> } | undefined;
  return () => {
    const at = clock.elapsed();
    if (!last || at - last.at >= 1_000) last = { at, result: check() };
    return last.result;
  };
}
