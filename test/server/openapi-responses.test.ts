import { describe, expect, test } from 'vitest';
import { API_PREFIX, type ErrorCode } from '../../src/contract/api.ts';
import { ServiceError } from '../../src/server/errors.ts';
import { StoreFailedError, StoreUnavailableError } from '../../src/store/errors.ts';
import { createMemoryLimiter } from '../../src/store/limiter.ts';
import { manualClock } from '../helpers/clock.ts';
import { table, violations } from '../helpers/openapi.ts';
import { REX } from '../helpers/raw-client.ts';
import { create, type ServiceOptions, start } from '../helpers/service.ts';
import { callsOf, memoryStore } from '../helpers/store-fixtures.ts';

// `call` checks each response against the OpenAPI document. These tests get the responses that no other test gets.

/** A store whose calls all fail. */
async function failingStore(error: Error) {
  const fail = () => Promise.reject(error);
  const store = await memoryStore();
  return Object.assign(store, Object.fromEntries(Object.keys(callsOf(store)).map((name) => [name, fail])));
}

/** The code of each operation's error. */
async function codesOf(options: ServiceOptions): Promise<Record<string, string>> {
  const { call } = await start(options);
  const codes: Record<string, string> = {};
  for (const [name, { method, path }] of table) {
    const response = await call(
      API_PREFIX + path.replace(/\{\w+\}/, '1'),
      method === 'POST' ? create(REX, { 'Idempotency-Key': 'a' }) : {},
    );
    codes[name] = ((await response.json()) as { code: string }).code;
  }
  return codes;
}

const same = (code: ErrorCode) => Object.fromEntries(table.map(([name]) => [name, code]));
const unavailable = (outcome: 'not_done' | 'unknown') => new StoreUnavailableError('no', 'no', { outcome });

describe('the error of each operation', () => {
  test.each<[about: string, error: Error, code: ErrorCode, ofCreation?: ErrorCode]>([
    ['has failed', new Error('the disk is gone'), 'internal_error'],
    ['is not available', unavailable('not_done'), 'storage_unreachable'],
    ['has lost its response', unavailable('unknown'), 'storage_unreachable', 'unavailable'],
    ['was changed by another program', new StoreFailedError('no', 'no'), 'storage_failed'],
    ['is full', new ServiceError('storage_full', 'no'), 'storage_full'],
    ['is not open yet', new ServiceError('starting', 'no'), 'starting'],
  ])('if the store %s', async (_about, error, code, ofCreation = code) => {
    const codes = await codesOf({ store: await failingStore(error) });
    expect(codes).toEqual({ ...same(code), createPet: ofCreation });
  });

  test('if the response of the limiter is lost, which shows nothing about the request', async () => {
    const take = () => Promise.reject(unavailable('unknown'));
    const limiter = { ...createMemoryLimiter(manualClock()), take };
    expect(await codesOf({ limiter })).toEqual(same('storage_unreachable'));
  });

  test('if the first creation with the same Idempotency-Key is still running', async () => {
    const store = Object.assign(await memoryStore(), { add: async () => ({ kind: 'in_flight' }) as const });
    expect(await codesOf({ store })).toMatchObject({ createPet: 'idempotency_in_flight' });
  });
});

test('a response that the document does not allow is found', async () => {
  const { call } = await start();
  const { status, headers } = await call('/v1/pets');
  const found = (changes: object) =>
    violations('GET', '/v1/pets', { status, headers, text: '[]', ...changes }).join('\n');
  expect(found({})).toBe('');
  expect(found({ status: 402 })).toMatch(/status 402 is not documented/);
  expect(found({ headers: new Headers() })).toMatch(/X-RateLimit-Limit is missing/);
  expect(found({ text: '[' })).toMatch(/the body is not JSON/);
  expect(found({ text: '{"id":1,"name":"Rex","categoryId":1}' })).toMatch(/must be array/);
});
