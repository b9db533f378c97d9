import { expect, test } from 'vitest';
import { formatDeadline, formatDuration, formatIso, formatTime } from '../../src/cli/output/time.ts';

const NOW = Date.parse('2026-11-20T12:00:00.000Z');

test.each([
  [0, '0 s'],
  [1, '1 s'],
  [41_001, '42 s'],
  [59_001, '1 min'],
  [393_000, '6 min 33 s'],
  [3_600_000, '1 h'],
  [3_600_001, '1 h 1 min'],
  [11_100_000, '3 h 5 min'],
  [86_340_001, '1 day'],
  [86_400_001, '1 day 1 h'],
  [86_400_000, '1 day'],
  [187_200_000, '2 days 4 h'],
])('%i ms is %j', (milliseconds, text) => {
  expect(formatDuration(milliseconds)).toBe(text);
});

test.each([
  ['2026-11-20T12:00:42.900Z', '12:00:42 UTC'],
  ['2026-11-21T00:00:00Z', '2026-11-21 00:00:00 UTC'],
])('at noon on 20 November, %s is %j', (time, text) => {
  expect(formatTime(Date.parse(time), NOW)).toBe(text);
});

test('a deadline has its distance unless it is past, and is undefined if it is too late to be true', () => {
  expect(formatDeadline(NOW + 42_000, NOW)).toBe('until 12:00:42 UTC (in 42 s)');
  expect(formatDeadline(NOW - 1, NOW)).toBe('until 11:59:59 UTC');
  expect(formatDeadline(Number.MAX_VALUE, NOW)).toBeUndefined();
});

test('ISO 8601, or undefined if out of range', () => {
  expect([formatIso(NOW), formatIso(Number.NaN), formatIso(9e15)]).toEqual([
    '2026-11-20T12:00:00.000Z',
    undefined,
    undefined,
  ]);
});
