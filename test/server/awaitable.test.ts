import { expect, test } from 'vitest';
import { attempt, next } from '../../src/server/awaitable.ts';

const fail = () => {
  throw new Error('no');
};
const messageOf = (error: unknown) => `mended ${(error as Error).message}`;

test('what is there goes on at once, and what is promised later', async () => {
  const order: unknown[] = [];
  const promised = next(Promise.resolve('promised'), (value) => order.push(value));
  expect(next('there', (value) => order.push(value))).toBe(1);
  expect(order).toEqual(['there']);
  expect(await promised).toBe(2);
  expect(order).toEqual(['there', 'promised']);
});

test('a value whose next is promised is promised', async () => {
  const result = next(1, (one) => Promise.resolve(one + 1));
  expect(result).toBeInstanceOf(Promise);
  expect(await result).toBe(2);
});

test.each<[string, () => string | Promise<string>, string, boolean]>([
  ['what is there', () => 'there', 'there', false],
  ['what is promised', async () => 'promised', 'promised', true],
  ['what throws', fail, 'mended no', false],
  ['what rejects', () => Promise.reject(new Error('no')), 'mended no', true],
  ['what throws behind a promise', () => next(Promise.resolve(), fail), 'mended no', true],
])('%s comes to one value, and as soon as it can', async (_name, work, expected, isPromised) => {
  const result = attempt(work, messageOf);
  expect(result instanceof Promise).toBe(isPromised);
  expect(await result).toBe(expected);
});
