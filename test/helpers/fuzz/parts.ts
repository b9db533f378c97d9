import fc from 'fast-check';
import { errorCodes } from '../../../src/contract/error-codes.ts';
import { API_PREFIX, type OperationName } from '../../../src/contract/operations.ts';
import { encodeCursor } from '../../../src/server/routes.ts';
import { table } from '../openapi.ts';
import { body, mostly } from './bodies.ts';

// A few wrong parts of each kind. Other tests send many more of them, one at a time.

/** A part of a request. `refused` is the status of the error that an invalid part causes if the service evaluates it. */
type Part = { text: string; refused?: number };

const fine = (...texts: string[]): Part[] => texts.map((text) => ({ text }));
const wrong = (refused: number, ...texts: string[]): Part[] => texts.map((text) => ({ text, refused }));
const from = <T extends Part>(good: readonly T[], bad: readonly T[]): fc.Arbitrary<T> =>
  mostly(fc.constantFrom(...good), fc.constantFrom(...bad));

const line = (name: string) => (value: string) => `${name}: ${value}\r\n`;
const lines = (name: string, ...values: string[]) => values.map(line(name));

const method = mostly(
  fc.constantFrom(...fine('GET', 'POST', 'POST', 'POST', 'HEAD', 'OPTIONS')),
  // Node's parser rejects unknown methods, and CONNECT has no handler, so they get 405 whatever the path is.
  fc.constantFrom(
    ...fine('PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND'),
    ...wrong(405, 'BREW', 'get', 'CONNECT'),
  ),
);

/** A path, with the operation of each method. An unversioned route has `page` instead of an operation. */
type Place = Part & {
  isApi: boolean;
  methods: Partial<Record<string, OperationName | 'page'>>;
  reads?: bigint;
  /** The status of the operation's error for an invalid id in the path. */
  refusedByOperation?: number;
};

const place = (text: string, template: string, more: Partial<Place> = {}): Place => ({
  text,
  isApi: true,
  methods: Object.fromEntries(
    table
      .filter(([, operation]) => operation.path === template)
      .flatMap(([name, { method }]) => [[method, name], ...(method === 'GET' ? [['HEAD', name]] : [])]),
  ),
  ...more,
});
const page = (text: string): Place => ({ text, isApi: false, methods: { GET: 'page', HEAD: 'page' } });
const nowhere = (isApi: boolean, refused: number, ...texts: string[]): Place[] =>
  wrong(refused, ...texts).map((part) => ({ ...part, isApi, methods: {} }));

const ids = [1n, 2n, 3n, 5n, 9n, 15n, 25n, 2n ** 63n - 1n, -1n, 0n];
const noIds = ['x', '01', '%00', '9223372036854775808', '', '%F0%9F%98%80'];
const places = table.flatMap(([, { path }]) =>
  path.includes('{')
    ? ids.map((id) => place(API_PREFIX + path.replace(/\{\w+\}/, `${id}`), path, { reads: id }))
    : [place(API_PREFIX + path, path)],
);
const oddPlaces = [
  place(`${API_PREFIX}/p%65ts`, '/pets'),
  place(`${API_PREFIX}/pets/%31`, '/pets/{petId}', { reads: 1n }),
  ...noIds.map((id) => place(`${API_PREFIX}/pets/${id}`, '/pets/{petId}', { refusedByOperation: 404 })),
  ...['/healthz', '/openapi.json'].map(page),
  ...nowhere(true, 404, '/v1', '/v1/cats', '/v1//pets', '/v1/constructor', '/v1/pets%2F1'),
  ...nowhere(false, 404, '/', '/__proto__', '/%76%31/pets', '/v1x', '/favicon.ico'),
  ...nowhere(true, 400, '/v1/pets/%zz', '/v1/%'),
  ...nowhere(false, 400, '//v1/pets', 'ftp://127.0.0.1/v1/pets', '*'),
  place(`http://LOCALHOST:7387${API_PREFIX}/pets`, '/pets'),
  ...nowhere(false, 404, 'http://127.0.0.1/v2/pets'),
  ...nowhere(false, 421, 'http://evil.example/v1/pets'),
];
const path: fc.Arbitrary<Place> = fc.oneof(
  { arbitrary: fc.constantFrom(place('/v1/pets', '/pets')), weight: 6 },
  { arbitrary: fc.constantFrom(...places), weight: 5 },
  { arbitrary: fc.constantFrom(...oddPlaces), weight: 1 },
  {
    arbitrary: fc
      .string({ unit: 'grapheme' })
      .map((text) => nowhere(true, 404, `/v1/x${encodeURIComponent(text)}`)[0] as Place),
    weight: 1,
  },
);

const cursor = encodeCursor(3n);
const goodQueries = [
  'limit=5',
  'status=sold',
  'limit=100&status=pending',
  `cursor=${cursor}`,
  '%6cimit=7',
  '&&',
];
const badQueries = ['limit=101', 'limit=1%00', 'status=', `cursor=${cursor}A`];
type Query = Part & { refusedByList?: number };
const query: fc.Arbitrary<Query> = mostly<Query, Query>(
  fc.oneof(
    fc.constantFrom(...fine('')),
    fc.constantFrom(...fine('?', ...goodQueries.map((text) => `?${text}`))),
  ),
  fc.constantFrom<Query[]>(
    ...wrong(400, '?a&a', '?limit=1&%6cimit=1', '?x=%zz'),
    ...badQueries.map((text) => ({ text: `?${text}`, refusedByList: 400 })),
  ),
);

const host = from(fine(...lines('Host', '127.0.0.1', 'localhost:80', '[::1]:7387')), [
  ...wrong(400, '', line('Host')('127.0.0.1/v1'), line('Host')('::1').repeat(2)),
  ...wrong(421, ...lines('Host', 'evil.example', '[::2]:1')),
]);

const authorizationOf = (keys: readonly string[]) => {
  const named = line('Authorization');
  type Authorization = Part & { key?: string };
  return from<Authorization>(
    keys.flatMap((key) =>
      fine(named(`Bearer ${key}`), named(`bearer  ${key} `)).map((part) => ({ ...part, key })),
    ),
    [
      ...wrong(401, '', ...['Bearer no', `Basic ${keys[0]}`, `Bearer ${keys[0]} x`].map(named)),
      ...wrong(400, ...keys.map((key) => named(`Bearer ${key}`).repeat(2))),
    ],
  );
};

const type = from(fine(...lines('Content-Type', 'application/json', 'Application/JSON; charset="UTF-8"')), [
  ...wrong(415, '', line('Content-Type')('text/plain')),
  ...wrong(415, `${line('Content-Type')('application/json')}Content-Encoding: gzip\r\n`),
  ...wrong(400, line('Content-Type')('application/json').repeat(2)),
]);

const KEYS = ['k1', 'k2', 'k3', 'k4'];
type Idempotency = Part & { key?: string };
const named = line('Idempotency-Key');
const idempotency = fc.oneof(
  fc.constant<Idempotency>({ text: '' }),
  from<Idempotency>(
    KEYS.flatMap((key) => fine(named(`"${key}"`), named(key)).map((part) => ({ ...part, key }))),
    wrong(400, ...['', '"open', 'a b', '\xe9'].map(named), named('k1').repeat(2)),
  ),
);

type Prefer = Part & { code?: string };
const statuses = [...new Set<number>(Object.values(errorCodes))];
const prefer: fc.Arbitrary<Prefer> = mostly<Prefer, Prefer>(
  fc.constantFrom(...fine('', '', '', ...lines('Prefer', 'respond-async', 'recode=500', ''))),
  fc
    .constantFrom('200', '201', '204', '999', '', 'x', ...statuses.map(String))
    .map((code) => ({ text: line('Prefer')(`wait=1, code=${code}`), code })),
);

const expectation = from(
  fine('', '', '', line('Expect')('100-continue')),
  wrong(417, line('Expect')('banana')),
);
const rest = from(
  fine('', '', '', ...lines('Origin', 'https://a.example', 'null'), ...lines('X', 'x'.repeat(3_000), '\xff')),
  wrong(431, line('X')('x'.repeat(9_000))),
);
const connection = mostly(
  fc.constant(''),
  fc.constantFrom(...lines('Connection', 'close', 'keep-alive', 'Upgrade\r\nUpgrade: websocket')),
);

/** How a body is sent, with Content-Length or in chunks. The sizes of chunks repeat if there are more chunks. */
export type Frame = 'length' | { sizes: readonly number[]; extension: string; trailer: string };
const frame: fc.Arbitrary<Frame> = fc.oneof(
  { arbitrary: fc.constant<Frame>('length'), weight: 6 },
  {
    arbitrary: fc.record({
      sizes: fc.array(fc.integer({ min: 1, max: 3_000 }), { minLength: 1, maxLength: 4 }),
      extension: fc.constantFrom('', ';x=1', ';y="z"'),
      trailer: fc.constantFrom('', 'X-Trailer: 1\r\n'),
    }),
    weight: 3,
  },
);

/** Generates the parts of a request with one of these API keys. */
export const partsOf = (keys: readonly string[]) =>
  fc.record({
    method,
    place: path,
    query,
    version: mostly(fc.constant('1.1'), fc.constant('1.0')),
    host,
    authorization: authorizationOf(keys),
    type,
    idempotency,
    prefer,
    expectation,
    rest,
    connection,
    frame,
    body,
    /** Whether to send a body although the operation has none. */
    hasBody: fc.boolean(),
  });

export type Parts = ReturnType<typeof partsOf> extends fc.Arbitrary<infer Parts> ? Parts : never;
