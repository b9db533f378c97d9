import { describe, expect, test } from 'vitest';
import type { ReplyHeaders } from '../../src/client/headers.ts';
import { restAfter, withJitter } from '../../src/client/retry.ts';
import { NOW, reset, retryAfter } from '../helpers/outcomes.ts';

describe('restAfter: how long nothing is sent with this key', () => {
  test.each<[string, number, ReplyHeaders, number, number | undefined]>([
    ['a refusal asks for its Retry-After', 429, retryAfter(7), 1, 7_000],
    ['or the end of its window', 429, reset(45), 1, 45_000],
    ['or its backoff', 429, {}, 3, 4_000],
    ['the longer of them', 429, retryAfter(1), 3, 4_000],
    ['a backoff has an end', 429, {}, 30, 60_000],
    ['two days are two days', 429, retryAfter(172_800), 1, 172_800_000],
    ...['0', '00', '-1'].map((remaining): [string, number, ReplyHeaders, number, number] => [
      `Remaining ${remaining} asks for the end of the window`,
      200,
      { 'x-ratelimit-remaining': remaining, ...reset(45) },
      1,
      45_000,
    ]),
    ['whatever the status', 404, { 'x-ratelimit-remaining': '0', ...reset(45) }, 1, 45_000],
    ['without a Reset there is nothing to wait for', 200, { 'x-ratelimit-remaining': '0' }, 1, undefined],
    ['one that is left asks for nothing', 200, { 'x-ratelimit-remaining': '1', ...reset(45) }, 1, undefined],
    ['the Retry-After of a failure is for its own request', 503, retryAfter(9), 1, undefined],
  ])('%s', (_name, status, headers, attempt, rest) => {
    expect(restAfter({ status, headers, body: '' }, attempt, NOW)).toBe(rest);
  });
});

test('jitter is never downward', () => {
  for (const wait of [0, 1, 1_000, 1e9]) {
    for (const random of [0, 0.3, 0.999]) expect(withJitter(wait, random)).toBeGreaterThanOrEqual(wait);
  }
  expect(withJitter(0, 1)).toBe(250);
});
