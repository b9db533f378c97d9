// A hand-written server for `GET /v1/pets` that does only the necessary work. The server checks the API key, counts in
// both rate-limit windows, reads the query, joins the texts of the page, and sends the headers that `pets serve` sends.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
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

/** Counts a request; returns the headers that report both windows, or undefined for an unknown key. */
function count(authorization) {
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

function send(response, status, headers, body) {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    ...headers,
  });
  response.end(body);
}

let requests = 0;

createServer((request, response) => {
  const windows = count(request.headers.authorization);
  if (windows === undefined) return send(response, 401, {}, '{}');
  const mark = request.url.indexOf('?');
  const query = new URLSearchParams(mark === -1 ? '' : request.url.slice(mark + 1));
  const limit = Number(query.get('limit') ?? 20);
  const after = Number(query.get('cursor') ?? 0);
  if (!(limit >= 1 && limit <= 100) || !(after >= 0)) return send(response, 400, {}, '{}');
  const end = after + limit;
  send(
    response,
    200,
    {
      ...windows,
      'X-Request-Id': request.headers['x-request-id'] ?? `bench-${++requests}`,
      'Idempotency-Supported': 'true',
      ...(end < texts.length && { Link: `</v1/pets?limit=${limit}&cursor=${end}>; rel="next"` }),
    },
    `[${texts.slice(after, end).join(',')}]`,
  );
}).listen(0, '127.0.0.1', function listening() {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${this.address().port}/v1`, key: 'bench' }));
});
