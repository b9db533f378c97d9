import { expect, test } from 'vitest';
import {
  formatDeadline,
  formatDuration,
  formatIso,
  formatMinute,
  formatTime,
} from '../../src/cli/output/time.ts';

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
  ['UTC', '2026-11-20T12:00:42.900Z', '12:00:42 UTC'],
  ['UTC', '2026-11-21T00:00:00Z', '2026-11-21 00:00:00 UTC'],
  ['Europe/Berlin', '2026-11-20T12:00:42.900Z', '13:00:42 CET'],
  ['Europe/Berlin', '2026-11-20T23:00:00Z', '2026-11-21 00:00:00 CET'],
  ['Europe/Berlin', '2026-11-19T23:00:00Z', '00:00:00 CET'],
  ['Europe/Berlin', '2026-07-01T12:00:00Z', '2026-07-01 14:00:00 CEST'],
  ['Europe/London', '2026-07-01T12:00:00Z', '2026-07-01 13:00:00 BST'],
  ['America/New_York', '2026-11-20T12:00:00Z', '07:00:00 EST'],
  ['Australia/Sydney', '2026-11-20T14:00:00Z', '2026-11-21 01:00:00 AEDT'],
  ['Asia/Kolkata', '2026-11-20T12:00:00Z', '17:30:00 IST'],
  ['Africa/Johannesburg', '2026-11-20T12:00:00Z', '14:00:00 SAST'],
  ['Asia/Kathmandu', '2026-11-20T12:00:00Z', '17:45:00 GMT+5:45'],
  ['America/Sao_Paulo', '2026-11-20T12:00:00Z', '09:00:00 GMT-3'],
])('at noon UTC on 20 November, a clock in %s shows %s as %j', (zone, time, text) => {
  expect(formatTime(Date.parse(time), NOW, zone)).toBe(text);
});

test.each([
  ['UTC', '2026-11-20 23:30 UTC'],
  ['Europe/Berlin', '2026-11-21 00:30 CET'],
])('the minute of a time in %s is %j', (zone, text) => {
  expect(formatMinute('2026-11-20T23:30:59.999Z', zone)).toBe(text);
});

test.each(['UTC', 'Europe/Berlin', 'Pacific/Kiritimati', 'Etc/GMT+12'])(
  'times out of range in %s',
  (zone) => {
    for (const time of [Number.NaN, 9e15, -9e15])
      expect(formatTime(time, NOW, zone)).toBe('a time out of range');
    for (const time of [8.64e15, -8.64e15]) expect(() => formatTime(time, NOW, zone)).not.toThrow();
  },
);

test('a deadline has its distance unless it is past, and is undefined if it is too late to be true', () => {
  expect(formatDeadline(NOW + 42_000, NOW, 'UTC')).toBe('until 12:00:42 UTC (in 42 s)');
  expect(formatDeadline(NOW + 42_000, NOW, 'Europe/Berlin')).toBe('until 13:00:42 CET (in 42 s)');
  expect(formatDeadline(NOW - 1, NOW, 'UTC')).toBe('until 11:59:59 UTC');
  expect(formatDeadline(Number.MAX_VALUE, NOW, 'UTC')).toBeUndefined();
});

test('ISO 8601, or undefined if out of range', () => {
  expect([formatIso(NOW), formatIso(Number.NaN), formatIso(9e15)]).toEqual([
    '2026-11-20T12:00:00.000Z',
    undefined,
    undefined,
  ]);
});
