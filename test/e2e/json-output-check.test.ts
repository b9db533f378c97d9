import { describe, expect, test } from 'vitest';
import { checkSamples } from '../helpers/json-output-types.ts';

describe('checkSamples', () => {
  const types = `type Output = { one: A | B; more: A[] };
    type A = { kind: 'a'; id: number; note?: string };
    type B = { kind: 'b'; name: string };`;
  const good = [
    '{"kind":"a","id":1}',
    '{"kind":"a","id":9223372036854775807,"note":""}',
    '{"kind":"b","name":""}',
  ];
  const check = (changed: readonly string[], declared = types) =>
    checkSamples(declared, [
      ...changed.map((text) => ({ root: 'Output', field: 'one', json: text })),
      { root: 'Output', field: 'more', json: '[]' },
    ]);

  test('accepts samples that show every declaration', () => {
    expect(check(good)).toEqual({ errors: [], unseen: [] });
  });

  test.each([
    ['an extra field', '{"kind":"a","id":1,"extra":1}'],
    ['a field of another union member', '{"kind":"b","name":"","id":1}'],
    ['a missing field', '{"kind":"b"}'],
    ['a wrong type', '{"kind":"b","name":null}'],
    ['an undeclared value', '{"kind":"c","id":1}'],
  ])('reports %s', (_, bad) => {
    expect(check([...good, bad]).errors).not.toEqual([]);
  });

  test('reports a field, a value and an optional field without a sample', () => {
    expect(check(good.slice(0, 1)).unseen).toEqual([
      'A.note: no sample has it',
      'B.kind: no sample has it',
      '"b": no sample has this value',
      'B.name: no sample has it',
    ]);
    expect(check(good.slice(1)).unseen).toEqual(['A.note: every sample has it']);
  });
});
