import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { coolDownAfter, requestedDelay, scarcestLimit } from '../../src/client/rate-limit.ts';
import type { HttpHeaders } from '../../src/client/response.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
/** A time on the day of NOW as an HTTP-date. */
const dateAt = (time: string) => `Fri, 20 Nov 2026 ${time} GMT`;
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
  ['zero', after('0'), 0],
  ['a fraction is rounded up to a millisecond', after('0.0001'), 1],
  ['400 digits', after('9'.repeat(400)), Number.POSITIVE_INFINITY],
  ['repeated: the first one', after('7', '9'), 7_000],
];

const invalid = [
  ...['', ' ', '-5', '-0', '+5', '.5', '5.', '1.2.3', '1e3', '0x10', 'NaN', 'Infinity', 'soon', '5 s'],
  ...['٥', '2026-11-20T12:01:00', 'Fri, 20 Nov 2026'],
].map((text): Case => [JSON.stringify(text), after(text), undefined]);

const dates: Case[] = [
  ['IMF-fixdate', after(dateAt('12:01:30')), 90_000],
  ['ISO 8601', after('2026-11-20T12:01:30.5Z'), 90_500],
  ['ISO 8601 with an offset', after('2026-11-20T14:01:30+02:00'), 90_000],
  ['in the past', after(dateAt('11:00:00')), 0],
  ['an invalid month', after('Fri, 20 Nod 2026 12:01:30 GMT'), undefined],
];

const clocks: Case[] = [
  ['a server clock an hour slow', { date: HOUR_SLOW, ...after(dateAt('11:00:20')) }, 20_000],
  ['seconds are independent of the clock', { date: HOUR_FAST, ...after('20') }, 20_000],
  ['a reset time, an hour fast', { date: HOUR_FAST, ...reset(seconds('2026-11-20T13:00:45Z')) }, 45_000],
];

const resets: Case[] = [
  ['without Date, compared with the local clock', RESET_45, 45_000],
  ['in milliseconds', reset(String(NOW + 45_500)), 45_500],
  ['0', reset('0'), 0],
  ['as a delay, as @fastify/rate-limit sends it, here with a fraction', reset('45.25'), 45_250],
  ['400 digits', reset('9'.repeat(400)), Number.POSITIVE_INFINITY],
  ['as a date', reset('2026-11-20T12:00:45Z'), 45_000],
  ['without X-', { 'ratelimit-reset': '45' }, 45_000],
  ['text', reset('never'), undefined],
  ['Retry-After takes precedence', { ...after('3'), ...RESET_45, ratelimit: '"a";r=0;t=30' }, 3_000],
];

const rateLimit = (...texts: string[]): HttpHeaders => ({ ratelimit: texts.length === 1 ? texts[0] : texts });

/** Headers of draft-ietf-httpapi-ratelimit-headers. */
const drafts: Case[] = [
  ['version 7', rateLimit('limit=2, remaining=0, reset=600'), 600_000],
  ['RateLimit, with a partition key', rateLimit('"default";r=0;pk=:cHsdsRa894==:;t=30'), 30_000],
  ['two windows: the exhausted one', rateLimit('"minute";r=0;t=30, "day";r=70;t=3600'), 30_000],
  ['two windows with requests left: the longer one', rateLimit('"a";r=1;t=30, "b";r=1;t=60'), 60_000],
  ['a negative delay', rateLimit('"minute";r=0;t=-30'), undefined],
  ['text', rateLimit('soon'), undefined],
  ['X-RateLimit-Reset does as well', { ...RESET_45, ...rateLimit('"minute";r=0;t=30') }, 45_000],
];

describe('requestedDelay, in milliseconds', () => {
  describe.each([
    ['Retry-After', [...delays, ...invalid]],
    ['an HTTP-date', dates],
    ['the clock of the service', clocks],
    ['X-RateLimit-Reset', resets],
    ['the IETF drafts', drafts],
  ])('%s', (_, cases) => {
    test.each(cases)('%s: %j is %s', (_name, headers, wait) =>
      expect(requestedDelay(headers, NOW)).toBe(wait),
    );
  });

  test('never throws and is never negative, for any headers', () => {
    const texts = fc.oneof(fc.string(), fc.array(fc.string(), { maxLength: 3 }), fc.constant(undefined));
    fc.assert(
      fc.property(texts, texts, texts, texts, (retryAfter, ends, ratelimit, date) => {
        const headers = { 'retry-after': retryAfter, 'x-ratelimit-reset': ends, ratelimit, date };
        expect(requestedDelay(headers, NOW) ?? 0).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

const coolDown = (headers: HttpHeaders) => coolDownAfter({ status: 200, headers, body: '' }, NOW);

test('X-RateLimit-Remaining exhausts the window if it is not above 0', () => {
  const delay = (remaining: string | undefined) =>
    coolDown({ 'x-ratelimit-remaining': remaining, ...RESET_45 });
  for (const none of ['0', ' 0 ', '00', '0.0', '-1']) expect(delay(none)).toBe(45_000);
  for (const some of ['1', '10', '0.5', '', 'zero', undefined]) expect(delay(some)).toBeUndefined();
});

test.each<[string, HttpHeaders, number | undefined]>([
  ['RateLimit', rateLimit('"a";r=5;t=700, "b";r=0;t=600'), 600_000],
  ['RateLimit of version 7', rateLimit('limit=2, remaining=0, reset=600'), 600_000],
  ['RateLimit, without the number of requests', rateLimit('"a";t=600'), undefined],
])('the IETF drafts: an exhausted window in %s', (_name, headers, delay) => {
  expect(coolDown(headers)).toBe(delay);
});

const LEAST = { limit: undefined, remaining: 58, reset: NOW + 30_000 };
const BOTH = rateLimit('"minute";r=58;t=30, "day";r=998;t=36000');
const POLICY = { 'ratelimit-policy': '"minute";q=60;w=60, "day";q=1000;w=86400' };
const X_LEAST = { limit: 60, remaining: 58, reset: NOW + 45_000 };
const X_RATE_LIMIT = { 'x-ratelimit-limit': '60', 'x-ratelimit-remaining': '58', ...RESET_45 };

test.each<[string, HttpHeaders, ReturnType<typeof scarcestLimit>]>([
  ['RateLimit with its policies', { ...POLICY, ...BOTH }, { ...LEAST, limit: 60 }],
  ['RateLimit of a service whose clock is an hour fast', { date: HOUR_FAST, ...BOTH }, LEAST],
  [
    'RateLimit with names that other services use',
    {
      ...rateLimit('"a, \\"b\\";q";r=1;t=30, burst;r=2;t=30, "x";r=3;t=30'),
      'ratelimit-policy': '"x";w=3600, burst;w=10;q=5, "a, \\"b\\";q";q=9;pk=:cHs=:',
    },
    { ...LEAST, limit: 9, remaining: 1 },
  ],
  ['X-RateLimit', X_RATE_LIMIT, X_LEAST],
  ['RateLimit of version 7', rateLimit('limit=60, remaining=58, reset=45'), X_LEAST],
  ['X-RateLimit if RateLimit is incomplete', { ...X_RATE_LIMIT, ...rateLimit('"minute";r=58') }, X_LEAST],
  ['nothing without the end of a window', { ...X_RATE_LIMIT, ...reset('soon') }, undefined],
  ['nothing without the requests left', RESET_45, undefined],
])('the window with the fewest requests left: %s', (_name, headers, expected) => {
  expect(scarcestLimit(headers, NOW)).toEqual(expected);
});
