import { expect, test } from 'vitest';
import { createSpending } from '../../../src/cli/animals/spending.ts';

const MINUTE = 60_000;
const window = (name: string, limit: number, remaining: number, reset: number) => ({
  name,
  limit,
  remaining,
  reset,
});

/** Sends requests until the next one would spend more than half of a window; returns their number, at most 1,000. */
function requestsBeforeQuestion(
  remainingAtStart: number,
  resetAt: (now: number) => number | undefined = () => MINUTE,
): number {
  const spending = createSpending();
  for (let sent = 1; sent <= 1_000; sent++) {
    const now = sent * 10;
    const limit = { ...window('day', 1_000, remainingAtStart - sent, 0), reset: resetAt(now) };
    spending.record([limit], sent, now);
    if (spending.exceeded().length > 0) return sent;
  }
  return 1_000;
}

test.each([
  [1_000, 500],
  [999, 499],
  [60, 30],
  [3, 1],
  [2, 1],
  [1, 1],
])('if %i requests are left, %i are spent before the question', (left, sent) => {
  expect(requestsBeforeQuestion(left)).toBe(sent);
});

test.each<[string, (now: number) => number | undefined]>([
  ['without an end', () => undefined],
  ['that ends now', (now) => now],
  ['that has ended', (now) => now - 1_000],
  ['that seems to end soon after each response', (now) => now + 100],
])('half of a window %s is spent before the question', (_, resetAt) => {
  expect(requestsBeforeQuestion(60, resetAt)).toBe(30);
});

test('without an end, more remaining requests show a new window', () => {
  const spending = createSpending();
  const record = (remaining: number, sent: number) =>
    spending.record([{ ...window('day', 4, remaining, 0), reset: undefined }], sent, 0);
  record(3, 1);
  record(2, 2);
  expect(spending.exceeded()).toMatchObject([{ spent: 2, available: 4 }]);
  record(3, 3);
  expect(spending.exceeded()).toEqual([]);
});

test('requests of an earlier window do not count', () => {
  const spending = createSpending();
  spending.record([window('minute', 4, 3, MINUTE)], 1, 0);
  spending.record([window('minute', 4, 2, MINUTE + 900)], 2, 1_000);
  expect(spending.exceeded()).toMatchObject([{ spent: 2, available: 4 }]);
  spending.record([window('minute', 4, 3, 2 * MINUTE)], 3, MINUTE);
  expect(spending.exceeded()).toEqual([]);
  spending.record([window('minute', 4, 2, 2 * MINUTE)], 4, MINUTE);
  expect(spending.exceeded()).toMatchObject([{ spent: 2, available: 4 }]);
});

test('a window is accepted once, together with its successors, but not another window', () => {
  const spending = createSpending();
  const record = (sent: number, now: number) =>
    spending.record(
      [window('minute', 2, 1, now + MINUTE), window('day', 6, 6 - sent, 10 * MINUTE)],
      sent,
      now,
    );
  record(1, 0);
  expect(spending.exceeded()).toMatchObject([{ limit: { name: 'minute' } }]);
  spending.accept();
  record(2, MINUTE);
  expect(spending.exceeded()).toEqual([]);
  record(3, 2 * MINUTE);
  expect(spending.exceeded()).toMatchObject([{ limit: { name: 'day' } }]);
});

test('windows without a name are told apart by their limits', () => {
  const spending = createSpending();
  spending.record([{ ...window('', 60, 1, MINUTE), name: undefined }], 1, 0);
  spending.record([{ ...window('', 1_000, 900, MINUTE), name: undefined }], 2, 0);
  expect(spending.exceeded()).toMatchObject([{ limit: { limit: 60 } }]);
});
