import { expect, test } from 'vitest';
import { durationText, instantText, isoText, untilText } from '../../src/cli/output/time.ts';

const NOW = Date.parse('2026-11-20T12:00:00.000Z');

test.each([
  [0, '0 s'],
  [1, '1 s'],
  [41_001, '42 s'],
  [59_001, '1 min'],
  [393_000, '6 min 33 s'],
  [3_600_000, '1 h'],
  [11_100_000, '3 h 5 min'],
  [86_400_000, '1 day'],
  [187_200_000, '2 days 4 h'],
])('%i ms are %j', (milliseconds, text) => {
  expect(durationText(milliseconds)).toBe(text);
});

test.each([
  ['2026-11-20T12:00:42.900Z', '12:00:42 UTC'],
  ['2026-11-21T00:00:00Z', '2026-11-21 00:00:00 UTC'],
])('%s is told as %j at noon of 20 November', (time, text) => {
  expect(instantText(Date.parse(time), NOW)).toBe(text);
});

test('until when, and how long that is, where that says something', () => {
  expect(untilText(NOW + 42_000, NOW)).toBe('until 12:00:42 UTC (in 42 s)');
  expect(untilText(NOW - 1, NOW)).toBe('until 11:59:59 UTC');
  expect(untilText(Number.MAX_VALUE, NOW)).toBe('until a time beyond every calendar');
});

test('ISO 8601, and nothing beyond every calendar', () => {
  expect([isoText(NOW), isoText(Number.NaN), isoText(9e15)]).toEqual([
    '2026-11-20T12:00:00.000Z',
    undefined,
    undefined,
  ]);
});
