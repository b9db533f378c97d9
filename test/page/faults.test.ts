import { describe, expect, test } from 'vitest';
import { API_PREFIX, operations as contract } from '../../src/contract/operations.ts';
import {
  areFaultsActive,
  effectOf,
  matchOf,
  nameMatch,
  newRule,
  nextFaults,
  operations,
  statuses,
} from '../../src/page/faults.ts';
import { FaultRule, FaultSettings } from '../../src/server/fault-settings.ts';
import { createFaults } from '../../src/server/faults.ts';

/** The faults of a service with these settings, as it shows them. */
const shown = (settings: object) => createFaults({ ...FaultSettings.parse(settings), seed: 1 }).current();

test.each([
  [{}, false],
  [{ seed: 7, failRate: 0, rules: [] }, false],
  [{ failRate: 0.1 }, true],
  [{ latency: 1 }, true],
  [{ rules: [{ answer: 503, applied: 9 }] }, true],
  [{ rules: [{ answer: 503, times: 2, applied: 1 }] }, true],
  [{ rules: [{ answer: 503, times: 2, applied: 2 }] }, false],
])('the faults %j can affect a request: %s', (settings, expected) => {
  expect(areFaultsActive(shown(settings))).toBe(expected);
});

describe('a rule that the page adds', () => {
  test('can match each operation, as the contract describes it', () => {
    const expected = Object.entries(contract).map(([name, { method, path }]) => [
      ...[name, { method, path: API_PREFIX + path }],
    ]);
    expect(Object.entries(operations)).toEqual(expected);
  });

  test.each(statuses)('can have the status %i, for every operation', (status) => {
    for (const match of [undefined, ...Object.values(operations)])
      expect(FaultRule.parse(newRule(match, status))).toMatchObject({ answer: status });
  });

  test.each([
    [newRule(undefined, 500), { answer: 500 }, 'gets 500'],
    [
      newRule({ method: 'GET' }, 429, 0, 3),
      { match: { method: 'GET' }, times: 3 },
      'gets 429, Retry-After 2 s',
    ],
    [newRule(undefined, undefined, 0.25), { latency: { min: 250, max: 250 } }, 'takes 0.25 s longer'],
    [
      newRule(undefined, 404, 2),
      { answer: 404, latency: { min: 2_000, max: 2_000 } },
      'takes 2 s longer and gets 404',
    ],
  ])('%j is valid, and says what it does', (rule, parsed, effect) => {
    expect(FaultRule.parse(rule)).toMatchObject(parsed);
    expect(effectOf({ ...FaultRule.parse(rule), number: 1, applied: 0 })).toBe(effect);
  });

  test.each([
    [newRule(undefined, 503, Number('x')), 'latency'],
    [newRule(undefined, 503, -1), 'latency'],
    [newRule(undefined, 503, 601), 'latency'],
    [newRule(undefined, 503, 0, Number('x')), 'times'],
    [newRule(undefined, 503, 0, 0), 'times'],
  ])('is refused by the service if it is not valid: %j', (rule, field) => {
    const { error } = FaultRule.safeParse(JSON.parse(JSON.stringify(rule)));
    expect(new Set(error?.issues.map(({ path }) => path[0]))).toEqual(new Set([field]));
  });
});

describe('the fault for the next request', () => {
  test.each([
    ['GET', 'listPets', 'GET /v1/pets'],
    ['HEAD', 'getPet', 'HEAD /v1/pets/{petId}'],
    ['POST', 'createPet', 'POST /v1/pets'],
  ])('like %s of %s affects one request, of the same operation', (method, operation, name) => {
    const match = matchOf({ method, operation });
    expect(nameMatch(match)).toBe(name);
    for (const rule of Object.values(nextFaults(match ?? {})))
      expect(FaultRule.parse(rule)).toMatchObject({ match, times: 1 });
  });

  test.each([
    ['OPTIONS', 'options'],
    ['GET', undefined],
    ['GET', '/openapi.json'],
    ['GET', 'constructor'],
  ])('like %s of %s does not exist', (method, operation) => {
    expect(matchOf({ method, ...(operation && { operation }) })).toBeUndefined();
  });
});
