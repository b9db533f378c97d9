import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isExhausted, requestedDelay } from '../../src/client/rate-limit.ts';
import type { HttpHeaders } from '../../src/client/response.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
/** A time on the day of NOW as an HTTP-date. */
const dateAt = (time: string) => `Fri, 20 Nov 2026 ${time} GMT`;
const DATE = dateAt('12:00:00');
const HOUR_SLOW = dateAt('11:00:00');
const HOUR_FAST = dateAt('13:00:00');
const seconds = (time: string) => String(Date.parse(time) / 1_000);
const after = (...texts: string[]): HttpHeaders => ({ 'retry-after': texts.length === 1 ? texts[0] : texts });
const reset = (...texts: string[]): HttpHeaders => ({
  'x-ratelimit-reset': texts.length === 1 ? texts[0] : texts,
});
const RESET_45 = reset(seconds('2026-11-20T12:00:45Z'));

type Case = [string, HttpHeaders, number | undefined];

const delays: Case[] = [
  ['seconds', after('5'), 5_000],
  ['with spaces around it', after(' 5 '), 5_000],
  ['zero', after('0'), 0],
  ['with leading zeros', after('007'), 7_000],
  ['a fraction', after('1.5'), 1_500],
  ['a fraction is rounded up to a millisecond', after('0.0001'), 1],
  ['a number that could be a year', after('2027'), 2_027_000],
  ['a day', after('86400'), 86_400_000],
  ['10^10', after('10000000000'), 1e13],
  ['10^12', after('1000000000000'), 1e14],
  ['400 digits', after('9'.repeat(400)), 1e14],
  ['400 zeros', after('0'.repeat(400)), 0],
  ['repeated: the longest', after('7', '9'), 9_000],
  ['repeated in the other order', after('9', '7'), 9_000],
  ['repeated, one of them invalid', after('soon', '9'), 9_000],
  ['joined by a comma: the longest', after('7, 9,8'), 9_000],
  ['a number and a date joined by a comma', after(`7, ${dateAt('12:01:30')}`), 90_000],
  ['two dates joined by a comma', after(`${dateAt('12:01:30')}, ${dateAt('12:00:10')}`), 90_000],
  ['an empty list', after(', ,'), undefined],
];

const invalid = [
  ...['', ' ', '-5', '-0', '+5', '.5', '5.', '1.2.3', '1e3', '0x10', 'NaN', 'Infinity', 'soon', '5 s'],
  ...['٥', '5\u00005', '2026-11-20T12:01:00Z', 'Fri, 20 Nov 2026', 'Nov 20 2026', '[object Object]'],
].map((text): Case => [JSON.stringify(text), after(text), undefined]);

const dates: Case[] = [
  ['IMF-fixdate', after(dateAt('12:01:30')), 90_000],
  ['RFC 850', after('Friday, 20-Nov-26 12:01:30 GMT'), 90_000],
  ['asctime', after('Fri Nov 20 12:01:30 2026'), 90_000],
  ['asctime with a day of one digit', after('Tue Dec  1 12:00:00 2026'), 11 * 86_400_000],
  ['in the past', after(dateAt('11:00:00')), 0],
  ['RFC 850, 50 years ahead', after('Friday, 20-Nov-76 12:00:00 GMT'), 1_577_923_200_000],
  ['RFC 850, a year more than 50 years ahead is in the past', after('Sunday, 06-Nov-94 08:49:37 GMT'), 0],
  ['a leap second', after(dateAt('12:00:60')), 59_000],
  ['year 9999', after('Fri, 31 Dec 9999 23:59:59 GMT'), 1e14],
  ['year 0099', after('Fri, 31 Dec 0099 23:59:59 GMT'), 0],
  ['an invalid month', after('Fri, 20 Nod 2026 12:01:30 GMT'), undefined],
  ['an invalid day', after('Mon, 30 Feb 2026 12:01:30 GMT'), undefined],
  ['an invalid hour', after(dateAt('24:01:30')), undefined],
  ['an invalid minute', after(dateAt('12:60:30')), undefined],
  ['an invalid second', after(dateAt('12:00:61')), undefined],
  ['another time zone', after('Fri, 20 Nov 2026 12:01:30 EST'), undefined],
  ['incomplete', after('Fri, 20 Nov 2026 12:01'), undefined],
];

const clocks: Case[] = [
  ['a server clock an hour slow', { date: HOUR_SLOW, ...after(dateAt('11:00:20')) }, 20_000],
  ['a server clock an hour fast', { date: HOUR_FAST, ...after(dateAt('13:00:20')) }, 20_000],
  ['an hour slow, in RFC 850', { date: HOUR_SLOW, ...after('Friday, 20-Nov-26 11:00:20 GMT') }, 20_000],
  [
    'an hour fast, in asctime',
    { date: 'Fri Nov 20 13:00:00 2026', ...after('Fri Nov 20 13:00:20 2026') },
    20_000,
  ],
  ['seconds are independent of the clock', { date: HOUR_FAST, ...after('20') }, 20_000],
  ['an invalid Date', { date: 'today', ...after(dateAt('12:00:20')) }, 20_000],
  ['a reset time, an hour slow', { date: HOUR_SLOW, ...reset(seconds('2026-11-20T11:00:45Z')) }, 45_000],
  ['a reset time, an hour fast', { date: HOUR_FAST, ...reset(seconds('2026-11-20T13:00:45Z')) }, 45_000],
];

const resets: Case[] = [
  ['in seconds', { date: DATE, ...RESET_45 }, 45_000],
  ['without Date, compared with the local clock', RESET_45, 45_000],
  ['in milliseconds', reset(String(NOW + 45_500)), 45_500],
  ['in the past', reset(seconds('2026-11-20T11:59:00Z')), 0],
  ['0', reset('0'), 0],
  ['30 digits', reset('9'.repeat(30)), 1e14],
  ['400 digits', reset('9'.repeat(400)), 1e14],
  ['text', reset('never'), undefined],
  ['negative', reset('-5'), undefined],
  ['repeated: the latest', reset(seconds('2026-11-20T12:00:45Z'), seconds('2026-11-20T12:00:05Z')), 45_000],
  ['joined by a comma', reset(`${NOW / 1_000 + 5}, ${NOW / 1_000 + 45}`), 45_000],
  ['Retry-After takes precedence', { ...after('3'), ...RESET_45 }, 3_000],
  ['an invalid Retry-After does not', { ...after('soon'), ...RESET_45 }, 45_000],
  ['neither', {}, undefined],
];

describe('requestedDelay, in milliseconds', () => {
  describe.each([
    ['Retry-After', [...delays, ...invalid]],
    ['an HTTP-date', dates],
    ['the clock of the service', clocks],
    ['X-RateLimit-Reset', resets],
  ])('%s', (_, cases) => {
    test.each(cases)('%s: %j is %s', (_name, headers, wait) =>
      expect(requestedDelay(headers, NOW)).toBe(wait),
    );
  });

  test('dates are UTC in any local time zone', () => {
    const { TZ } = process.env;
    onTestFinished(() => {
      if (TZ === undefined) delete process.env['TZ'];
      else process.env['TZ'] = TZ;
    });
    process.env['TZ'] = 'America/New_York';
    expect(new Date(NOW).getHours()).toBe(7);
    for (const [name, headers, wait] of [...dates, ...clocks])
      expect(requestedDelay(headers, NOW), name).toBe(wait);
  });

  test('never throws and is never negative, for any headers', () => {
    const texts = fc.oneof(fc.string(), fc.array(fc.string(), { maxLength: 3 }), fc.constant(undefined));
    fc.assert(
      fc.property(texts, texts, texts, (retryAfter, ends, date) => {
        const wait = requestedDelay({ 'retry-after': retryAfter, 'x-ratelimit-reset': ends, date }, NOW) ?? 0;
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(1e14);
      }),
    );
  });
});

test.each<[string | string[] | undefined, boolean]>([
  ['0', true],
  [' 0 ', true],
  ['00', true],
  ['-1', true],
  [['7', '0'], true],
  ['7, 0', true],
  ['1', false],
  ['10', false],
  ['0.5', false],
  ['', false],
  ['zero', false],
  [[], false],
  [undefined, false],
])('X-RateLimit-Remaining %j exhausts the window: %s', (remaining, isLast) => {
  expect(isExhausted({ 'x-ratelimit-remaining': remaining })).toBe(isLast);
});
