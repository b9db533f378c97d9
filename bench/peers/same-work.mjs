// What `minimal-server.mjs` and `fastify-server.mjs` both do: they check the API key, count in both rate-limit windows, and
// select a page.
import { createHash } from 'node:crypto';
import { animals } from './animals.mjs';

const MINUTE = 60_000;
const DAY = 86_400_000;
const PER_MINUTE = 1_000_000_000;
const PER_DAY = 1_000_000_000_000;
const POLICY = `"minute";q=${PER_MINUTE};w=60, "day";q=${PER_DAY};w=86400`;

const sha256 = (text) => createHash('sha256').update(text).digest('hex');

const texts = animals.map((animal) => JSON.stringify(animal));
/** For the SHA-256 of each key, the number of requests in the current minute and day. */
const counters = new Map([[sha256('bench'), { minute: 0, minuteStart: 0, day: 0, dayStart: 0 }]]);

/** Counts a request. Returns the headers that report both windows, or undefined for an unknown key. */
export function count(authorization) {
  if (!authorization?.startsWith('Bearer ')) return undefined;
  const counter = counters.get(sha256(authorization.slice(7)));
  if (counter === undefined) return undefined;
  const now = Date.now();
  const minuteStart = now - (now % MINUTE);
  const dayStart = now - (now % DAY);
  if (minuteStart > counter.minuteStart) Object.assign(counter, { minute: 0, minuteStart });
  if (dayStart > counter.dayStart) Object.assign(counter, { day: 0, dayStart });
  const minuteLeft = PER_MINUTE - ++counter.minute;
  const dayLeft = PER_DAY - ++counter.day;
  const secondsOf = (end) => Math.ceil((end - now) / 1000);
  const isDay = dayLeft < minuteLeft;
  return {
    'X-RateLimit-Limit': isDay ? PER_DAY : PER_MINUTE,
    'X-RateLimit-Remaining': isDay ? dayLeft : minuteLeft,
    'X-RateLimit-Reset': (isDay ? dayStart + DAY : minuteStart + MINUTE) / 1000,
    'RateLimit-Policy': POLICY,
    RateLimit: `"minute";r=${minuteLeft};t=${secondsOf(minuteStart + MINUTE)}, "day";r=${dayLeft};t=${secondsOf(dayStart + DAY)}`,
  };
}

/** Returns the text of a page, and the headers that the response has besides those of `count`. */
export function selectPage(limit, after, requestId) {
  const end = after + limit;
  const headers = {
    'X-Content-Type-Options': 'nosniff',
    'X-Request-Id': requestId,
    'Idempotency-Supported': 'true',
    ...(end < texts.length && { Link: `</v1/pets?limit=${limit}&cursor=${end}>; rel="next"` }),
  };
  return { headers, text: `[${texts.slice(after, end).join(',')}]` };
}
