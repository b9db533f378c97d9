import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { header } from '../../contract/headers.ts';
import type { RateLimitWindow } from '../../store/limits/limiter.ts';

/** A response that a `Prefer` header, a fault rule or `--fail-rate` asks for, instead of running the operation. */
export type RequestedMock = {
  /** NaN if a `Prefer` header gives no positive integer. */
  status: number;
  /** The value of Retry-After, in seconds; NaN if a `Prefer` header gives no positive integer for it. */
  retryAfter?: number | undefined;
  /** What requested it; quoted in the message and in the log, such as `Prefer: code=503` or `fault rule 3`. */
  source: string;
  /** The value of Preference-Applied; undefined unless a `Prefer` header asks for the response. */
  applied?: string;
};

/**
 * What the access log and the developer tools show of a request, besides its end. Only `createApp` and the recorder change
 * it: `createApp` adds the results of its steps, so that they are known if a later step fails.
 */
export type RequestContext = ReturnType<typeof createContext>;

/** The context of a request that has just arrived. `started` is the value of `elapsed()` of the clock. */
export const createContext = (
  id: string,
  client: string,
  request: IncomingMessage | undefined,
  started: number,
) => ({
  /** The request id, which the response has as X-Request-Id. */
  id,
  /** The client's IP address. */
  client,
  /** Undefined if what arrived is not valid HTTP. */
  request,
  /** The method and the target as the client sent them; `-` if `request` is undefined. */
  method: request?.method ?? '-',
  url: request?.url ?? '-',
  /** The headers as the client sent them, alternately: name, value, name, value. */
  sentHeaders: (request?.rawHeaders ?? []) as readonly string[],
  started,
  /** The label of the route, or `options` for an OPTIONS request; undefined until the route is found. */
  operation: undefined as string | undefined,
  /** The name of the API key, if it is valid. */
  keyName: undefined as string | undefined,
  /** The window that the response reports. */
  window: undefined as RateLimitWindow | undefined,
  /** Whether the request was checked against the limits of its API key, and `window` is the window of the day. */
  isDay: false,
  /** Whether the request was counted against the rate limit of its API key. */
  isCounted: false,
  /** The mocked response that was sent; undefined for a real one. */
  asked: undefined as RequestedMock | undefined,
  /** The number of the fault rule that applied. */
  rule: undefined as number | undefined,
  /** The injected latency of the response, in milliseconds. */
  latency: 0,
  /** The recorded beginning of the body; each character is one byte. `bodyBytes` is the size of the whole body. */
  body: '',
  bodyBytes: 0,
  /** The request's number in the log, from 1 at each start; 0 if it is not in the log. Unlike ids, it is unique. */
  number: 0,
  /** Whether the log of the developer tools gets this request. */
  isRecorded: false,
  /** The number of the request that this one repeats, if `POST /requests` sent it. */
  again: undefined as number | undefined,
});

const REQUEST_ID = header.requestId.toLowerCase();

/** The accepted form of an id. Other text could be mistaken for further fields of a log line. */
const ID_PATTERN = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * Returns a function that returns the id of a request: the one in its X-Request-Id header if that has the required form,
 * otherwise a new one (docs/service.md 10).
 */
export function createRequestIds(): (request: IncomingMessage) => string {
  // A random prefix with a number is unique enough, and faster than a random UUID for each request.
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return ({ headers }) => {
    const id = headers[REQUEST_ID];
    return typeof id === 'string' && ID_PATTERN.test(id) ? id : `${prefix}-${++count}`;
  };
}
