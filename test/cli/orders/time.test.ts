import { describe, expect, test } from 'vitest';
import { wholePart } from '../../../src/cli/fields/decimal.ts';
import { instantIn, parseTime, resolveTime } from '../../../src/cli/orders/time.ts';
import { createZone } from '../../../src/cli/output/zone.ts';

/** The instant that an argument means, at this time in this time zone. */
function resolve(text: string, zoneName: string, now = '2026-11-20T12:00:00Z'): string | undefined {
  const time = parseTime(text);
  return (
    time &&
    new Date(
      wholePart(
        resolveTime(
          time,
          Date.parse(now),
          createZone(() => zoneName),
        ),
      ),
    ).toISOString()
  );
}

describe('a time on the command line', () => {
  test.each([
    ['2026-11-20', 'UTC', '2026-11-20T00:00:00.000Z'],
    ['2026-11-20', 'Europe/Berlin', '2026-11-19T23:00:00.000Z'],
    ['2026-11-20', 'America/New_York', '2026-11-20T05:00:00.000Z'],
    ['2026-11-20', 'Asia/Kolkata', '2026-11-19T18:30:00.000Z'],
    ['2026-11-20', 'Pacific/Kiritimati', '2026-11-19T10:00:00.000Z'],
    ['2026-11-20T14:30', 'Europe/Berlin', '2026-11-20T13:30:00.000Z'],
    ['2026-11-20 14:30:05.1239', 'Europe/Berlin', '2026-11-20T13:30:05.123Z'],
    ['2026-11-20T14:30:00Z', 'Europe/Berlin', '2026-11-20T14:30:00.000Z'],
    ['2026-11-20t14:30:00z', 'Europe/Berlin', '2026-11-20T14:30:00.000Z'],
    ['2026-11-20T14:30:00+00:00', 'Europe/Berlin', '2026-11-20T14:30:00.000Z'],
    ['2026-11-20T14:30:00-0330', 'Europe/Berlin', '2026-11-20T18:00:00.000Z'],
    ['2026-11-20T14:30+05', 'Europe/Berlin', '2026-11-20T09:30:00.000Z'],
    ['now', 'Europe/Berlin', '2026-11-20T12:00:00.000Z'],
    ['today', 'Europe/Berlin', '2026-11-19T23:00:00.000Z'],
    ['Yesterday', 'Europe/Berlin', '2026-11-18T23:00:00.000Z'],
    ['tomorrow', 'Europe/Berlin', '2026-11-20T23:00:00.000Z'],
    ['12h', 'Europe/Berlin', '2026-11-20T00:00:00.000Z'],
    ['7d', 'Europe/Berlin', '2026-11-13T12:00:00.000Z'],
    ['2w', 'Europe/Berlin', '2026-11-06T12:00:00.000Z'],
    ['0001-01-01', 'UTC', '0001-01-01T00:00:00.000Z'],
    ['2028-02-29', 'UTC', '2028-02-29T00:00:00.000Z'],
  ])('%s in %s is %s', (text, zone, expected) => {
    expect(resolve(text, zone)).toBe(expected);
  });

  test.each([
    '',
    '20261120',
    '2026-13-05',
    '2026-00-05',
    '2026-02-30',
    '2027-02-29',
    '2026-11-20T24:00',
    '2026-11-20T14',
    '2026-11-20T14:60',
    '2026-11-20T14:30 CET',
    '2026-11-20Z',
    '20.11.2026',
    '11/20/2026',
    '7',
    'd',
    '-7d',
    '7 d',
    '7m',
    'monday',
    'toString',
  ])('%j is none', (text) => {
    expect(parseTime(text)).toBeUndefined();
  });
});

describe('when clocks change', () => {
  // In Berlin, 29 March 2026 has 23 hours, and 25 October 2026 has 25. In Beirut and Havana, clocks change at midnight.
  test.each([
    ['2026-03-29', 'Europe/Berlin', '2026-03-28T23:00:00.000Z'],
    ['2026-03-30', 'Europe/Berlin', '2026-03-29T22:00:00.000Z'],
    ['2026-10-25', 'Europe/Berlin', '2026-10-24T22:00:00.000Z'],
    ['2026-10-26', 'Europe/Berlin', '2026-10-25T23:00:00.000Z'],
    ['2026-03-29T02:30', 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
    ['2026-03-29T03:30', 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
    ['2026-10-25T02:30', 'Europe/Berlin', '2026-10-25T00:30:00.000Z'],
    ['2026-10-25T03:30', 'Europe/Berlin', '2026-10-25T02:30:00.000Z'],
    ['2026-03-29', 'Asia/Beirut', '2026-03-28T22:00:00.000Z'],
    ['2026-10-25', 'Asia/Beirut', '2026-10-24T22:00:00.000Z'],
    ['2026-11-01', 'America/Havana', '2026-11-01T04:00:00.000Z'],
    ['2026-10-04T02:15', 'Australia/Lord_Howe', '2026-10-03T15:45:00.000Z'],
    ['2011-12-31', 'Pacific/Apia', '2011-12-30T10:00:00.000Z'],
  ])('%s in %s is %s', (text, zone, expected) => {
    expect(resolve(text, zone)).toBe(expected);
  });

  test.each([
    ['2026-03-30T08:00:00Z', '2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z', 23],
    ['2026-10-26T08:00:00Z', '2026-10-24T22:00:00.000Z', '2026-10-25T23:00:00.000Z', 25],
  ])('at %s in Berlin, yesterday is from %s to %s, which is %i hours', (now, start, end, hours) => {
    expect(resolve('yesterday', 'Europe/Berlin', now)).toBe(start);
    expect(resolve('today', 'Europe/Berlin', now)).toBe(end);
    expect(Date.parse(end) - Date.parse(start)).toBe(hours * 3_600_000);
  });

  test('every hour of a year is found again', () => {
    for (const name of ['America/St_Johns', 'Africa/Casablanca']) {
      const zone = createZone(() => name);
      for (let hour = 0; hour < 365 * 24; hour++) {
        const instant = Date.UTC(2026, 0, 1, hour);
        const found = zone.instantOf(zone.wallTimeAt(instant));
        // An hour that a clock shows twice is found the first time.
        if (found !== instant) expect(zone.wallTimeAt(found)).toBe(zone.wallTimeAt(instant));
        expect([0, 3_600_000]).toContain(instant - found);
      }
    }
  });
});

test('a field is an instant only if it is text in ISO 8601, and is local without a zone', () => {
  const zone = createZone(() => 'Europe/Berlin');
  const exactly = (milliseconds: number) => ({ units: BigInt(milliseconds), scale: 0 });
  expect(instantIn('2026-11-20T12:00:00.000Z', zone)).toEqual(exactly(Date.UTC(2026, 10, 20, 12)));
  expect(instantIn('1969-12-31T23:59:59.0000000005Z', zone)).toEqual({ units: -9_999_999_995n, scale: 7 });
  expect(instantIn('2026-11-20', zone)).toEqual(exactly(Date.UTC(2026, 10, 19, 23)));
  for (const value of [1_795_000_000, null, 'yesterday', '7d', '', ['2026-11-20']])
    expect(instantIn(value, zone)).toBeUndefined();
});
