import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import type { OperationName } from '../../src/contract/api.ts';
import { describeIssues, parseJson } from '../../src/contract/json.ts';
import { createFaults, drawFault, type FaultRule, FaultRules } from '../../src/server/faults.ts';

const errorOf = (value: unknown) => {
  const { error } = z.safeParse(FaultRules, value);
  return error && describeIssues(error, 'The body');
};

test('rules of every form are valid', () => {
  const match = { method: 'POST', path: '/v1/pets' };
  const rules = [
    { match, answer: 429, times: 2, retryAfter: 1, latency: 3 },
    { match: {}, answer: 503 },
    { latency: 0 },
  ];
  expect(z.parse(FaultRules, parseJson(JSON.stringify(rules)))).toEqual({ rules });
  expect(z.parse(FaultRules, [])).toEqual({ rules: [] });
});

test.each<[error: string | RegExp, value: unknown]>([
  ...[null, {}, { rules: [] }, 5].map((value): [string, unknown] => ['rules must be a JSON array', value]),
  ['rule 1 must be a JSON object', [null]],
  [
    'rule 1 has the unknown field "time"; the fields are match, answer, times, retryAfter, latency',
    [{ answer: 503, time: 1 }],
  ],
  ['rule 1: match has the unknown field "url"', [{ match: { url: '/v1/pets' }, answer: 503 }]],
  ['rule 1 has the unknown field "__proto__"', parseJson('[{"answer":503,"__proto__":{}}]')],
  ['rule 1: answer must be one of 200, 201, 400', [{ answer: '503' }]],
  ['rule 1 must have an answer or a latency', [{}]],
  ['rule 1: times must be an integer from 1 to', [{ answer: 503, times: 0 }]],
  ['rule 1: retryAfter must be a whole number of seconds from 1 to', [{ answer: 503, retryAfter: 0 }]],
  ['rule 1: retryAfter must be a whole number of seconds from 1 to', [{ answer: 503, retryAfter: 2 ** 53 }]],
  ['rule 1: retryAfter can be used only with the answer 429 or 503', [{ answer: 500, retryAfter: 1 }]],
  [/^rule 2: times must .*; rule 2: latency must be/, [{ answer: 503 }, { latency: -1, times: 'x' }]],
  ['rule 1: latency must be a whole number of milliseconds from 0 to 600000', [{ latency: 600_001 }]],
  ['rule 1: latency must be a whole number of milliseconds', parseJson('[{"latency":1.5}]')],
  ['rule 1: match.method must be one of GET, POST', [{ match: { method: 'HEAD' }, answer: 503 }]],
  ...[5, '/v1/pets/5', '/v1/%70ets', '/pets'].map((path): [string, unknown] => [
    'rule 1: match.path must be one of /v1/pets, /v1/pets/{petId}, /v1/store/orders',
    [{ match: { path }, answer: 503 }],
  ]),
  ['rule 1 matches no operation', [{ match: { method: 'POST', path: '/v1/store/orders' }, answer: 503 }]],
  ['rule 1 matches no operation; check its method and path', [{ match: { method: 'POST' }, answer: 200 }]],
])('an invalid rule has the error "%s": %j', (error, value) => {
  if (typeof error === 'string') expect(errorOf(value)).toContain(error);
  else expect(errorOf(value)).toMatch(error);
});

const all = ['listPets', 'createPet', 'getPet', 'listOrders'] as const;
test.each<[match: FaultRule['match'], answer: number | undefined, operations: readonly OperationName[]]>([
  [undefined, 503, all],
  [{}, undefined, all],
  [{ method: 'POST' }, 503, ['createPet']],
  [{ method: 'GET' }, 503, ['listPets', 'getPet', 'listOrders']],
  [{ path: '/v1/pets' }, 503, ['listPets', 'createPet']],
  [{ path: '/v1/pets/{petId}' }, 503, ['getPet']],
  [{ method: 'GET', path: '/v1/pets' }, 503, ['listPets']],
  [undefined, 201, ['createPet']],
  [{ path: '/v1/pets' }, 200, ['listPets']],
])('a rule for %j with the answer %j applies to %j', (match, answer, operations) => {
  const faults = createFaults({ seed: 1, rules: [{ match, answer, latency: 1 }] });
  expect(all.filter((each) => faults.applyRule(each) !== undefined)).toEqual(operations);
});

test('the first matching rule applies, until it has applied often enough', () => {
  const { rules } = z.parse(FaultRules, [
    { match: { method: 'POST' }, answer: 503, times: 2 },
    { match: { path: '/v1/pets' }, answer: 429, times: 1 },
    { match: { path: '/v1/store/orders' }, answer: 500 },
  ]);
  const faults = createFaults({ seed: 1, rules });
  const next = (operation: OperationName) => faults.applyRule(operation)?.mock?.status;
  const order: OperationName[] = ['createPet', 'listPets', 'listPets', 'createPet', 'createPet'];
  expect(order.map(next)).toEqual([503, 429, undefined, 503, undefined]);
  expect([1, 2, 3].map(() => next('listOrders'))).toEqual([500, 500, 500]);
});

describe('the fault of the nth request', () => {
  const options = { latency: { min: 100, max: 300 }, failRate: 0.25, seed: 7 };
  const first = (count: number, changes: Partial<typeof options> = {}) =>
    Array.from({ length: count }, (_, n) => drawFault({ ...options, ...changes }, n));

  test('depends on the seed', () => {
    expect(first(1_000)).not.toEqual(first(1_000, { seed: 8 }));
    // These values are fixed, because later versions must produce the same faults for a seed.
    expect(first(4).map(({ latency, mock }) => [latency, mock?.status])).toEqual([
      [260, 503],
      [184, undefined],
      [204, undefined],
      [242, undefined],
    ]);
  });

  test('is distributed evenly: latencies over their range, failures at their rate', () => {
    const faults = first(10_000);
    const latencies = faults.map(({ latency = 0 }) => latency);
    expect(Math.min(...latencies)).toBe(100);
    expect(Math.max(...latencies)).toBe(300);
    expect(latencies.reduce((sum, each) => sum + each, 0) / 10_000).toBeCloseTo(200, -1);
    expect(faults.filter(({ mock }) => mock).length / 10_000).toBeCloseTo(0.25, 1);
    expect(first(500, { failRate: 0 }).filter(({ mock }) => mock)).toEqual([]);
  });
});
