import fc from 'fast-check';
import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { type ErrorStatus, type Operation, operations } from '../../src/contract/api.ts';
import { describeIssues, INT64_MAX, INT64_MIN, parseJson } from '../../src/contract/json.ts';
import { ErrorBody, NewPet, Pet, petJson, petStatuses } from '../../src/contract/schemas.ts';
import { readDocument, tableRows } from '../helpers/documents.ts';

const issues = (schema: z.ZodMiniType, value: unknown): string => {
  const result = z.safeParse(schema, value);
  if (result.success) throw new Error('the value is valid');
  return describeIssues(result.error);
};

test.each([
  [{}, 'name is required; categoryId is required'],
  [{ name: 1, categoryId: 1 }, 'name must be a string'],
  [{ name: '', categoryId: 1, status: 'x' }, 'status must be one of available, pending, sold'],
  [{ name: 'a\ud800', categoryId: 1 }, 'name must be valid Unicode, without lone surrogates'],
  [[], 'must be a JSON object'],
  [null, 'must be a JSON object'],
])('describeIssues lists the invalid fields of %j: %s', (value, message) =>
  expect(issues(NewPet, value)).toBe(message),
);

test('Pet keeps unknown fields, NewPet drops them', () => {
  const pet = { id: 1, name: 'Rex', categoryId: 3, status: 'sold', colour: 'red' };
  expect(z.parse(Pet, pet)).toEqual({ ...pet, id: 1n, categoryId: 3n });
  expect(z.parse(NewPet, pet)).toEqual({ name: 'Rex', categoryId: 3n, status: 'sold' });
});

test('ErrorBody requires its three fields', () => {
  const body = { code: 'a', message: 'b', status: 400, more: 1 };
  expect(z.safeParse(ErrorBody, body).success).toBe(true);
  for (const field of ['code', 'message', 'status'])
    expect(z.safeParse(ErrorBody, { ...body, [field]: undefined }).success).toBe(false);
});

test('Pet reads every animal that petJson writes', () => {
  const int64s = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
  const pets = fc.record({
    id: int64s,
    name: fc.string({ unit: 'binary' }),
    categoryId: int64s,
    status: fc.constantFrom(...petStatuses),
  });
  fc.assert(
    fc.property(pets, (pet) => {
      expect(z.parse(Pet, parseJson(petJson(pet)))).toEqual(pet);
    }),
  );
});

test('the operations are those of docs/service.md 4; only those with POST are not idempotent', () => {
  const rows = tableRows(readDocument('docs/service.md'), '4. Operations');
  const all = Object.values<Operation>(operations);
  const isCommon = (status: ErrorStatus) => all.every(({ errors }) => errors.includes(status));
  expect(
    rows.map(([name, request, success, errors]) => [name, request, success?.slice(0, 3), errors]),
  ).toEqual(
    Object.entries<Operation>(operations).map(([name, { method, path, success, errors }]) => [
      `\`${name}\``,
      `\`${method} ${path}\``,
      String(success.status),
      errors.filter((status) => !isCommon(status)).join(', '),
    ]),
  );
  for (const { method, idempotent } of all) expect(idempotent).toBe(method !== 'POST');
});
