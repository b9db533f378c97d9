import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { describeFirstIssue } from '../../src/contract/issues.ts';
import { parseJson } from '../../src/contract/json.ts';
import { FaultSettings, MAX_RULES } from '../../src/server/fault-settings.ts';
import { createFaults, drawFault, type FaultRequest } from '../../src/server/faults.ts';
import { decodeSegments, pathOf } from '../../src/server/request/input.ts';
import { matchSegments, operationEntries, segmentsOf } from '../../src/server/routes.ts';
import { cases } from '../helpers/cases.ts';

const errorOf = (value: unknown) => {
  const { error } = z.safeParse(FaultSettings, value);
  return error && describeFirstIssue(error, 'The body');
};
/** Parses a request such as `GET /v1/pets` into the parts that are compared with rules. */
function request(line: string): FaultRequest {
  const [method = '', target = ''] = line.split(' ');
  const segments = decodeSegments(pathOf(target));
  for (const { name, path, ...operation } of operationEntries) {
    const params = matchSegments(segmentsOf(path), segments);
    if (params && operation.method === method.replace('HEAD', 'GET'))
      return { method, operation: name, params };
  }
  throw new Error(`no operation: ${line}`);
}

describe('valid settings', () => {
  const match = { method: 'POST', path: '/v1/pets' };
  const rule = { match, answer: 429, times: 2, retryAfter: 1, applied: 1 };
  test.each([
    ['nothing', {}, {}],
    ['the rules alone', [{ answer: 503 }], { rules: [{ answer: 503 }] }],
    ['a range of latencies', { latency: { min: 1, max: 2 } }, { latency: { min: 1, max: 2 } }],
    ['a rule that only delays', [{ latency: 0 }], { rules: [{ latency: { min: 0, max: 0 } }] }],
    [
      'everything',
      { latency: 1, failRate: 1, seed: 0, rules: [{ ...rule, latency: 3 }] },
      {
        latency: { min: 1, max: 1 },
        failRate: 1,
        seed: 0,
        rules: [{ ...rule, latency: { min: 3, max: 3 } }],
      },
    ],
  ])('%s', (_name, value, expected) => {
    expect(z.parse(FaultSettings, value)).toEqual(expected);
  });

  test.each(['0.25', '2.5e-1', '0', '1', '1.0'])('a fail rate of %s as parsed from JSON', (text) => {
    const value = parseJson(`{"failRate":${text}}`);
    expect(z.parse(FaultSettings, value)).toEqual({ failRate: Number(text) });
  });

  test('the current settings can be set again', () => {
    const faults = createFaults({ seed: 7 });
    faults.replace(z.parse(FaultSettings, { failRate: 0.5, rules: [{ answer: 503, times: 2 }] }));
    faults.applyRule(request('GET /v1/pets'));
    const current = faults.current();
    const rule = { answer: 503, times: 2, applied: 1 };
    expect(current).toEqual({ failRate: 0.5, seed: 7, rules: [{ ...rule, number: 1 }] });
    faults.replace(z.parse(FaultSettings, current));
    expect(faults.current()).toEqual({ failRate: 0.5, seed: 7, rules: [{ ...rule, number: 2 }] });
  });
});

const invalid: [value: unknown, error: string][] = [
  [null, 'The body must be an array of rules, or an object with latency, failRate, seed or rules'],
  [[null], 'rule 1 must be a JSON object'],
  [{ rules: {} }, 'rules must be a JSON array'],
  [
    { latencyy: 1 },
    'The body has the unknown field "latencyy"; the fields are latency, failRate, seed, rules',
  ],
  [[{ answer: 503, time: 1 }], 'rule 1 has the unknown field "time"'],
  [[{ match: { url: '/v1/pets' }, answer: 503 }], 'rule 1: match has the unknown field "url"'],
  [[{ answer: 503, ['x'.repeat(9_999)]: 1 }], `rule 1 has the unknown field "${'x'.repeat(50)}"; the fields`],
  [parseJson('{"failRate":0.5,"__proto__":{}}'), 'The body has the unknown field "__proto__"'],
  [[{ answer: '503' }], 'rule 1: answer must be one of 200, 201, 400'],
  [[{}], 'rule 1 must have an answer or a latency'],
  [[{ answer: 503, times: 0 }], 'rule 1: times must be an integer from 1 to'],
  [[{ answer: 503, retryAfter: 0 }], 'rule 1: retryAfter must be a whole number of seconds from 1 to'],
  [[{ answer: 503, retryAfter: 2 ** 53 }], 'rule 1: retryAfter must be a whole number of seconds from 1 to'],
  [[{ answer: 500, retryAfter: 1 }], 'rule 1: retryAfter can be used only with the answer 429 or 503'],
  [[{ answer: 503 }, { latency: -1 }], 'rule 2: latency.min must be a whole number of milliseconds'],
  [{ latency: '5' }, 'latency must be a number of milliseconds, or a range such as {"min":100,"max":300}'],
  [{ latency: 600_001 }, 'latency.min must be a whole number of milliseconds from 0 to 600000'],
  [{ latency: { min: 2, max: 1 } }, 'latency must not have a min above its max'],
  [{ latency: { min: 1, max: 2, mean: 1 } }, 'latency has the unknown field "mean"; the fields are min, max'],
  [{ failRate: 1.1 }, 'failRate must be a number from 0 to 1'],
  [parseJson('{"failRate":1e999}'), 'failRate must be a number from 0 to 1'],
  [{ seed: -1 }, 'seed must be an integer from 0 to'],
  [[{ match: { method: 'OPTIONS' }, answer: 503 }], 'rule 1: match.method must be one of GET, HEAD, POST'],
  [[{ match: { path: 5 }, answer: 503 }], 'rule 1: match.path must be a string'],
  [[{ match: { path: '/v1/%70ets' }, answer: 503 }], 'rule 1 matches no operation'],
  [[{ match: { method: 'POST', path: '/v1/store/orders' }, answer: 503 }], 'rule 1 matches no operation'],
  [
    [{ match: { method: 'POST' }, answer: 200 }],
    'rule 1 matches no operation; the paths are /v1/pets, /v1/pets/{petId}, /v1/store/orders; check also the method',
  ],
  [Array(MAX_RULES + 1).fill({}), `rules must have at most ${MAX_RULES} rules`],
];

test.each(invalid.map(([value, error]) => ({ value, error })))(
  'invalid settings: $error',
  ({ value, error }) => {
    expect(errorOf(value)).toContain(error);
  },
);

test('the error for hostile settings is short', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 8 }), (value) => {
      for (const each of [value, [value], { rules: [value] }, { latency: value }, { failRate: value }]) {
        expect(errorOf(each)?.length ?? 0).toBeLessThan(300);
      }
    }),
    { numRuns: cases(1_000) },
  );
});

test.each<[match: object | undefined, answer: number | undefined, request: string, applies: boolean]>([
  [undefined, 503, 'GET /v1/pets', true],
  [{ method: 'POST' }, 503, 'POST /v1/pets', true],
  [{ method: 'POST' }, 503, 'GET /v1/pets', false],
  [{ method: 'GET' }, 503, 'HEAD /v1/pets', false],
  [{ method: 'HEAD' }, 503, 'HEAD /v1/pets', true],
  [{ path: '/v1/pets' }, 503, 'GET /v1/pets?limit=5', true],
  [{ path: '/v1/pets' }, 503, 'GET /v1/pets/5', false],
  [{ path: '/v1/pets/5' }, 503, 'GET /v1/pets/5', true],
  [{ path: '/v1/pets/5' }, 503, 'GET /v1/pets/%35', true],
  [{ path: '/v1/pets/5' }, 503, 'GET /v1/pets/6', false],
  [{ path: '/v1/pets/{petId}' }, 503, 'GET /v1/pets/6', true],
  [{ path: '/v1/pets/{petId}' }, 503, 'GET /v1/pets', false],
  [undefined, 201, 'POST /v1/pets', true],
  [undefined, 201, 'GET /v1/pets', false],
  [{ path: '/v1/pets' }, 200, 'POST /v1/pets', false],
  [undefined, undefined, 'GET /v1/pets', true],
])('a rule for %j with answer %j applies to %s: %s', (match, answer, line, applies) => {
  const faults = createFaults({ seed: 1, rules: [{ match, answer, latency: { min: 1, max: 1 } }] });
  expect(faults.applyRule(request(line)) !== undefined).toBe(applies);
});

describe('the rules of the service', () => {
  const rulesOf = (...rules: unknown[]) => {
    const faults = createFaults({ ...z.parse(FaultSettings, rules), seed: 1 });
    return (method: string, path: string) => faults.applyRule(request(`${method} ${path}`))?.mock?.status;
  };

  test('the first matching rule applies, until it has applied often enough', () => {
    const next = rulesOf(
      { match: { method: 'POST' }, answer: 503, times: 2 },
      { match: { path: '/v1/pets' }, answer: 429, times: 1 },
      { match: { path: '/v1/store/orders' }, answer: 500 },
    );
    expect(next('POST', '/v1/pets')).toBe(503);
    expect(next('GET', '/v1/pets')).toBe(429);
    expect(next('GET', '/v1/pets')).toBe(undefined);
    expect(next('POST', '/v1/pets')).toBe(503);
    expect(next('POST', '/v1/pets')).toBe(undefined);
    expect([1, 2, 3].map(() => next('GET', '/v1/store/orders'))).toEqual([500, 500, 500]);
  });

  test('`applied` continues an earlier count', () => {
    const next = rulesOf({ answer: 503, times: 3, applied: 2 });
    expect([next('GET', '/v1/pets'), next('GET', '/v1/pets')]).toEqual([503, undefined]);
  });

  test('the latencies of a rule depend on the seed and on how often it has applied', () => {
    const run = (seed: number) => {
      const faults = createFaults({ seed, rules: [{ latency: { min: 0, max: 1_000 } }] });
      return Array.from({ length: 20 }, () => faults.applyRule(request('GET /v1/pets'))?.latency);
    };
    expect(run(1)).toEqual(run(1));
    expect(run(1)).not.toEqual(run(2));
    expect(new Set(run(1)).size).toBeGreaterThan(10);
  });
});

test('random faults depend only on the seed and the number of requests, whatever rules and settings are set', () => {
  const initial = { latency: { min: 0, max: 100 }, failRate: 0.3, seed: 7 };
  const settings = fc.constantFrom(
    [{ answer: 503 }],
    [{ match: { method: 'POST' }, latency: 5 }],
    { failRate: 0.9 },
    {},
  );
  const step = fc.oneof(
    fc.record({ request: fc.constantFrom('GET', 'POST') }),
    fc.record({ rule: fc.constantFrom('GET', 'POST') }),
    fc.record({ show: fc.constant(true) }),
    fc.record({ replace: settings }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const faults = createFaults(initial);
      let requests = 0;
      for (const each of steps) {
        if ('show' in each) faults.current();
        else if ('rule' in each) faults.applyRule(request(`${each.rule} /v1/pets`));
        else if ('replace' in each) {
          faults.replace(z.parse(FaultSettings, each.replace));
          // Back to the initial settings, but without their seed, which would start the sequence again.
          const { seed: _seed, ...rest } = initial;
          faults.replace(rest);
        } else expect(faults.nextRandom()).toEqual(drawFault(initial, requests++));
      }
    }),
    { numRuns: cases(500) },
  );
});

test('new settings with a seed start the random faults again', () => {
  const settings = { failRate: 0.5, seed: 3 };
  const faults = createFaults({ seed: 1 });
  const next = () => Array.from({ length: 50 }, () => faults.nextRandom().mock);
  next();
  faults.replace(settings);
  const first = next();
  expect(next()).not.toEqual(first);
  faults.replace(settings);
  expect(next()).toEqual(first);
});
