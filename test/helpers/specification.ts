import { expect } from 'vitest';
import type { OperationName } from '../../src/contract/operations.ts';
import { conformance } from './openapi.ts';

type Case = [method: string, path: string, body: string | undefined, status: number, responds: string];

const REX = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';
const successes: Record<OperationName, Case[]> = {
  listPets: [
    ['GET', '/pets?limit=1', undefined, 200, `[${REX}]`],
    ['GET', '/pets?limit=1&status=sold', undefined, 200, '"status":"sold"}]'],
  ],
  createPet: [
    [
      'POST',
      '/pets',
      '{"name":"","categoryId":9223372036854775807}',
      201,
      '"categoryId":9223372036854775807,',
    ],
  ],
  getPet: [['GET', '/pets/1', undefined, 200, REX]],
  listOrders: [['GET', '/store/orders', undefined, 200, '[{"id":1001,']],
};

/** Requests to a service with sample animals, and responses that docs/service.md describes. */
export const specificationCases: readonly Case[] = [
  ...Object.values(successes).flat(),
  ['GET', '/pets?cursor=AAAA', undefined, 400, '"code":"invalid_request"'],
  ['POST', '/pets', '{"name":3}', 400, 'name must be a string; categoryId is required'],
  ['GET', '/pets/999999', undefined, 404, '"code":"not_found"'],
  ['DELETE', '/pets/1', undefined, 405, '"code":"method_not_allowed"'],
];

/**
 * Returns a function that runs a case, and validates the response against the OpenAPI document of the service. The
 * service must have the sample animals of `pets serve --seed`, and the key must have the plan `business`.
 *
 * @param service `url` is the base URL, with /v1
 */
export async function createSpecificationCheck({ url, key }: { url: string; key: string }) {
  const described = conformance(await (await fetch(new URL('/openapi.json', url))).json());
  return async ([method, path, body, status, responds]: Case): Promise<void> => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const response = await fetch(url + path, { method, headers, ...(body !== undefined && { body }) });
    const text = await response.text();
    const observed = { status: response.status, headers: response.headers, text };
    expect(described.violations(method, `/v1${path}`, observed)).toEqual([]);
    expect(response.headers.get('x-ratelimit-limit')).toBe('1000');
    expect(response.status).toBe(status);
    expect(text).toContain(responds);
  };
}
