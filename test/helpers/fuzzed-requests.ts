import fc from 'fast-check';
import { INT64_MAX, INT64_MIN } from '../../src/contract/json.ts';
import { API_PREFIX, type OperationName, operations } from '../../src/contract/operations.ts';
import { petStatuses } from '../../src/contract/schemas.ts';
import { encodeCursor } from '../../src/server/routes.ts';
import type { CreateRequest } from '../../src/store/store.ts';
import { table } from './openapi.ts';
import { legible } from './raw-client.ts';

/** A request body with the expected animal, or the expected error status. */
type Body = { bytes: Buffer; pet?: CreateRequest['pet']; refused?: 400 | 413 };

/** A field as JSON, and its value if it is valid. An empty text means that the field is left out. */
type Field = { text: string; value?: unknown };

/** Generates values of `good`, and about one in 13 of `bad`. */
const mostly = <Good, Bad = Good>(good: fc.Arbitrary<Good>, bad: fc.Arbitrary<Bad>) =>
  fc.oneof({ arbitrary: good, weight: 12 }, { arbitrary: bad, weight: 1 });

const field = (good: fc.Arbitrary<Field>, ...bad: string[]): fc.Arbitrary<Field> =>
  mostly(
    good,
    fc.constantFrom(...bad).map((text) => ({ text })),
  );

const names = fc.oneof(
  fc.constantFrom('Rex', 'Ada'),
  fc.string({ unit: 'binary' }),
  fc.array(fc.nat(0xffff), { maxLength: 12 }).map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    ...['', ' ', '\0', '\ud800', '😀'.repeat(40), '"\\', '__proto__', 'x'.repeat(600), '"\\"},{"id":9,'],
    ...['a\nb\r\u2028', '\u202e\u001b[31m', '{"crc":"00000000","seq":1}\n{"crc":"'],
  ),
);
const name = field(
  fc.oneof(
    fc.constant({ text: '"\\u0052\\u0065x"', value: 'Rex' }),
    // Names with lone surrogates are invalid.
    names.map((value) => ({ text: JSON.stringify(value), ...(!/\p{Surrogate}/u.test(value) && { value }) })),
  ),
  ...['null', '7', '["Rex"]', '"a\nb"', '"\\x"', "'Rex'", ''],
);

const numbers = { '-0': 0n, '3.0': 3n, '1e3': 1000n, '100e-2': 1n, '-9.0E+0': -9n };
const categoryId = field(
  fc.oneof(
    fc.bigInt({ min: 0n, max: 9n }).map((value) => ({ text: `${value}`, value })),
    fc.bigInt({ min: INT64_MIN, max: INT64_MAX }).map((value) => ({ text: `${value}`, value })),
    fc.constantFrom(...Object.entries(numbers)).map(([text, value]) => ({ text, value })),
  ),
  ...[`${INT64_MAX + 1n}`, '9'.repeat(400), '1.5', '1e', '1e999999999'],
);

const status = field(
  fc.constantFrom(
    { text: '', value: 'available' },
    ...petStatuses.map((value) => ({ text: `"${value}"`, value })),
  ),
  ...['"gone"', '"AVAILABLE"', '""', 'null', '1', '[]'],
);

const nested = (depth: number) => `"deep":${'['.repeat(depth)}${']'.repeat(depth)}`;
/** Additional fields. They precede the animal's own fields, because the last of two fields with the same name wins. */
const more = field(
  fc
    .oneof(
      fc.constantFrom('', '"id":7', '"categoryId":"first"', '"__proto__":{"status":"sold"}', '"n":1e400'),
      fc.json({ maxDepth: 3 }).map((json) => `"more":${json}`),
      // The service accepts 32 levels, and the animal itself is the first level.
      fc.integer({ min: 1, max: 31 }).map(nested),
    )
    .map((text) => ({ text, value: true })),
  ...[nested(32), nested(9_000), '"open":[', ',', '"n":NaN', '"n":1/* */'],
);

const newPet = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ more, name, categoryId, status }).map(({ more, ...fields }): Field => {
      const named = Object.entries(fields).map(([key, { text }]) => text && `"${key}":${text}`);
      const text = `{${[more.text, ...named].filter(Boolean).join(',')}}`;
      const isValid = [more, ...Object.values(fields)].every(({ value }) => value !== undefined);
      const entries = Object.entries(fields).map(([key, { value }]) => [key, value]);
      return { text, ...(isValid && { value: Object.fromEntries(entries) }) };
    }),
  },
  // Three animals that differ only in their status, so that many requests have equal bodies.
  {
    weight: 1,
    arbitrary: fc.constantFrom(...petStatuses).map((status): Field => {
      const text = `{"name":"Rex","categoryId":1,"status":"${status}"}`;
      return { text, value: { name: 'Rex', categoryId: 1n, status } };
    }),
  },
);

const padded = (text: string, length: number) =>
  Buffer.concat([Buffer.from(text), Buffer.alloc(Math.max(0, length - Buffer.byteLength(text)), ' ')]);

/** Generates a body from the text of an animal and a number. The body is refused with this status, if it is set. */
type Encode = [encode: (text: string, at: number) => Buffer, refused?: 400 | 413];
const body: fc.Arbitrary<Body> = fc
  .tuple(
    newPet,
    mostly(
      fc.constantFrom<Encode[]>(
        [(text) => Buffer.from(text)],
        [(text) => Buffer.from(` \t\r\n${text}\n`)],
        [(text) => Buffer.from(`\ufeff${text}`)],
      ),
      fc.constantFrom<Encode[]>(
        [(text) => padded(text, 65_536)],
        [(text) => padded(text, 65_537), 413],
        [(text, at) => Buffer.from(text.slice(0, at % text.length)), 400],
        [(text) => Buffer.from(text, 'utf16le'), 400],
        [(text) => Buffer.from(text + text), 400],
        [(text) => Buffer.from(`[${text}]`), 400],
      ),
    ),
    fc.nat(0xffff),
  )
  .map(([{ text, value }, [encode, refused], at]) => {
    const pet = value as Body['pet'];
    const status = refused ?? (pet ? undefined : 400);
    return { bytes: encode(text, at), ...(status ? { refused: status } : pet && { pet }) };
  });

/** A part of a request. */
type Part = {
  text: string;
  /** The status of the error if the part is invalid. */
  refused?: number;
  /** Whether only the operation checks the part, so that it must be reached first. */
  isForOperation?: OperationName;
  /** Of a target: whether it is under the prefix of the API, and what each method there is, if anything. */
  isApi?: boolean;
  methods?: Partial<Record<string, OperationName | 'page'>>;
  /** Of an Authorization header: the API key in it. */
  key?: string;
};

const fine = (...texts: string[]): Part[] => texts.map((text) => ({ text }));
const wrong = (refused: number, ...texts: string[]): Part[] => texts.map((text) => ({ text, refused }));
const line = (name: string) => (value: string) => `${name}: ${value}\r\n`;
const lines = (name: string, ...values: string[]) => values.map(line(name));

const place = (text: string, template: string): Part => ({
  text,
  isApi: true,
  methods: Object.fromEntries(
    table
      .filter(([, operation]) => operation.path === template)
      .flatMap(([name, { method }]) => [[method, name], ...(method === 'GET' ? [['HEAD', name]] : [])]),
  ),
});
const page = (text: string): Part => ({ text, methods: { GET: 'page', HEAD: 'page' } });
const nowhere = (refused: number, ...texts: string[]): Part[] =>
  wrong(refused, ...texts).map((part) => ({ ...part, methods: {} }));

const places: Part[] = [
  ...table
    .filter(([, { path }]) => !path.includes('{'))
    .map(([, { path }]) => place(API_PREFIX + path, path)),
  ...[1n, 2n, 9n, INT64_MAX, -1n, 0n].map((id) => place(`${API_PREFIX}/pets/${id}`, '/pets/{petId}')),
  ...['x', '', '01', '+1', '1.0', '1e0', '%00', '1%00', '%20', '%F0%9F%98%80', '..%2f..%2fetc', '%31', '%zz']
    .concat('%c3%28', '9223372036854775808', '9'.repeat(90))
    .map(
      (id): Part => ({
        ...place(`${API_PREFIX}/pets/${id}`, '/pets/{petId}'),
        refused: 404,
        isForOperation: 'getPet',
      }),
    ),
  ...['/healthz', '/openapi.json'].map(page),
  ...nowhere(404, '/v1', '/v1/cats', '/v1//pets', '/v1/constructor', '/v1/pets%2F1', '/v1/pets/1/2', '/v1/%')
    .concat(nowhere(404, '/v1/../v1/pets', '/v1/pets#x', '/v1/p%65ts', '/v1/%F0%9F%98%80'))
    .map((part) => ({ ...part, isApi: true })),
  ...nowhere(404, '/', '/__proto__', '/%76%31/pets', '/v1%2Fpets', '/v1x', '/favicon.ico'),
  ...nowhere(404, '//v1/pets', '//evil.example/v1/pets', 'ftp://127.0.0.1/v1/pets', '*'),
  ...['http://LOCALHOST:7387', 'HTTPS://127.0.0.1'].map((url) => place(`${url}/v1/pets`, '/pets')),
  ...nowhere(404, 'http://127.0.0.1', 'http://127.0.0.1/v2/pets', 'http://127.0.0.1//v1/pets'),
  ...nowhere(400, 'http://user@127.0.0.1/v1/pets', 'http:///v1/pets'),
  ...nowhere(421, 'http://evil.example/v1/pets'),
];

const cursor = encodeCursor(3n);
const invalidPages = [
  ...['limit=', 'limit=0', 'limit=101', 'limit=1000', 'limit=-1', 'limit=%2B1', 'limit=05', 'limit=1.0'],
  ...['limit=1e1', 'limit=+1', 'limit=ten', 'limit=1%00', 'status=', 'status=lost'],
  ...['status=sold=sold', 'cursor=', 'cursor=3', `cursor=${cursor}A`, `cursor=${cursor.toUpperCase()}`],
];
const JSON_TYPE = line('Content-Type')('application/json');
const idempotencyKey = line('Idempotency-Key');
const bearer = (key: string): Part => ({ text: `Authorization: Bearer ${key}\r\n`, key });

const usual = {
  method: { text: 'GET' } as Part,
  place: place('/v1/pets', '/pets'),
  query: { text: '' } as Part,
  host: { text: 'Host: 127.0.0.1\r\n' } as Part,
  authorization: { text: '' } as Part,
  type: { text: JSON_TYPE } as Part,
  idempotency: { text: '' } as Part,
  expectation: { text: '' } as Part,
  rest: { text: '' } as Part,
  connection: { text: '' } as Part,
};
type Kind = keyof typeof usual;
/** The bytes of each body are sent with Content-Length, or in chunks of this size. */
type Parts = Record<Kind, Part> & { body: Body; chunk?: number };

/** The values of each part, without the usual one. */
const oddParts = (apiKey: string): Record<Kind, Part[]> => ({
  method: [
    ...fine('HEAD', 'OPTIONS', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND', 'M-SEARCH'),
    // Node's parser rejects unknown methods, so they get 400 whatever the path is.
    ...wrong(400, 'BREW', 'get'),
  ],
  place: places,
  query: [
    ...fine('?', '?limit=5', '?limit=100&status=pending', '?status=sold', `?cursor=${cursor}`, '?%6cimit=7'),
    ...fine('?limit=1', '?&x&&limit=1&', '?__proto__=1&constructor=2', '?colour=red'),
    ...['?a&a', '?limit=1&%6cimit=1', '?a+b=1&a%20b=1', '?__proto__=1&__proto__=2', '?x=%zz', '?%c3%28'].map(
      (text) => ({ text, refused: 400 }),
    ),
    ...invalidPages.map((text): Part => ({ text: `?${text}`, refused: 400, isForOperation: 'listPets' })),
  ],
  host: [
    ...fine(...lines('Host', 'localhost:80', 'LOCALHOST:9000', '[::1]:7387', '127.8.8.8')),
    ...wrong(400, '', line('Host')('::1').repeat(2), lines('Host', '127.0.0.1', 'evil.example').join('')),
    ...wrong(400, ...lines('Host', '', '127.0.0.1/v1', 'user@127.0.0.1', '127.0.0.1, evil.example')),
    ...wrong(400, ...lines('Host', '127.0.0.1:port')),
    ...wrong(421, ...lines('Host', 'evil.example', 'evil.example:7387', '192.0.2.1', '[::2]:1')),
    ...wrong(421, ...lines('Host', '127.0.0.1.evil.example', 'localhost.evil.example')),
  ],
  authorization: [
    { text: `Authorization: BEARER  ${apiKey} \r\n`, key: apiKey },
    ...wrong(401, '', ...lines('Authorization', 'Bearer no', `Basic ${apiKey}`, `Bearer ${apiKey} x`)),
    ...wrong(400, bearer(apiKey).text.repeat(2), `${bearer(apiKey).text}AUTHORIZATION: Bearer no\r\n`),
    ...wrong(400, `Authorization: Bearer no\r\n${bearer(apiKey).text}`),
  ],
  type: [
    ...fine(line('Content-Type')('Application/JSON; charset="UTF-8"')),
    ...fine(`${JSON_TYPE}Content-Encoding: identity\r\n`),
    // A page of any website can send text/plain or no Content-Type without a preflight request.
    ...wrong(415, '', ...lines('Content-Type', 'text/plain', 'application/jsonp')),
    ...wrong(415, line('Content-Type')('application/json; charset=utf-16')),
    ...wrong(415, `${JSON_TYPE}Content-Encoding: gzip\r\n`),
    ...wrong(415, JSON_TYPE.repeat(2), `${JSON_TYPE}Content-Type: text/plain\r\n`),
  ].map((part): Part => ({ ...part, isForOperation: 'createPet' })),
  idempotency: [
    ...fine(...['k1', 'k2', '"k1"', '"k2"', '"k3"', 'k4'].map(idempotencyKey)),
    ...wrong(
      400,
      ...['', '""', '"open', 'a b', '"a"b"', '"\\a"', '\xe9', '"\xe9"', '"a", "b"'].map(idempotencyKey),
    ),
    // Tools send placeholders such as the first three.
    ...wrong(400, ...['<string>', '{{$guid}}', '{key}', 'x'.repeat(256)].map(idempotencyKey)),
    ...wrong(400, ...[256, 4_000].map((length) => idempotencyKey(`"${'x'.repeat(length)}"`))),
    ...wrong(400, idempotencyKey('k1').repeat(2)),
  ].map((part): Part => ({ ...part, isForOperation: 'createPet' })),
  expectation: [...fine('Expect: 100-continue\r\n'), ...wrong(417, 'Expect: banana\r\n')],
  rest: [
    ...fine(...lines('Origin', 'https://a.example', 'null'), ...lines('X', 'x'.repeat(3_000), '\xff')),
    ...wrong(431, line('X')('x'.repeat(9_000))),
  ],
  connection: fine(
    ...lines('Connection', 'close', 'keep-alive'),
    ...['websocket', 'h2c', 'TLS/1.0'].map((protocol) => `Connection: Upgrade\r\nUpgrade: ${protocol}\r\n`),
  ),
});

const REX: Body = {
  bytes: Buffer.from('{"name":"Rex","categoryId":1}'),
  pet: { name: 'Rex', categoryId: 1n, status: 'available' },
};

/** An ordinary list and an ordinary creation with an API key. */
const ordinary = (key: string): [Parts, Parts] => {
  const list = { ...usual, authorization: bearer(key), body: REX };
  return [list, { ...list, method: { text: 'POST' } }];
};

const kinds = Object.keys(usual) as Kind[];

/** Both ordinary requests with each value of these parts, and GET of /healthz with each Host. */
function withOneOddPart(key: string, parts: readonly Kind[]): Parts[] {
  const odd = oddParts(key);
  const variants = (base: Parts, kind: Kind) => odd[kind].map((value): Parts => ({ ...base, [kind]: value }));
  const [list, create] = ordinary(key);
  const checks = parts.includes('host') ? variants({ ...list, place: page('/healthz') }, 'host') : [];
  return [...parts.flatMap((kind) => [...variants(list, kind), ...variants(create, kind)]), ...checks];
}

/** A request, and the results that are possible regardless of earlier requests. */
export type FuzzedRequest = {
  bytes: Buffer;
  method: string;
  path: string;
  operation?: OperationName;
  /** The possible statuses. Not included: 429 and an injected 503, which are possible if `limitedBy` is set. */
  statuses: readonly number[];
  /** The API key whose limit applies: if it is used up, the request gets 429. */
  limitedBy?: string;
  /** The animal that the request adds if it is successful. */
  creates?: CreateRequest['pet'];
  /** Whether the service may close the connection after the response. */
  mayEnd: boolean;
};

/** Generates requests with these API keys. About half are ordinary except for one part and their bodies. */
export const requestOf = (keys: readonly string[]): fc.Arbitrary<FuzzedRequest> =>
  fc
    .record({
      parts: fc.oneof(
        { arbitrary: fc.constantFrom(...keys.flatMap(ordinary)), weight: kinds.length },
        ...kinds.map((kind) => fc.constantFrom(...keys.flatMap((key) => withOneOddPart(key, [kind])))),
      ),
      body,
      idempotency: fc.constantFrom(...fine('', '', idempotencyKey('k1'), idempotencyKey('"k2"'))),
      chunk: fc.option(fc.integer({ min: 1, max: 3_000 }), { nil: undefined }),
    })
    .map(({ parts, body, idempotency, chunk }) =>
      assemble({ ...parts, body, ...(!parts.idempotency.text && { idempotency }), ...(chunk && { chunk }) }),
    );

/** Requests that differ from ordinary ones in one part. `bodies` is the number of random bodies. */
export const requestsWithOneOddPart = (key: string, bodies: number): FuzzedRequest[] =>
  [
    ...withOneOddPart(key, kinds),
    ...fc.sample(body, { numRuns: bodies, seed: 1 }).map((body): Parts => ({ ...ordinary(key)[1], body })),
  ].map(assemble);

function assemble(parts: Parts): FuzzedRequest {
  const { method, place, query, authorization, host, body, expectation, rest, connection } = parts;
  const name = place.methods?.[method.text];
  const operation = name === 'page' ? undefined : name;
  const request: FuzzedRequest = {
    bytes: render(parts),
    method: method.text,
    path: place.text,
    // Node's parser answers first.
    statuses: [method.refused, rest.refused].filter(isStatus),
    mayEnd: true,
    ...(operation && { operation }),
  };
  if (request.statuses.length > 0) return shown(request);

  const isOptions = method.text === 'OPTIONS';
  // A health check may have any host.
  const hostRefused = host.refused === 421 && place.text === '/healthz' ? undefined : host.refused;
  const isReached = ({ isForOperation }: Part) =>
    isForOperation === undefined || isForOperation === operation;
  const problems = [hostRefused, isReached(place) ? place.refused : undefined];
  if (place.methods?.['GET'] && name === undefined && !isOptions) problems.push(405);
  if (place.isApi && !isOptions) problems.push(authorization.refused);
  if (name !== undefined) problems.push(expectation.refused);
  if (operation) {
    problems.push(...[query, parts.type, parts.idempotency].filter(isReached).map(({ refused }) => refused));
    if (operation === 'createPet') problems.push(body.refused);
  }
  const refusals = problems.filter(isStatus);
  const successes = () => {
    if (isOptions) return [204];
    if (operation === undefined) return [200];
    const { status } = operations[operation].success;
    if (operation === 'createPet') return [status, 409, 422];
    return operation === 'getPet' ? [status, 404, 410] : [status];
  };
  request.statuses = refusals.length > 0 ? refusals : successes();
  request.mayEnd = /close|Upgrade/.test(connection.text);
  if (place.isApi && !isOptions && hostRefused === undefined && authorization.key)
    request.limitedBy = authorization.key;
  if (request.statuses.includes(201) && body.pet) request.creates = body.pet;
  return shown(request);
}

const isStatus = (status: number | undefined): status is number => status !== undefined;

function render({ method, place, query, body, chunk, ...parts }: Parts): Buffer {
  const { host, authorization, type, idempotency, expectation, rest, connection } = parts;
  const fields = [host, authorization, type, idempotency, expectation, rest, connection];
  const head = `${method.text} ${place.text + query.text} HTTP/1.1\r\n${fields.map(({ text }) => text).join('')}`;
  const end = method.text === 'POST' ? framed(body.bytes, chunk) : Buffer.from('\r\n');
  return Buffer.concat([Buffer.from(head, 'latin1'), end]);
}

function framed(bytes: Buffer, chunk?: number): Buffer {
  if (chunk === undefined)
    return Buffer.concat([Buffer.from(`Content-Length: ${bytes.length}\r\n\r\n`), bytes]);
  const pieces: Buffer[] = [Buffer.from('Transfer-Encoding: chunked\r\n\r\n')];
  // Large bodies get larger chunks, so that the test stays fast.
  const size = Math.max(chunk, bytes.length >> 7);
  for (let at = 0; at < bytes.length; at += size) {
    const piece = bytes.subarray(at, at + size);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]);
}

/** Makes fast-check print the bytes of a request. */
const shown = (request: FuzzedRequest): FuzzedRequest =>
  Object.defineProperty(request, fc.toStringMethod, { value: () => legible(request.bytes) });

/** The fast-check options that repeat a failure. Set PETS_FUZZ_SEED and PETS_FUZZ_PATH to what the failure printed. */
export function replayed(): { seed?: number; path?: string } {
  const { PETS_FUZZ_SEED: seed, PETS_FUZZ_PATH: path } = process.env;
  return { ...(seed && { seed: Number(seed) }), ...(path && { path }) };
}
