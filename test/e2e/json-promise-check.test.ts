import { describe, expect, test } from 'vitest';
import { checkSamples } from '../helpers/promise-types.ts';

describe('the check of the types', () => {
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

  test('is content with what it has seen all of', () => {
    expect(check(good)).toEqual({ errors: [], unseen: [] });
  });

  test.each([
    ['a field too many', '{"kind":"a","id":1,"extra":1}'],
    ['a field of the other member', '{"kind":"b","name":"","id":1}'],
    ['a field too few', '{"kind":"b"}'],
    ['another type', '{"kind":"b","name":null}'],
    ['a value that is not declared', '{"kind":"c","id":1}'],
  ])('finds %s', (_, bad) => {
    expect(check([...good, bad]).errors).not.toEqual([]);
  });

  test('finds a field, a value and an optional field that nothing shows', () => {
    expect(check(good.slice(0, 1)).unseen).toEqual([
      'A.note: no output has it',
      'B.kind: no output has it',
      '"b": no output has this value',
      'B.name: no output has it',
    ]);
    expect(check(good.slice(1)).unseen).toEqual(['A.note: every output has it']);
  });
});
