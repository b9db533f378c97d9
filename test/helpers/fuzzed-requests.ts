import fc from 'fast-check';
import { API_PREFIX, type OperationName, operations } from '../../src/contract/api.ts';
import { INT64_MAX, INT64_MIN } from '../../src/contract/json.ts';
import { petStatuses } from '../../src/contract/schemas.ts';
import { encodeCursor } from '../../src/server/routes.ts';
import type { CreateRequest } from '../../src/store/store.ts';
import { table } from './openapi.ts';
import { HOST } from './raw-client.ts';

/** A request body with the expected animal, or the expected error status. */
type Body = { text: string; pet?: CreateRequest['pet'] | undefined; refused?: 400 };

const animal = (pet: CreateRequest['pet'], more = ''): Body => ({
  text: `{${more}"name":${JSON.stringify(pet.name)},"categoryId":${pet.categoryId},"status":"${pet.status}"}`,
  pet,
});
const REX: Body = {
  text: '{"name":"Rex","categoryId":1}',
  pet: { name: 'Rex', categoryId: 1n, status: 'available' },
};

const names = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    ...['Rex', '', ' ', '\0', '😀'.repeat(40), '"\\', '__proto__', 'x'.repeat(600), '"\\"},{"id":9,'],
    ...['a\nb\r\u2028', '\u202e\u001b[31m', '{"crc":"00000000","seq":1}\n{"crc":"'],
  ),
);
const categories = fc.oneof(fc.bigInt({ min: 0n, max: 9n }), fc.bigInt({ min: INT64_MIN, max: INT64_MAX }));
const statuses = fc.constantFrom(...petStatuses);
/** Additional fields. They precede the animal's own fields, because the last of two fields with the same name wins. */
const more = fc.oneof(
  fc.constantFrom('"id":7,', '"categoryId":"first",', '"__proto__":{"status":"sold"},', '"n":1e400,'),
  fc.json({ maxDepth: 3 }).map((json) => `"more":${json},`),
);
const animals: fc.Arbitrary<Body> = fc.oneof(
  fc
    .tuple(fc.record({ name: names, categoryId: categories, status: statuses }), more)
    .map(([pet, more]) => animal(pet, more)),
  // Three animals that differ only in their status, so that many requests have equal bodies.
  statuses.map((status) => animal({ name: 'Rex', categoryId: 1n, status })),
  fc
    .constantFrom('"categoryId":1.0', '"categoryId":100e-2', '"name":"\\u0052\\u0065x","categoryId":1')
    .map((fields) => ({ ...REX, text: `{"name":"Rex",${fields}}` })),
);

/** Fields of an animal that are refused. Each replaces the field of the same name. */
const badFields = [
  ...['null', '7', '["Rex"]', '"a\nb"', '"\\x"', "'Rex'", '"\\ud800"'].map((value) => `"name":${value}`),
  ...[`${INT64_MAX + 1n}`, '9'.repeat(400), '1.5', '1e', '1e999999999'].map(
    (value) => `"categoryId":${value}`,
  ),
  ...['"gone"', '"AVAILABLE"', '""', 'null', '1', '[]'].map((value) => `"status":${value}`),
  ...['"open":[', '', '"n":NaN', '"n":1/* */'],
];

const body: fc.Arbitrary<Body> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom('', ' \t\r\n', '\ufeff'), animals)
      .map(([start, { text, pet }]): Body => ({ text: start + text, pet })),
  },
  {
    weight: 1,
    arbitrary: fc
      .oneof(
        fc.constantFrom(...badFields).map((field) => `${REX.text.slice(0, -1)},${field}}`),
        fc.nat(REX.text.length - 1).map((length) => REX.text.slice(0, length)),
        fc.constantFrom(REX.text + REX.text, `[${REX.text}]`),
      )
      .map((text): Body => ({ text, refused: 400 })),
  },
);

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
  authorization: { text: '' } as Part,
  type: { text: JSON_TYPE } as Part,
  idempotency: { text: '' } as Part,
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
  connection: fine(
    ...lines('Connection', 'close', 'keep-alive'),
    ...['websocket', 'h2c', 'TLS/1.0'].map((protocol) => `Connection: Upgrade\r\nUpgrade: ${protocol}\r\n`),
  ),
});

/** An ordinary list and an ordinary creation with an API key. */
const ordinary = (key: string): [Parts, Parts] => {
  const list = { ...usual, authorization: bearer(key), body: REX };
  return [list, { ...list, method: { text: 'POST' } }];
};

const kinds = Object.keys(usual) as Kind[];

/** Both ordinary requests with each odd value of a part. */
const withOddPart = (key: string, kind: Kind): Parts[] =>
  oddParts(key)[kind].flatMap((value) => ordinary(key).map((parts): Parts => ({ ...parts, [kind]: value })));

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
        ...kinds.map((kind) => fc.constantFrom(...keys.flatMap((key) => withOddPart(key, kind)))),
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
    ...kinds.flatMap((kind) => withOddPart(key, kind)),
    ...fc.sample(body, { numRuns: bodies, seed: 1 }).map((body): Parts => ({ ...ordinary(key)[1], body })),
  ].map(assemble);

function assemble(parts: Parts): FuzzedRequest {
  const { method, place, query, authorization, body, connection } = parts;
  const name = place.methods?.[method.text];
  const operation = name === 'page' ? undefined : name;
  const request: FuzzedRequest = {
    bytes: render(parts),
    method: method.text,
    path: place.text,
    statuses: [],
    mayEnd: method.refused !== undefined || /close|Upgrade/.test(connection.text),
    ...(operation && { operation }),
  };
  // Node's parser responds before the service gets the request.
  if (method.refused) return { ...request, statuses: [method.refused] };

  const isOptions = method.text === 'OPTIONS';
  const isReached = ({ isForOperation }: Part) =>
    isForOperation === undefined || isForOperation === operation;
  const problems = [isReached(place) ? place.refused : undefined];
  if (place.methods?.['GET'] && name === undefined && !isOptions) problems.push(405);
  if (place.isApi && !isOptions) problems.push(authorization.refused);
  if (operation) {
    problems.push(...[query, parts.type, parts.idempotency].filter(isReached).map(({ refused }) => refused));
    if (operation === 'createPet') problems.push(body.refused);
  }
  const refusals = problems.filter((status) => status !== undefined);
  const successes = () => {
    if (isOptions) return [204];
    if (operation === undefined) return [200];
    const { status } = operations[operation].success;
    if (operation === 'createPet') return [status, 409, 422];
    return operation === 'getPet' ? [status, 404, 410] : [status];
  };
  request.statuses = refusals.length > 0 ? refusals : successes();
  if (place.isApi && !isOptions && authorization.key) request.limitedBy = authorization.key;
  if (request.statuses.includes(201) && body.pet) request.creates = body.pet;
  return request;
}

function render({ method, place, query, body, chunk, ...parts }: Parts): Buffer {
  const { authorization, type, idempotency, connection } = parts;
  const fields = [authorization, type, idempotency, connection];
  const head = `${method.text} ${place.text + query.text} HTTP/1.1\r\n${HOST}${fields.map(({ text }) => text).join('')}`;
  const end = method.text === 'POST' ? framed(Buffer.from(body.text), chunk) : Buffer.from('\r\n');
  return Buffer.concat([Buffer.from(head, 'latin1'), end]);
}

function framed(bytes: Buffer, chunk?: number): Buffer {
  if (chunk === undefined)
    return Buffer.concat([Buffer.from(`Content-Length: ${bytes.length}\r\n\r\n`), bytes]);
  const pieces: Buffer[] = [Buffer.from('Transfer-Encoding: chunked\r\n\r\n')];
  for (let at = 0; at < bytes.length; at += chunk) {
    const piece = bytes.subarray(at, at + chunk);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]);
}
