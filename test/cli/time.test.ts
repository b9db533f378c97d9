import { expect, test } from 'vitest';
import { parseTime } from '../../src/cli/commands/orders.ts';
import { formatDeadline, formatTime, instantOf } from '../../src/cli/output/time.ts';
import { createTimeFormatter, formatDuration } from '../../src/system/time-text.ts';
import type { TerminalOptions } from '../helpers/context.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply } from '../helpers/scripted-server.ts';

const NOW = Date.parse('2026-11-20T12:00:00.000Z');

test.each([
  [41_001, '42 s'],
  [3_600_001, '1 h 1 min'],
  [86_340_001, '1 day'],
  [86_400_001, '1 day 1 h'],
  [86_400_000, '1 day'],
])('%i ms is %j', (milliseconds, text) => {
  expect(formatDuration(milliseconds)).toBe(text);
});

test.each([
  ['UTC', '2026-11-21T00:00:00Z', '2026-11-21 00:00:00 UTC'],
  ['Europe/Berlin', '2026-11-20T12:00:42.900Z', '13:00:42 CET'],
  ['Europe/Berlin', '2026-11-20T23:00:00Z', '2026-11-21 00:00:00 CET'],
  ['Europe/Berlin', '2026-11-19T23:00:00Z', '00:00:00 CET'],
  ['America/New_York', '2026-11-20T12:00:00Z', '07:00:00 GMT-5'],
])('at noon UTC on 20 November, a clock in %s shows %s as %j', (zone, time, text) => {
  expect(formatTime(Date.parse(time), NOW, zone)).toBe(text);
});

test('a deadline has its distance unless it is past, and is undefined if it is too late to be true', () => {
  expect(formatDeadline(NOW + 42_000, NOW, 'UTC')).toBe('until 12:00:42 UTC (in 42 s)');
  expect(formatDeadline(NOW + 42_000, NOW, 'Europe/Berlin')).toBe('until 13:00:42 CET (in 42 s)');
  expect(formatDeadline(NOW - 1, NOW, 'UTC')).toBe('until 11:59:59 UTC');
  expect(formatDeadline(Number.MAX_VALUE, NOW, 'UTC')).toBeUndefined();
});

/** The instant that `text` means at the time `now` in the time zone `zone`. */
const resolve = (text: string, zone: string, now = '2026-11-20T12:00:00Z') =>
  new Date(parseTime(text)(Date.parse(now), () => zone)).toISOString();

test.each<[string, string, string, now?: string]>([
  ['2026-11-20', 'UTC', '2026-11-20T00:00:00.000Z'],
  ['2026-11-20', 'Pacific/Kiritimati', '2026-11-19T10:00:00.000Z'],
  ['2026-11-20 14:30:05.1239', 'Europe/Berlin', '2026-11-20T13:30:05.123Z'],
  ['2026-11-20T14:30:00Z', 'Europe/Berlin', '2026-11-20T14:30:00.000Z'],
  ['1969-12-31T23:59:59.999999Z', 'Europe/Berlin', '1969-12-31T23:59:59.999Z'],
  ['2026-11-20T14:30-03:30', 'Europe/Berlin', '2026-11-20T18:00:00.000Z'],
  ['today', 'Europe/Berlin', '2026-11-19T23:00:00.000Z'],
  ['12h', 'Europe/Berlin', '2026-11-20T00:00:00.000Z'],
  ['7d', 'Europe/Berlin', '2026-11-12T23:00:00.000Z'],
  // On these dates, Berlin skips 2:30, Berlin repeats 2:30, and Havana repeats midnight.
  ['2026-03-29T02:30', 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
  ['2026-10-25T02:30', 'Europe/Berlin', '2026-10-25T00:30:00.000Z'],
  ['2026-11-01', 'America/Havana', '2026-11-01T04:00:00.000Z'],
  // On this day, clocks in Berlin have changed, and yesterday had 23 hours.
  ['yesterday', 'Europe/Berlin', '2026-03-28T23:00:00.000Z', '2026-03-30T08:00:00Z'],
  ['today', 'Europe/Berlin', '2026-03-29T22:00:00.000Z', '2026-03-30T08:00:00Z'],
])('a time on the command line: %s in %s is %s', (text, zone, expected, now) => {
  expect(resolve(text, zone, now)).toBe(expected);
});

const none =
  '|20261120|0999-12-31|2026-13-05|2026-00-05|2026-02-30|2027-02-29|2026-11-20T24:00|2026-11-20T14|2026-11-20T14:60|2026-11-20T14:30 CET|2026-11-20Z|20.11.2026|11/20/2026|7|d|-7d|7 d|7m|monday|toString';
test.each(none.split('|'))('a time on the command line: %j is none', (text) => {
  expect(() => parseTime(text)).toThrow(/^must be today, yesterday, a number of days or hours ago/);
});

test.each([
  ['America/St_Johns', 60, '2026-03-08', '2026-11-01'],
  ['Europe/Berlin', 60, '2026-03-29', '2026-10-25'],
  ['Australia/Lord_Howe', 30, '2026-04-05', '2026-10-04'],
])('when clocks in %s change by %i min, every half hour is found again', (zone, minutes, ...changes) => {
  const format = createTimeFormatter(zone);
  for (let halfHour = -144; halfHour < 144; halfHour++) {
    const instant = Date.parse(changes[halfHour & 1] ?? '') + (halfHour >> 1) * 1_800_000;
    const [date, time] = format(instant).split(' ');
    const found = instantOf(Date.parse(`${date}T${time}Z`), zone);
    // Of two instants at which a clock shows the same time, `instantOf` returns the first.
    expect([0, minutes * 60_000]).toContain(instant - found);
    if (found !== instant) expect(format(found).slice(0, 19)).toBe(format(instant).slice(0, 19));
  }
});

test.each<[string, string | undefined, string | undefined, string]>([
  ['Europe/Berlin', 'Europe/Berlin', undefined, '13:00:00 CET'],
  ['', 'Etc/Unknown', undefined, '12:00:00 UTC'],
  ['CET-1CEST', 'UTC', 'TZ=CET-1CEST: times are in UTC', '12:00:00 UTC'],
  ['Bogus/Zone', undefined, 'TZ=Bogus/Zone: times are in UTC', '12:00:00 UTC'],
])('with TZ=%s and the zone %s of Node, a note says %s', async (TZ, zone, problem, time) => {
  const { stdout, stderr } = await runAgainst(respondWith('[{"at":"2026-11-20T12:00:00Z"}]'), ['orders'], {
    columns: 200,
    env: { TZ, NO_COLOR: '1' },
    timeZone: zone as string,
  });
  expect(stdout).toContain(`2026-11-20 ${time}`);
  if (problem === undefined) expect(stderr).toBe('note: 1 order\n');
  else expect(stderr.split(problem)).toHaveLength(2);
});

// The clock of these commands starts at 12:00 UTC on 20 November 2026, which is 13:00 in Berlin.
const timeZone = 'Europe/Berlin';
const refuse: Handler = (_, response) => reply(response, 429, {}, { 'Retry-After': '300' });

test.each<[string, number | undefined, string[], local: string, utc: string]>([
  ['the end of a rate limit', 100, ['list'], 'until 13:05:00 CET (in 5 min)', 'until 12:05:00 UTC'],
  ['the result of a check', 200, ['profiles', '--check'], 'until 13:05:00 CET', 'until 12:05:00 UTC'],
])('%s is in local time on a terminal, and in UTC elsewhere', async (_name, columns, argv, local, utc) => {
  const shown = async (more: string[], options: { columns?: number | undefined }) => {
    const ran = await runAgainst(refuse, [...argv, ...more], { timeZone, ...options } as TerminalOptions);
    return (ran.stdout + ran.stderr).replace(/\s+/g, ' ');
  };
  expect(await shown([], { columns })).toContain(local);
  expect(await shown([], {})).toContain(utc);
  expect(await shown(['--json'], { columns })).toContain(utc);
});
