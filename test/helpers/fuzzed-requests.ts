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

/** A part of a request. `refused` is the status of the error that an invalid part causes if the service checks it. */
type Part = { text: string; refused?: number };

const fine = (...texts: string[]): Part[] => texts.map((text) => ({ text }));
const wrong = (refused: number, ...texts: string[]): Part[] => texts.map((text) => ({ text, refused }));

const line = (name: string) => (value: string) => `${name}: ${value}\r\n`;
const lines = (name: string, ...values: string[]) => values.map(line(name));

/** A path, with the operation of each method. An unversioned route has `page` instead of an operation. */
type Place = Part & {
  isApi: boolean;
  methods: Partial<Record<string, OperationName | 'page'>>;
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
const noIds = ['x', '', '01', '+1', '1.0', '1e0', '%00', '1%00', '%20', '%F0%9F%98%80', '..%2f..%2fetc'];
const places = table.flatMap(([, { path }]) =>
  path.includes('{')
    ? ids.map((id) => place(API_PREFIX + path.replace(/\{\w+\}/, `${id}`), path))
    : [place(API_PREFIX + path, path)],
);
const oddPlaces = [
  ...[...noIds, '%31', '%zz', '%c3%28', '9223372036854775808', '9'.repeat(90)].map((id) =>
    place(`${API_PREFIX}/pets/${id}`, '/pets/{petId}', { refusedByOperation: 404 }),
  ),
  ...['/healthz', '/openapi.json'].map(page),
  ...nowhere(
    true,
    404,
    '/v1',
    '/v1/cats',
    '/v1//pets',
    '/v1/constructor',
    '/v1/pets%2F1',
    '/v1/pets/1/2',
    '/v1/%',
  ),
  ...nowhere(true, 404, '/v1/../v1/pets', '/v1/pets#x', '/v1/p%65ts'),
  ...nowhere(false, 404, '/', '/__proto__', '/%76%31/pets', '/v1%2Fpets', '/v1x', '/favicon.ico'),
  ...nowhere(false, 404, '//v1/pets', '//evil.example/v1/pets', 'ftp://127.0.0.1/v1/pets', '*'),
  // The host of an absolute target counts, not the one in the Host header.
  ...['http://LOCALHOST:7387', 'HTTPS://127.0.0.1'].map((url) => place(`${url}/v1/pets`, '/pets')),
  ...nowhere(false, 404, 'http://127.0.0.1', 'http://127.0.0.1/v2/pets', 'http://127.0.0.1//v1/pets'),
  ...nowhere(false, 400, 'http://user@127.0.0.1/v1/pets', 'http:///v1/pets'),
  ...nowhere(false, 421, 'http://evil.example/v1/pets'),
];
const randomPlace = fc
  .string({ unit: 'grapheme' })
  .map((text) => nowhere(true, 404, `/v1/x${encodeURIComponent(text)}`)[0] as Place);

const cursor = encodeCursor(3n);
type Query = Part & { refusedByList?: number };
const goodQueries = [
  ...['', '', '?', '?limit=5', '?limit=100&status=pending', '?status=sold', `?cursor=${cursor}`],
  ...['?%6cimit=7', '?limit=1', '?&x&&limit=1&', '?__proto__=1&constructor=2', '?colour=red'],
];
const badQueries = [
  ...['?a&a', '?limit=1&%6cimit=1', '?a+b=1&a%20b=1', '?__proto__=1&__proto__=2', '?x=%zz', '?%c3%28'],
];
const queriesRefusedByList = [
  ...['limit=', 'limit=0', 'limit=101', 'limit=1000', 'limit=-1', 'limit=%2B1', 'limit=05', 'limit=1.0'],
  ...['limit=1e1', 'limit=+1', 'limit=ten', 'limit=1%00', 'status=', 'status=lost'],
  ...['status=sold=sold', 'cursor=', 'cursor=3', `cursor=${cursor}A`, `cursor=${cursor.toUpperCase()}`],
];

type Authorization = Part & { key?: string };
const authorizations = (keys: readonly string[]) => {
  const named = line('Authorization');
  const first = named(`Bearer ${keys[0]}`);
  return {
    good: keys.flatMap((key) =>
      fine(named(`Bearer ${key}`), named(`BEARER  ${key} `)).map((part) => ({ ...part, key })),
    ) as Authorization[],
    bad: [
      ...wrong(401, '', ...['Bearer no', `Basic ${keys[0]}`, `Bearer ${keys[0]} x`].map(named)),
      ...wrong(400, first + first, `${first}AUTHORIZATION: Bearer no\r\n`, named('Bearer no') + first),
    ] as Authorization[],
  };
};

const JSON_TYPE = line('Content-Type')('application/json');
const KEYS = ['k1', 'k2', 'k3', 'k4'];
const LONG_KEYS = [256, 4_000].map((length) => `"${'x'.repeat(length)}"`);
const key = line('Idempotency-Key');

const UPGRADES = ['websocket', 'h2c', 'TLS/1.0'].map((protocol) => `Upgrade\r\nUpgrade: ${protocol}`);

/** How a body is sent: with Content-Length, or in chunks of these sizes, again and again. */
type Frame = 'length' | readonly number[];
const frame: fc.Arbitrary<Frame> = fc.oneof(
  { arbitrary: fc.constant<Frame>('length'), weight: 6 },
  { arbitrary: fc.array(fc.integer({ min: 1, max: 3_000 }), { minLength: 1, maxLength: 4 }), weight: 3 },
);

type Choice<Value> = { good: readonly Value[]; bad: readonly Value[] };

/** The usual values (`good`) and the wrong or unusual values (`bad`) of each part of a request. `keys` are API keys. */
const choicesOf = (keys: readonly string[]) => ({
  method: {
    good: fine('GET', 'POST', 'POST', 'POST', 'HEAD', 'OPTIONS'),
    // Node's parser rejects unknown methods, so they get 400 whatever the path is.
    bad: [...fine('PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND', 'M-SEARCH'), ...wrong(400, 'BREW', 'get')],
  },
  place: { good: [...Array<Place>(10).fill(place('/v1/pets', '/pets')), ...places], bad: oddPlaces },
  query: {
    good: fine(...goodQueries) as Query[],
    bad: [
      ...wrong(400, ...badQueries),
      ...queriesRefusedByList.map((text) => ({ text: `?${text}`, refusedByList: 400 })),
    ] as Query[],
  },
  host: {
    good: fine(...lines('Host', '127.0.0.1', 'localhost:80', 'LOCALHOST:9000', '[::1]:7387', '127.8.8.8')),
    bad: [
      ...wrong(400, '', line('Host')('::1').repeat(2), lines('Host', '127.0.0.1', 'evil.example').join('')),
      ...wrong(400, ...lines('Host', '', '127.0.0.1/v1', 'user@127.0.0.1', '127.0.0.1, evil.example')),
      ...wrong(400, ...lines('Host', '127.0.0.1:port')),
      ...wrong(421, ...lines('Host', 'evil.example', 'evil.example:7387', '192.0.2.1', '[::2]:1')),
      ...wrong(421, ...lines('Host', '127.0.0.1.evil.example', 'localhost.evil.example')),
    ],
  },
  authorization: authorizations(keys),
  type: {
    good: fine(
      ...lines('Content-Type', 'application/json', 'Application/JSON; charset="UTF-8"'),
      `${JSON_TYPE}Content-Encoding: identity\r\n`,
    ),
    bad: [
      // A page of any website can send text/plain or no Content-Type without a preflight request.
      ...wrong(415, '', ...lines('Content-Type', 'text/plain', 'application/jsonp')),
      ...wrong(415, line('Content-Type')('application/json; charset=utf-16')),
      ...wrong(415, `${JSON_TYPE}Content-Encoding: gzip\r\n`),
      ...wrong(415, JSON_TYPE.repeat(2), `${JSON_TYPE}Content-Type: text/plain\r\n`),
    ],
  },
  idempotency: {
    good: [
      ...Array<Part>(8).fill({ text: '' }),
      ...KEYS.flatMap((each) => fine(key(`"${each}"`), key(each))),
    ],
    bad: [
      ...wrong(400, ...['', '""', '"open', 'a b', '"a"b"', '"\\a"', '\xe9', '"\xe9"', '"a", "b"'].map(key)),
      // Tools send placeholders such as the first three.
      ...wrong(400, ...['<string>', '{{$guid}}', '{key}', 'x'.repeat(256), ...LONG_KEYS].map(key)),
      ...wrong(400, key('k1').repeat(2)),
    ],
  },
  expectation: {
    good: fine('', '', '', line('Expect')('100-continue')),
    bad: wrong(417, line('Expect')('banana')),
  },
  rest: {
    good: fine(
      ...['', '', ''],
      ...lines('Origin', 'https://a.example', 'null'),
      ...lines('X', 'x'.repeat(3_000), '\xff'),
    ),
    bad: wrong(431, line('X')('x'.repeat(9_000))),
  },
  connection: {
    good: [''],
    bad: lines('Connection', 'close', 'keep-alive', ...UPGRADES),
  },
});
type Choices = ReturnType<typeof choicesOf>;
type Kind = keyof Choices;
type Value<Each extends Kind> = (Choices[Each]['good'] | Choices[Each]['bad'])[number];
type Parts = { [Each in Kind]: Value<Each> } & {
  frame: Frame;
  body: Body;
  /** Whether to send a body although the operation has none. */
  hasBody: boolean;
};

function partsOf(keys: readonly string[]): fc.Arbitrary<Parts> {
  const arbitraries = Object.entries(choicesOf(keys)).map(
    ([kind, { good, bad }]: [string, Choice<unknown>]) => [
      kind,
      kind === 'place'
        ? fc.oneof(
            { arbitrary: mostly(fc.constantFrom(...good), fc.constantFrom(...bad)), weight: 12 },
            randomPlace,
          )
        : mostly(fc.constantFrom(...good), fc.constantFrom(...bad)),
    ],
  );
  return fc.record({ ...Object.fromEntries(arbitraries), frame, body, hasBody: fc.boolean() });
}

const REX: Body = {
  bytes: Buffer.from('{"name":"Rex","categoryId":1}'),
  pet: { name: 'Rex', categoryId: 1n, status: 'available' },
};

/** GET and POST with each value of each part, GET of /healthz with each Host, and POST with each body. */
function oneOddPart(apiKey: string, bodies: readonly Body[]): Parts[] {
  const choices = choicesOf([apiKey]);
  const usual = Object.fromEntries(Object.entries(choices).map(([kind, { good }]) => [kind, good[0]]));
  const list = { ...usual, frame: 'length', body: REX, hasBody: false } as Parts;
  const create = { ...list, method: { text: 'POST' } };
  const variants = (base: Parts, kinds = Object.keys(choices) as Kind[]) =>
    kinds.flatMap((kind) => {
      const { good, bad }: Choice<unknown> = choices[kind];
      return [...new Set([...good, ...bad])].map((value): Parts => ({ ...base, [kind]: value }));
    });
  return [
    ...variants(list),
    ...variants(create),
    ...variants({ ...list, place: page('/healthz') }, ['host']),
    ...bodies.map((each) => ({ ...create, body: each })),
  ];
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

/** Generates requests. Most have one of these API keys; a few have invalid credentials or none. */
export const requestOf = (keys: readonly string[]): fc.Arbitrary<FuzzedRequest> =>
  partsOf(keys).map(assemble);

/** Requests that differ from ordinary ones in one or two parts. `bodies` is the number of random bodies. */
export const requestsWithOneOddPart = (key: string, bodies: number): FuzzedRequest[] =>
  oneOddPart(key, fc.sample(body, { numRuns: bodies, seed: 1 })).map(assemble);

function assemble(parts: Parts): FuzzedRequest {
  const { method, place, query, idempotency, authorization, body, expectation } = parts;
  const name = place.methods[method.text];
  const operation = name === 'page' ? undefined : name;
  const caller = authorization.key;
  const request: FuzzedRequest = {
    bytes: render(parts),
    method: method.text,
    path: place.text,
    statuses: [method.refused, parts.rest.refused].filter(isStatus),
    mayEnd: true,
    ...(operation && { operation }),
  };
  // Node's parser answers first.
  if (request.statuses.length > 0) return shown(request);

  const isOptions = method.text === 'OPTIONS';
  // `OPTIONS *` and `OPTIONS /` ask about the whole server.
  const isServer = isOptions && /^(?:\*|(?:http:\/\/127\.0\.0\.1)?\/?)$/.test(place.text + query.text);
  const placeRefused = isServer ? undefined : place.refused;
  // An absolute target names the host itself, and a health check may have any.
  const isAnyHost = parts.host.refused === 421 && /^(?:http|\/healthz$)/i.test(place.text);
  const hostRefused = isAnyHost ? undefined : parts.host.refused;
  const problems = [hostRefused, placeRefused];
  if (placeRefused === undefined && name === undefined && !isOptions) problems.push(405);
  if (place.isApi && !isOptions) problems.push(authorization.refused);
  if (name !== undefined) problems.push(expectation.refused);
  if (operation) problems.push(query.refused, place.refusedByOperation);
  if (operation === 'listPets') problems.push(query.refusedByList);
  if (operation === 'createPet') problems.push(parts.type.refused, idempotency.refused, body.refused);
  const refusals = problems.filter(isStatus);
  const successes = () => {
    if (isOptions) return [204];
    if (operation === undefined) return [200];
    const { status } = operations[operation].success;
    if (operation === 'createPet') return [status, 409, 422];
    return operation === 'getPet' ? [status, 404, 410] : [status];
  };
  request.statuses = refusals.length > 0 ? refusals : successes();
  request.mayEnd = /close|Upgrade/.test(parts.connection);
  if (place.isApi && !isOptions && hostRefused === undefined && caller) request.limitedBy = caller;
  if (request.statuses.includes(201) && body.pet) request.creates = body.pet;
  return shown(request);
}

const isStatus = (status: number | undefined): status is number => status !== undefined;

function render({ method, place, query, hasBody, frame, body, connection, ...parts }: Parts): Buffer {
  const { host, authorization, type, idempotency, expectation, rest } = parts;
  const texts = [host, authorization, type, idempotency, expectation, rest].map(({ text }) => text);
  const head = `${method.text} ${place.text + query.text} HTTP/1.1\r\n${texts.join('')}${connection}`;
  const end = hasBody || method.text === 'POST' ? framed(body.bytes, frame) : Buffer.from('\r\n');
  return Buffer.concat([Buffer.from(head, 'latin1'), end]);
}

function framed(bytes: Buffer, frame: Frame): Buffer {
  if (frame === 'length')
    return Buffer.concat([Buffer.from(`Content-Length: ${bytes.length}\r\n\r\n`), bytes]);
  const pieces: Buffer[] = [Buffer.from('Transfer-Encoding: chunked\r\n\r\n')];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    // Large bodies get larger chunks, so that the test stays fast.
    const chunk = bytes.subarray(at, at + Math.max(frame[i % frame.length] ?? 1, bytes.length >> 7));
    pieces.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
    at += chunk.length;
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
