import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { conformance } from '../helpers/conformance.ts';
import { listAllPets } from '../helpers/list-all-pets.ts';
import { type Machine, makeMachine, type RunningService, serve } from '../helpers/pets.ts';

// Checks docs/service.md, sections 4, 5, 7 and 8, against a running service. Every response is also validated against
// the OpenAPI document that the service serves.

let machine: Machine;
let dispose: () => Promise<void>;
let service: RunningService;
let described: ReturnType<typeof conformance>;

beforeAll(async () => {
  ({ machine, dispose } = await makeMachine());
  service = await serve(machine, ['--ephemeral', '--seed', '--plan', 'business']);
  described = conformance(await (await fetch(new URL('/openapi.json', service.url))).json());
});
afterAll(() => dispose());

type Call = {
  method?: string;
  path: string;
  body?: string;
  type?: string;
  /** null sends no Authorization header. */
  authorization?: string | null;
};

async function call({ method = 'GET', path, body, type = 'application/json', authorization }: Call) {
  const headers: Record<string, string> = body === undefined ? {} : { 'Content-Type': type };
  if (authorization !== null) headers['Authorization'] = authorization ?? `Bearer ${service.key}`;
  const response = await fetch(service.url + path, { method, headers, ...(body !== undefined && { body }) });
  const text = await response.text();
  const { status } = response;
  const observed = { status, headers: response.headers, text };
  const target = `/v1${path}`;
  if (described.describes(target)) expect(described.violations(method, target, observed)).toEqual([]);
  return { status, headers: response.headers, text, json: text === '' ? undefined : JSON.parse(text) };
}

const post = (body: string): Call => ({ method: 'POST', path: '/pets', body });

/** Sends a request that must get this error; `mentions` must be in its message. */
async function expectError(request: Call, status: number, code: string, mentions = ''): Promise<Headers> {
  const response = await call(request);
  expect(response.status).toBe(status);
  expect(response.json).toEqual({ code, message: expect.stringContaining(mentions), status });
  expectRateLimitHeaders(response.headers);
  return response.headers;
}

function expectRateLimitHeaders(headers: Headers): void {
  expect(headers.get('x-ratelimit-limit')).toMatch(/^[1-9]\d*$/);
  expect(headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
  const sentAt = Date.parse(headers.get('date') ?? '');
  expect(Number(headers.get('x-ratelimit-reset')) * 1000).toBeGreaterThan(sentAt);
}

describe('4.1 list animals', () => {
  test('responds 200 with an array of animals, 20 by default', async () => {
    const { status, json, headers } = await call({ path: '/pets' });
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/json');
    expect(json).toHaveLength(20);
    for (const pet of json) {
      expect(pet).toEqual({
        id: expect.any(Number),
        name: expect.any(String),
        categoryId: expect.any(Number),
        status: expect.stringMatching(/^(available|pending|sold)$/),
      });
    }
  });

  test.each([1, 2, 37, 100])('returns at most limit=%i animals', async (limit) => {
    const { json } = await call({ path: `/pets?limit=${limit}` });
    expect(json).toHaveLength(Math.min(limit, 66));
  });

  test('filters by status, and every animal has one of the three', async () => {
    const list = async (query: string) => (await call({ path: `/pets?limit=100${query}` })).json;
    let count = 0;
    for (const status of ['available', 'pending', 'sold']) {
      const pets = await list(`&status=${status}`);
      expect(new Set(pets.map((pet: { status: string }) => pet.status))).toEqual(new Set([status]));
      count += pets.length;
    }
    expect(await list('')).toHaveLength(count);
  });

  test.each([
    ...['0', '101', '-1', '1.5', 'ten', '', '1e1', '99999999999999999999', '%31%30%30%30'].map(
      (text) => ['limit', text] as const,
    ),
    ...['Available', 'lost', '', 'available,sold'].map((text) => ['status', text] as const),
  ])('rejects %s=%s with 400 and names the parameter', async (name, text) => {
    await expectError({ path: `/pets?${name}=${text}` }, 400, 'invalid_request', name);
  });

  test('the next links lead through every animal exactly once, in ascending order of ids', async () => {
    const ids: number[] = [];
    let path: string | undefined = '/pets?limit=7';
    for (let pages = 0; path !== undefined && pages < 50; pages++) {
      const { json, headers } = await call({ path });
      ids.push(...json.map((pet: { id: number }) => pet.id));
      path = /^<\/v1(\/[^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1];
    }
    const all = (await call({ path: '/pets?limit=100' })).json.map((pet: { id: number }) => pet.id);
    expect(ids).toEqual(all);
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
  });
});

describe('4.2 add an animal', () => {
  test('responds 201 with the created animal and its id', async () => {
    const { status, json } = await call(post('{"name":"Rex","categoryId":3,"status":"pending"}'));
    expect(status).toBe(201);
    expect(json).toEqual({ id: expect.any(Number), name: 'Rex', categoryId: 3, status: 'pending' });
    expect((await call({ path: `/pets/${json.id}` })).json).toEqual(json);
  });

  test('an animal without a status is available', async () => {
    expect((await call(post('{"name":"Rex","categoryId":3}'))).json.status).toBe('available');
  });

  test.each(['9223372036854775807', '-9223372036854775808', '9007199254740993', '0'])(
    'keeps every digit of categoryId %s',
    async (categoryId) => {
      const { status, text } = await call(post(`{"name":"Rex","categoryId":${categoryId}}`));
      expect(status).toBe(201);
      expect(text).toContain(`"categoryId":${categoryId},`);
    },
  );

  test.each(['1000', '1e3', '1000.0', '10.00e2'])('accepts %s as an integer', async (categoryId) => {
    const { json } = await call(post(`{"name":"Rex","categoryId":${categoryId}}`));
    expect(json.categoryId).toBe(1000);
  });

  test('ignores an id and unknown fields in the body', async () => {
    const { status, json } = await call(post('{"id":1,"name":"Rex","categoryId":3,"colour":"red"}'));
    expect(status).toBe(201);
    expect(json.id).toBeGreaterThan(1);
    expect(json).not.toHaveProperty('colour');
  });

  test.each([
    ['{"categoryId":3}', 'name'],
    ['{"name":"Rex"}', 'categoryId'],
    ['{"name":3,"categoryId":3}', 'name'],
    ['{"name":null,"categoryId":3}', 'name'],
    ['{"name":"Rex","categoryId":"3"}', 'categoryId'],
    ['{"name":"Rex","categoryId":"1e3"}', 'categoryId'],
    ['{"name":"Rex","categoryId":1.5}', 'categoryId'],
    ['{"name":"Rex","categoryId":1e30}', 'categoryId'],
    ['{"name":"Rex","categoryId":9223372036854775808}', 'categoryId'],
    ['{"name":"Rex","categoryId":-9223372036854775809}', 'categoryId'],
    ['{"name":"Rex","categoryId":null}', 'categoryId'],
    ['{"name":"Rex","categoryId":3,"status":"lost"}', 'status'],
    ['{"name":"Rex","categoryId":3,"status":null}', 'status'],
    ['[]', 'JSON object'],
    ['"Rex"', 'JSON object'],
    ['null', 'JSON object'],
    ['{"name":"Rex",', 'JSON'],
    ['', 'missing'],
  ])('responds 400 to %s and names %s', async (body, named) => {
    await expectError(post(body), 400, 'invalid_request', named);
  });

  test('a rejected body adds nothing', async () => {
    const before = await listAllPets(service);
    await call(post('{"name":"Rex"}'));
    expect(await listAllPets(service)).toEqual(before);
  });

  test('accepts only application/json', async () => {
    const request = { ...post('{"name":"Rex","categoryId":3}'), type: 'text/plain' };
    await expectError(request, 415, 'unsupported_media_type');
  });
});

describe('4.3 get an animal (deprecated)', () => {
  test('responds 200 with the animal', async () => {
    const { status, json } = await call({ path: '/pets/1' });
    expect(status).toBe(200);
    expect(json).toEqual({ id: 1, name: 'Rex', categoryId: 1, status: 'available' });
  });

  test.each(['999999', '0', '-1', 'abc', '1.0', '01', '9223372036854775808', '%31x', '1%2F2'])(
    'responds 404 for the id %s',
    async (id) => void (await expectError({ path: `/pets/${id}` }, 404, 'not_found')),
  );

  test('announces its removal on 5 December 2030, also with a 404', async () => {
    for (const path of ['/pets/1', '/pets/999999']) {
      const { headers } = await call({ path });
      expect(headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
      expect(headers.get('deprecation')).toBe('@1795132800');
      expect(headers.get('link')).toBe('</v1/pets>; rel="successor-version"');
    }
  });
});

describe('4.4 store orders', () => {
  test('responds 200 with JSON', async () => {
    const { status, json } = await call({ path: '/store/orders' });
    expect(status).toBe(200);
    expect(json.length).toBeGreaterThanOrEqual(10);
    expect(json[0]).toEqual(expect.objectContaining({ id: 1001 }));
  });
});

describe('5 authentication and 7 errors', () => {
  const operations: Call[] = [
    { path: '/pets' },
    post('{"name":"Rex","categoryId":3}'),
    { path: '/pets/1' },
    { path: '/store/orders' },
  ];
  const credentials: [string, string | null][] = [
    ['no Authorization header', null],
    ['a wrong key', `Bearer pets_${'A'.repeat(43)}`],
    ['an empty key', 'Bearer '],
    ['another scheme', 'Basic cGV0czpwZXRz'],
    ['a key without a scheme', 'key'],
    ['two keys', 'Bearer a b'],
  ];

  test.each(
    operations.flatMap((operation) => credentials.map(([name, value]) => [operation, name, value] as const)),
  )('$method $path responds 401 to %s', async (operation, _name, authorization) => {
    const headers = await expectError({ ...operation, authorization }, 401, 'unauthorized');
    expect(headers.get('www-authenticate')).toBe('Bearer');
  });

  test('the scheme is case-insensitive', async () => {
    expect((await call({ path: '/pets', authorization: `bearer ${service.key}` })).status).toBe(200);
  });

  const longBody = post(`{"name":"${'x'.repeat(70_000)}","categoryId":1}`);
  test.each<[string, Call, number, string]>([
    ['an unknown path', { path: '/nothing' }, 404, 'not_found'],
    ['a trailing slash', { path: '/pets/' }, 404, 'not_found'],
    ['an undefined method', { method: 'DELETE', path: '/pets/1' }, 405, 'method_not_allowed'],
    ['a repeated parameter', { path: '/pets?limit=1&limit=2' }, 400, 'invalid_request'],
    ['malformed percent-encoding', { path: '/pets?status=%zz' }, 400, 'invalid_request'],
    ['a forged cursor', { path: '/pets?cursor=AAAA' }, 400, 'invalid_request'],
    ['a body of 70,000 bytes', longBody, 413, 'payload_too_large'],
  ])('responds to %s with an Error body', async (_name, request, status, code) => {
    await expectError(request, status, code);
  });

  test('405 lists the allowed methods', async () => {
    expect((await call({ method: 'PUT', path: '/pets' })).headers.get('allow')).toBe(
      'GET, HEAD, POST, OPTIONS',
    );
  });
});

describe('8 limits', () => {
  test('every response carries the three headers, and Remaining counts down', async () => {
    const first = await call({ path: '/pets?limit=1' });
    const second = await call({ path: '/pets?limit=1' });
    expectRateLimitHeaders(first.headers);
    expect(first.headers.get('x-ratelimit-limit')).toBe('1000');
    const [a, b] = [first, second].map(({ headers }) => ({
      reset: headers.get('x-ratelimit-reset'),
      remaining: Number(headers.get('x-ratelimit-remaining')),
    }));
    // A new minute may have begun between the two requests.
    if (a?.reset === b?.reset) expect(b?.remaining).toBe((a?.remaining ?? 0) - 1);
  });

  test('a Free key has 60 requests a minute; the next is 429 with Retry-After and an Error body', async () => {
    const free = await serve(machine, ['--ephemeral', '--plan', 'free', '--no-profile']);
    const responses: Response[] = [];
    // At most two windows of requests: one window is exceeded even if a new minute begins.
    for (let i = 0; i < 121 && responses.at(-1)?.status !== 429; i++) {
      responses.push(await fetch(`${free.url}/pets`, { headers: { Authorization: `Bearer ${free.key}` } }));
    }
    const refused = responses.at(-1) as Response;
    expect(refused.status).toBe(429);
    expect(await refused.json()).toEqual({ code: 'rate_limited', message: expect.any(String), status: 429 });
    const wait = Number(refused.headers.get('retry-after'));
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(60);
    expect(refused.headers.get('x-ratelimit-limit')).toBe('60');
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('0');
    expectRateLimitHeaders(refused.headers);
    const inItsWindow = responses.filter(
      ({ headers, status }) =>
        status === 200 && headers.get('x-ratelimit-reset') === refused.headers.get('x-ratelimit-reset'),
    );
    expect(inItsWindow).toHaveLength(60);
  });
});
