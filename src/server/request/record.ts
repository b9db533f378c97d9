import type { IncomingMessage } from 'node:http';
import type { ErrorCode } from '../../contract/error-codes.ts';
import type { RateLimitWindow } from '../../store/limiter.ts';
import type { RequestedMock } from '../mocks.ts';

/** The beginning of a body; each character is one byte. `bytes` is the size of the whole body. */
export type RecordedBody = { latin1: string; bytes: number };

const NO_BODY: RecordedBody = { latin1: '', bytes: 0 };

/**
 * What the access log and the developer tools show of a request. It contains secrets, which `createRequestDescriber` removes.
 * Each step of `createApp` adds what it finds out, so that this is known if a later step fails. Nothing else reads it.
 */
export type RequestRecord = ReturnType<typeof createRecord>;

/**
 * The record of a request that has just arrived, or, without a method, of bytes that are not a request. `client` is an IP
 * address, `rule` the number of a fault rule, and `window` the rate-limit window that the response reports.
 */
export const createRecord = (
  id: string,
  client: string,
  { method, url, rawHeaders }: IncomingMessage,
  started: number,
) => ({
  id,
  client,
  /** The method and the target as the client sent them; `-` if what arrived is not valid HTTP. */
  method: method || '-',
  url: method ? (url ?? '') : '-',
  /** The headers as the client sent them, alternately: name, value, name, value. */
  sentHeaders: rawHeaders as readonly string[],
  started,
  body: NO_BODY,
  /** The label of the route, or `options` for an OPTIONS request; undefined until the route is found. */
  operation: undefined as string | undefined,
  keyName: undefined as string | undefined,
  window: undefined as RateLimitWindow | undefined,
  /** Whether the request was checked against the limits of its API key, and `window` is the window of the day. */
  isDay: false,
  /** Whether the request was counted against the rate limit of its API key. */
  isCounted: false,
  /** The mocked response that was sent; undefined for a real one. */
  asked: undefined as RequestedMock | undefined,
  rule: undefined as number | undefined,
  latency: 0,
  /** When the request ended, in milliseconds since the epoch, and how long it took. */
  time: 0,
  milliseconds: 0,
  /** The status of the response; 0 if the client gave up before a response. */
  status: 0,
  code: undefined as ErrorCode | undefined,
  message: undefined as string | undefined,
  responseHeaders: [] as readonly string[],
  responseBody: NO_BODY,
  /** The number of the request in the log, from 1 at each start. Unlike ids, it is unique. */
  number: 0,
  /** The origin of a page that may not use the service; `unknown` if any website can have caused the request. */
  foreignOrigin: undefined as string | undefined,
  /** The memory that the texts need, in bytes. */
  size: 0,
});
