import { expect, test } from 'vitest';
import { API_PREFIX, operations as contract } from '../../src/contract/api.ts';
import {
  areFaultsActive,
  describeEffect,
  matchLabel,
  matchOf,
  newRule,
  nextFaults,
  operations,
  statuses,
} from '../../src/page/faults.ts';
import { createFaults, type FaultOptions, FaultRule } from '../../src/server/faults.ts';

test.each<[Partial<FaultOptions>, uses: number, boolean]>([
  [{ seed: 7, failRate: 0, rules: [] }, 0, false],
  [{ failRate: 0.1 }, 0, true],
  [{ latency: { min: 1, max: 1 } }, 0, true],
  [{ rules: [{ answer: 503 }] }, 9, true],
  [{ rules: [{ answer: 503, times: 2 }] }, 1, true],
  [{ rules: [{ answer: 503, times: 2 }] }, 2, false],
])('the faults %j, after %i uses, can affect a request: %s', (options, uses, expected) => {
  const faults = createFaults({ seed: 1, ...options });
  for (let i = 0; i < uses; i++) faults.applyRule('listPets');
  expect(areFaultsActive(faults.current())).toBe(expected);
});

test('a rule that the page adds can match each operation, as the contract describes it, with every status', () => {
  expect(operations).toEqual(
    Object.fromEntries(
      Object.entries(contract).map(([name, { method, path }]) => [name, { method, path: API_PREFIX + path }]),
    ),
  );
  for (const match of [undefined, ...Object.values(operations)])
    for (const status of statuses)
      expect(FaultRule.parse(newRule(match, status))).toMatchObject({ answer: status });
});

test.each([
  [newRule(undefined, 500), { answer: 500 }, 'gets 500'],
  [
    newRule({ method: 'GET' }, 429, 0, 3),
    { match: { method: 'GET' }, times: 3 },
    'gets 429, Retry-After 2 s',
  ],
  [newRule(undefined, undefined, 0.25), { latency: 250 }, 'takes 0.25 s longer'],
  [newRule(undefined, 404, 2), { answer: 404, latency: 2_000 }, 'takes 2 s longer and gets 404'],
])('the rule %j of the page is valid, and says what it does', (rule, parsed, effect) => {
  expect(FaultRule.parse(rule)).toMatchObject(parsed);
  expect(describeEffect({ ...FaultRule.parse(rule), number: 1, applied: 0 })).toBe(effect);
});

test.each([
  [newRule(undefined, 503, Number('x')), 'latency'],
  [newRule(undefined, 503, 601), 'latency'],
  [newRule(undefined, 503, 0, Number('x')), 'times'],
  [newRule(undefined, 503, 0, 0), 'times'],
])('the invalid rule %j of the page is refused by the service', (rule, field) => {
  const { error } = FaultRule.safeParse(JSON.parse(JSON.stringify(rule)));
  expect(new Set(error?.issues.map(({ path }) => path[0]))).toEqual(new Set([field]));
});

test.each([
  ['listPets', 'GET /v1/pets'],
  ['getPet', 'GET /v1/pets/{petId}'],
  ['createPet', 'POST /v1/pets'],
  ...['options', undefined, '/openapi.json', 'constructor'].map((operation) => [operation, undefined]),
])('the fault for the next request like %s affects one request of this operation: %s', (operation, name) => {
  const match = matchOf(operation === undefined ? {} : { operation });
  expect(match && matchLabel(match)).toBe(name);
  for (const rule of match ? Object.values(nextFaults(match)) : [])
    expect(FaultRule.parse(rule)).toMatchObject({ match, times: 1 });
});
