import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { askedWait } from '../../src/client/rate-limit.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const DATE = 'Fri, 20 Nov 2026 12:00:00 GMT';
const seconds = (time: string) => String(Date.parse(time) / 1_000);

describe('askedWait, in milliseconds', () => {
  test.each([
    [{ 'retry-after': '5' }, 5_000],
    [{ 'retry-after': ' 5 ' }, 5_000],
    [{ 'retry-after': '0' }, 0],
    // Whoever says it twice means the longer one.
    [{ 'retry-after': ['7', '9'] }, 9_000],
    [{ 'retry-after': ['9', '7'] }, 9_000],
    [{ 'retry-after': 'Fri, 20 Nov 2026 12:01:30 GMT' }, 90_000],
    [{ 'retry-after': 'Fri, 20 Nov 2026 11:00:00 GMT' }, 0],
    // The service's clock is an hour behind: its date counts against its own.
    [{ date: 'Fri, 20 Nov 2026 11:00:00 GMT', 'retry-after': 'Fri, 20 Nov 2026 11:00:20 GMT' }, 20_000],
    [{ date: DATE, 'x-ratelimit-reset': seconds('2026-11-20T12:00:45Z') }, 45_000],
    [{ date: 'Fri, 20 Nov 2026 11:00:00 GMT', 'x-ratelimit-reset': seconds('2026-11-20T11:00:45Z') }, 45_000],
    [{ 'retry-after': '3', 'x-ratelimit-reset': seconds('2026-11-20T12:00:45Z') }, 3_000],
    [{ 'retry-after': 'soon', 'x-ratelimit-reset': seconds('2026-11-20T12:00:45Z') }, 45_000],
    [{ 'x-ratelimit-reset': seconds('2026-11-20T11:59:00Z') }, 0],
    [{}, undefined],
    [{ 'retry-after': '' }, undefined],
    [{ 'retry-after': '-5' }, undefined],
    [{ 'retry-after': '1.5' }, 1_500],
    [{ 'retry-after': '0.0001' }, 1],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': '2027' }, 2_027_000],
    [{ 'x-ratelimit-reset': 'never' }, undefined],
    [{ 'retry-after': '9'.repeat(400) }, 1e14],
  ])('%j: %s', (headers, wait) => expect(askedWait(headers, NOW)).toBe(wait));

  test('never throws and is never negative, whatever the headers hold', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (retryAfter, reset, date) => {
        const wait = askedWait({ 'retry-after': retryAfter, 'x-ratelimit-reset': reset, date }, NOW) ?? 0;
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(1e14);
      }),
    );
  });
});
