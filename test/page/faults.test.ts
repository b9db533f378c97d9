import { describe, expect, test } from 'vitest';
import { API_PREFIX, operations } from '../../src/contract/operations.ts';
import {
  addRule,
  areFaultsActive,
  formOf,
  matchChoices,
  matchOf,
  nameMatch,
  nextRequestFaults,
  readForm,
  ruleExamples,
} from '../../src/page/faults.ts';
import { FaultSettings } from '../../src/server/faults.ts';

const empty = { min: '', max: '', failRate: '', rules: '' };

describe('the form for faults', () => {
  test.each([
    [empty, '{}'],
    [{ ...empty, rules: ' [] ' }, '{}'],
    [{ ...empty, min: '0,005' }, '{"latency":{"min":5,"max":5}}'],
    [{ ...empty, max: '2' }, '{"latency":{"min":2000,"max":2000}}'],
    [
      { min: '0.005', max: '.02', failRate: '20', rules: '[{"answer":503}]' },
      '{"latency":{"min":5,"max":20},"failRate":0.2,"rules":[{"answer":503}]}',
    ],
  ])('%j is sent as %s', (form, body) => {
    expect(readForm(form)).toBe(body);
  });

  test('shows the faults in force, except rules that are used up, and sends the same without the counts', () => {
    const rule = { match: { method: 'GET', path: '/v1/pets' }, answer: 503, times: 2 } as const;
    const kept = { latency: { min: 1, max: 2 }, failRate: 0.07 };
    const form = formOf({
      ...kept,
      seed: 1,
      rules: [
        { ...rule, applied: 2 },
        { ...rule, applied: 1 },
      ],
    });
    expect(form.rules).toBe(`[\n  ${JSON.stringify(rule)}\n]`);
    expect(JSON.parse(readForm(form))).toEqual({ ...kept, rules: [rule] });
    expect(formOf({ rules: [{ ...rule, applied: 2 }] })).toEqual(empty);
    expect(formOf({})).toEqual(empty);
  });

  test.each(ruleExamples.map((example) => [example.title, example.rule] as const))(
    'has the valid example "%s", which is added to the rules',
    (_title, rule) => {
      expect(FaultSettings.parse(JSON.parse(addRule('', rule)))).toMatchObject({ rules: [{}] });
      const rules = JSON.parse(addRule('[{"answer":500}, {"answer":503}]', rule));
      expect(rules).toEqual([rule, { answer: 500 }, { answer: 503 }]);
    },
  );

  test.each([
    ['[', 'not valid JSON: Unexpected end'],
    ['{}', 'not a JSON array'],
    ['7', 'not a JSON array'],
    ['null', 'not a JSON array'],
  ])('does not accept %j as rules', (rules, message) => {
    expect(() => addRule(rules, ruleExamples[0]?.rule ?? {})).toThrow(message);
    expect(() => readForm({ ...empty, rules })).toThrow(message);
  });

  test.each([
    [{ min: 'x' }, 'The latency in seconds must be a number from 0 to 600'],
    [{ max: '601' }, 'The latency in seconds must be a number from 0 to 600'],
    [{ failRate: '-1' }, 'The share of requests that fail must be a number from 0 to 100'],
  ])('does not accept %j', (fields, message) => {
    expect(() => readForm({ ...empty, ...fields })).toThrow(message);
  });
});

test.each([
  [{}, false],
  [{ seed: 7, failRate: 0, rules: [] }, false],
  [{ failRate: 0.1 }, true],
  [{ latency: { min: 1, max: 1 } }, true],
  [{ rules: [{ answer: 503, applied: 9 }] }, true],
  [{ rules: [{ answer: 503, times: 2, applied: 1 }] }, true],
  [{ rules: [{ answer: 503, times: 2, applied: 2 }] }, false],
] as const)('the faults %j can affect a request: %s', (settings, expected) => {
  expect(areFaultsActive(settings as FaultSettings)).toBe(expected);
});

describe('the rule for the next request', () => {
  test('exists for every operation, and for any request', () => {
    const paths = Object.values(operations).map(({ method, path }) => `${method} ${API_PREFIX}${path}`);
    expect(matchChoices.map(nameMatch)).toEqual(['any request', ...paths]);
    for (const match of matchChoices) {
      for (const failure of Object.values(nextRequestFaults))
        expect(FaultSettings.parse([{ match, ...failure }]).rules).toMatchObject([{ match, times: 1 }]);
    }
  });

  test.each([
    ['GET', '/v1/pets?limit=5', 'listPets', '/v1/pets'],
    ['HEAD', '/v1/pets/7', 'getPet', '/v1/pets/{petId}'],
    ['GET', '/v1/pets/abc?x=/7', 'getPet', '/v1/pets/{petId}'],
    ['POST', 'http://shop.example/v1/pets', 'createPet', '/v1/pets'],
    ['GET', '/v1/store/orders', 'listOrders', '/v1/store/orders'],
  ])('like %s %s is valid', (method, url, operation, path) => {
    const match = matchOf({ method, url, operation });
    expect(FaultSettings.parse([{ match, answer: 503 }]).rules).toMatchObject([{ match: { method, path } }]);
  });

  test.each([
    ['OPTIONS', '/v1/pets', 'listPets'],
    ['GET', '/v1/nothing', undefined],
    ['GET', '/healthz', '/healthz'],
  ])('like %s %s does not exist', (method, url, operation) => {
    expect(matchOf({ method, url, ...(operation && { operation }) })).toBeUndefined();
  });
});
