import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../src/contract/error-codes.ts';
import { encodeIdempotencyKey } from '../../src/contract/headers.ts';
import { type OperationName, operations } from '../../src/contract/operations.ts';
import { ServiceError } from '../../src/server/errors.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { StoreFailedError, StoreUnavailableError } from '../../src/store/errors.ts';
import { hashKey } from '../../src/store/keys/keys.ts';
import { createMemoryLimiter } from '../../src/store/limits/limiter.ts';
import { manualClock } from '../helpers/clock.ts';
import { conformance, described, describedAs, document, type Observed, table } from '../helpers/openapi.ts';
import { sendRaw } from '../helpers/raw-client.ts';
import { KEY, type ServiceOptions, start } from '../helpers/service.ts';
import { callsOf, memoryStore } from '../helpers/store-fixtures.ts';

const { violations } = conformance(document);

type Exchange = { method: string; path: string; response: Observed };

/** How a request differs from the example in the document. */
type Send = {
  method?: string;
  /** Appended to the path. */
  suffix?: string;
  body?: string;
  headers?: Record<string, string>;
  /** Header lines to send as bytes, because `fetch` does not support such a request or its response. */
  raw?: string;
  /** A request to send first to the same service. */
  before?: Send;
  service?: () => ServiceOptions | Promise<ServiceOptions>;
};

/** Starts a service and sends a request. The service has the sample data, unless `send.service` supplies a store. */
async function play(name: OperationName, send: Send): Promise<Exchange> {
  const options = (await send.service?.()) ?? {};
  const service = await start(options);
  if (!options.store) await service.store.seed(sampleData());
  async function ask({ method = operations[name].method, suffix = '', headers = {}, ...rest }: Send) {
    const path = `/v1${operations[name].path.replace(/\{\w+\}/, '1')}${suffix}`;
    if (rest.raw !== undefined) {
      const bytes = `${method} ${path} HTTP/1.1\r\nConnection: close\r\n${rest.raw}`;
      return { method, path, response: await observeRaw(service.listening.port, bytes) };
    }
    const example = describedAs(name).requestBody?.content['application/json']?.example;
    const body = rest.body ?? (method === operations[name].method ? JSON.stringify(example) : undefined);
    const received = await service.call(path, { method, headers, ...(body !== undefined && { body }) });
    const response = { status: received.status, headers: received.headers, text: await received.text() };
    return { method, path, response };
  }
  if (send.before) await ask(send.before);
  return ask(send);
}

async function observeRaw(port: number, bytes: string): Promise<Observed> {
  const [response] = await sendRaw(port, bytes);
  if (!response) throw new Error('no response');
  return { status: response.status, headers: new Headers(response.headers), text: response.body };
}

/** A store whose calls all fail. */
const failingWith = (error: () => Error) => async () => {
  const fail = async () => {
    throw error();
  };
  const store = await memoryStore();
  return {
    store: Object.assign(store, Object.fromEntries(Object.keys(callsOf(store)).map((name) => [name, fail]))),
  };
};
const failing = failingWith(() => new Error('the disk is gone'));
const refusing = (code: ErrorCode) => failingWith(() => new ServiceError(code, 'no'));
const unavailableAfter = (outcome: 'not_done' | 'unknown') => () =>
  new StoreUnavailableError('no', 'no', { outcome });
const unreachable = failingWith(unavailableAfter('not_done'));
const unavailable = failingWith(unavailableAfter('unknown'));
/** A limiter whose response is lost, which shows nothing about the request. */
const noLimits = () => ({
  limiter: {
    ...createMemoryLimiter(manualClock()),
    take: async () => {
      throw unavailableAfter('unknown')();
    },
  },
});
const failed = failingWith(() => new StoreFailedError('no', 'no'));
const inFlight = async () => ({
  store: Object.assign(await memoryStore(), { add: async () => ({ kind: 'in_flight' }) as const }),
});
const empty = async () => ({ store: await memoryStore() });
const atSunset = () => ({ time: operations.getPet.deprecated.sunset.toISOString() });
const quotaOf = (perMinute: number) => () => ({ quota: { perMinute, perDay: 9 } });
const banned = () => {
  const clock = manualClock();
  const rule = { after: 1, milliseconds: 300_000 };
  const stored = new Map([[hashKey(KEY), clock.now() + rule.milliseconds]]);
  return { limiter: createMemoryLimiter(clock, { rule, stored }) };
};
const allRequestsFail = () => ({ faults: { failRate: 1, seed: 1 } });
const onlyLoopback = () => ({ hosts: new Set<string>() });
// These timeouts are shorter than the real ones, for a fast test.
const shortLimits = () => ({
  limits: { headersTimeout: 100, requestTimeout: 100, connectionsCheckingInterval: 20 },
});
const authorized = `Host: 127.0.0.1\r\nAuthorization: Bearer ${KEY}\r\n`;
const key = { 'Idempotency-Key': encodeIdempotencyKey('a "key"') };

type Expected = 'success' | ErrorCode;

/** The responses that every operation can have. */
const ofEveryOperation: [expected: Expected, about: string, Send][] = [
  ['success', 'the example of the document', {}],
  ['invalid_request', 'a parameter twice', { suffix: '?a=1&a=2' }],
  ['unauthorized', 'no key', { headers: { Authorization: '' } }],
  ['unauthorized', 'a wrong key', { headers: { Authorization: 'Bearer wrong' } }],
  ['method_not_allowed', 'another method', { method: 'DELETE' }],
  ['rate_limited', 'no request left', { before: {}, service: quotaOf(1) }],
  ['request_timeout', 'incomplete headers', { raw: authorized, service: shortLimits }],
  ['expectation_failed', 'an expectation', { raw: `${authorized}Expect: the-worst\r\n\r\n` }],
  [
    'misdirected_request',
    'a host that is not allowed',
    { raw: 'Host: shop.test\r\n\r\n', service: onlyLoopback },
  ],
  ['key_banned', 'a banned key', { service: banned }],
  ['headers_too_large', 'headers of 9 KiB', { raw: `${authorized}X: ${'x'.repeat(9_216)}\r\n\r\n` }],
  ['injected_fault', 'an injected fault', { service: allRequestsFail }],
  ['internal_error', 'a store that fails', { service: failing }],
  ['storage_unreachable', 'a store that is not available', { service: unreachable }],
  ['storage_unreachable', 'limits that are not available', { service: noLimits }],
  ['unavailable', 'the code', { service: refusing('unavailable') }],
  ['storage_failed', 'a store that another program has changed', { service: failed }],
  ['storage_full', 'the code', { service: refusing('storage_full') }],
  ['starting', 'the code', { service: refusing('starting') }],
  ['too_many_connections', 'the code', { service: refusing('too_many_connections') }],
];

/** More responses of single operations. */
const ofOneOperation: [OperationName, expected: Expected, about: string, Send][] = [
  ['listPets', 'success', 'a page with a next one', { suffix: '?limit=2' }],
  ['listPets', 'success', 'the last page', { suffix: '?limit=100' }],
  ['listPets', 'success', 'one status', { suffix: '?status=sold&limit=3' }],
  ['listPets', 'success', 'an empty store', { service: empty }],
  ['listPets', 'success', 'HEAD', { method: 'HEAD' }],
  ['listPets', 'storage_unreachable', 'a lost response of the store', { service: unavailable }],
  ['listPets', 'invalid_request', 'a made-up cursor', { suffix: '?cursor=x' }],
  [
    'createPet',
    'success',
    'the largest category',
    { body: '{"name":"Rex","categoryId":9223372036854775807}' },
  ],
  ['createPet', 'success', 'a field of its own', { body: '{"name":"","categoryId":1,"colour":["red"]}' }],
  ['createPet', 'unavailable', 'a lost response of the store', { service: unavailable }],
  ['createPet', 'success', 'repeated', { headers: key, before: { headers: key } }],
  ['createPet', 'invalid_request', 'no name', { body: '{"categoryId":1}' }],
  ['createPet', 'invalid_request', 'a wrong type', { body: '{"name":"Rex","categoryId":"1"}' }],
  ['createPet', 'invalid_request', 'invalid JSON', { body: '{' }],
  ['createPet', 'invalid_request', 'an empty idempotency key', { headers: { 'Idempotency-Key': '""' } }],
  ['createPet', 'idempotency_in_flight', 'while the first is running', { headers: key, service: inFlight }],
  ['createPet', 'payload_too_large', 'more than 64 KiB', { body: 'x'.repeat(65_537) }],
  ['createPet', 'unsupported_media_type', 'text', { headers: { 'Content-Type': 'text/plain' } }],
  [
    'createPet',
    'idempotency_mismatch',
    'the key of another body',
    { headers: key, body: '{"name":"Mia","categoryId":1}', before: { headers: key } },
  ],
  ['getPet', 'success', 'HEAD', { method: 'HEAD' }],
  ['getPet', 'not_found', 'an unknown id', { suffix: '000' }],
  ['getPet', 'not_found', 'an invalid id', { suffix: 'x' }],
  ['getPet', 'operation_removed', 'at its sunset', { service: atSunset }],
  ['listOrders', 'success', 'an empty store', { service: empty }],
];

const cases = [
  ...table.flatMap(([name]) =>
    ofEveryOperation.map(([expected, about, send]) => ({ name, expected, about, send })),
  ),
  ...ofOneOperation.map(([name, expected, about, send]) => ({ name, expected, about, send })),
];

describe('responses conform to the document', () => {
  test.each(cases)('$name $expected: $about', async ({ name, expected, send }) => {
    const { method, path, response } = await play(name, send);
    expect(violations(method, path, response)).toEqual([]);
    if (expected === 'success') expect(response.status).toBe(operations[name].success.status);
    else expect(JSON.parse(response.text)).toMatchObject({ code: expected, status: response.status });
  });

  test('the tests cover every documented response: the success and each error code of every operation', () => {
    const played = cases.map(({ name, expected }) => `${name} ${expected}`);
    const documented = described.flatMap(({ operationId, responses }) =>
      Object.values(responses)
        .flatMap(({ content }) => Object.values(content))
        .flatMap((media) => ('examples' in media ? Object.keys(media.examples) : ['success']))
        .map((expected) => `${operationId} ${expected}`),
    );
    expect([...new Set(played)].sort()).toEqual(documented.sort());
  });

  test.each(described)('$operationId: mocked responses too', async (each) => {
    for (const status of Object.keys(each.responses)) {
      const { method, path, response } = await play(each.operationId, {
        headers: { Prefer: `code=${status}` },
      });
      expect(response.status).toBe(Number(status));
      expect(violations(method, path, response)).toEqual([]);
    }
  });
});

test.each<[about: string, changes: Partial<Observed>, violation: RegExp]>([
  ['a status', { status: 402 }, /status 402 is not documented/],
  ['no headers', { headers: new Headers() }, /X-RateLimit-Limit is missing/],
  ['invalid JSON', { text: '[' }, /the body is not JSON/],
  ['an animal for a list', { text: '{"id":1,"name":"Rex","categoryId":1}' }, /must be array/],
])('a response that the document does not allow is found: %s', async (_about, changes, violation) => {
  const { method, path, response } = await play('listPets', { suffix: '?limit=2' });
  const { status, headers, text } = response;
  expect(violations(method, path, { status, headers, text, ...changes }).join('\n')).toMatch(violation);
});
