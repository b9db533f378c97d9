import { expect } from 'vitest';
import { conformance } from './openapi.ts';

/** A service with the sample animals of `pets serve --seed`. The key has the plan `business`. */
export type SeededService = {
  /** The base URL, with /v1. */
  url: string;
  key: string;
};

type Request = { method?: string; body?: string; headers?: Record<string, string> };

/** A request and the response that docs/service.md describes. */
type SpecificationCase = {
  name: string;
  path: string;
  request: Request;
  status: number;
  check(text: string): void;
};

type Success = [method: string, path: string, body: string | undefined, status: number, responds: string];

const successes: Success[] = [
  ['GET', '/pets?limit=1', undefined, 200, '[{"id":1,"name":"Rex","categoryId":1,"status":"available"}]'],
  ['GET', '/pets?limit=1&status=sold', undefined, 200, '"status":"sold"}]'],
  ['POST', '/pets', '{"name":"","categoryId":9223372036854775807}', 201, '"categoryId":9223372036854775807,'],
  ['GET', '/pets/1', undefined, 200, '{"id":1,"name":"Rex","categoryId":1,"status":"available"}'],
  ['GET', '/store/orders', undefined, 200, '[{"id":1001,'],
];

const post = (body: string): Request => ({ method: 'POST', body });

type Failure = [path: string, request: Request, status: number, code: string, mentions: string];

const failures: Failure[] = [
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
];

export const specificationCases: readonly SpecificationCase[] = [
  ...successes.map(([method, path, body, status, responds]) => ({
    name: `${method} ${path} (body: ${body}) responds ${status}`,
    path,
    request: { method, ...(body !== undefined && { body }) },
    status,
    check: (text: string) => expect(text).toContain(responds),
  })),
  ...failures.map(([path, request, status, code, mentions]) => ({
    name: `${path} (${JSON.stringify(request).slice(0, 100)}) responds ${status} with ${code}: ${mentions}`,
    path,
    request,
    status,
    check: (text: string) =>
      expect(JSON.parse(text)).toEqual({ code, message: expect.stringContaining(mentions), status }),
  })),
];

/** Returns a function that runs a case. It also validates the response against the service's own OpenAPI document. */
export async function createSpecificationCheck({ url, key }: SeededService) {
  const described = conformance(await (await fetch(new URL('/openapi.json', url))).json());
  return async ({ path, request, status, check }: SpecificationCase): Promise<void> => {
    const { method = 'GET', headers, ...init } = request;
    const response = await fetch(url + path, {
      ...init,
      method,
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...headers },
    });
    const observed = { status: response.status, headers: response.headers, text: await response.text() };
    expect(described.violations(method, `/v1${path}`, observed)).toEqual([]);
    expect(response.headers.get('x-ratelimit-limit')).toBe('1000');
    expect(response.status).toBe(status);
    check(observed.text);
  };
}
