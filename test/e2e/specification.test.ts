import { afterAll, beforeAll, expect, test } from 'vitest';
import { conformance } from '../helpers/conformance.ts';
import { type Machine, makeMachine, type RunningService, serve } from '../helpers/pets.ts';

// These tests validate the responses of a running `pets serve` against the OpenAPI document that the service serves. The
// tests in test/server/ check the rules of docs/service.md.

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

type Call = { method?: string; body?: string; headers?: Record<string, string> };

/** Sends a request and validates the response; returns its status, headers and text. */
async function call(path: string, { method = 'GET', headers, ...init }: Call = {}) {
  const response = await fetch(service.url + path, {
    ...init,
    method,
    headers: { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json', ...headers },
  });
  const observed = { status: response.status, headers: response.headers, text: await response.text() };
  expect(described.violations(method, `/v1${path}`, observed)).toEqual([]);
  expect(response.headers.get('x-ratelimit-limit')).toBe('1000');
  return observed;
}

test.each<[method: string, path: string, body: string | undefined, status: number, responds: string]>([
  ['GET', '/pets?limit=1', undefined, 200, '[{"id":1,"name":"Rex","categoryId":1,"status":"available"}]'],
  ['GET', '/pets?limit=1&status=sold', undefined, 200, '"status":"sold"}]'],
  ['POST', '/pets', '{"name":"","categoryId":9223372036854775807}', 201, '"categoryId":9223372036854775807,'],
  ['GET', '/pets/1', undefined, 200, '{"id":1,"name":"Rex","categoryId":1,"status":"available"}'],
  ['GET', '/store/orders', undefined, 200, '[{"id":1001,'],
])('%s %s (body: %s) responds %i', async (method, path, body, status, responds) => {
  const response = await call(path, { method, ...(body !== undefined && { body }) });
  expect(response.status).toBe(status);
  expect(response.text).toContain(responds);
});

const post = (body: string): Call => ({ method: 'POST', body });

test.each<[path: string, Call, status: number, code: string, mentions: string]>([
  ['/pets?limit=101', {}, 400, 'invalid_request', 'limit must be an integer from 1 to 100'],
  ['/pets?status=Sold', {}, 400, 'invalid_request', 'status must be one of available, pending, sold'],
  ['/pets?limit=1&limit=2', {}, 400, 'invalid_request', 'limit'],
  ['/pets?status=%zz', {}, 400, 'invalid_request', ''],
  ['/pets?cursor=AAAA', {}, 400, 'invalid_request', 'cursor'],
  ['/pets', post('{"name":3}'), 400, 'invalid_request', 'name must be a string; categoryId is required'],
  [
    '/pets',
    post('{"name":null,"categoryId":1,"status":null}'),
    400,
    'invalid_request',
    'name must be a string; status',
  ],
  ['/pets', post('[]'), 400, 'invalid_request', 'must be a JSON object'],
  ['/pets', post('{"name":"Rex",'), 400, 'invalid_request', 'not valid JSON'],
  ['/pets', post(''), 400, 'invalid_request', 'The body is missing'],
  ['/pets', post(`{"name":"${'x'.repeat(70_000)}","categoryId":1}`), 413, 'payload_too_large', ''],
  ['/pets', { ...post('{}'), headers: { 'Content-Type': 'text/plain' } }, 415, 'unsupported_media_type', ''],
  ['/pets/999999', {}, 404, 'not_found', ''],
  ['/pets/1%2F2', {}, 404, 'not_found', ''],
  ['/pets/1', { method: 'DELETE' }, 405, 'method_not_allowed', ''],
])('%s (%j) responds %i with %s: %s', async (path, request, status, code, mentions) => {
  const response = await call(path, request);
  expect(response.status).toBe(status);
  expect(JSON.parse(response.text)).toEqual({ code, message: expect.stringContaining(mentions), status });
});
