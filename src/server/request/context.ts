import type { RateLimitDecision, RateLimitWindow } from '../../store/limits/limiter.ts';

/**
 * What a request target belongs to, whether or not it exists in this service: an operation, a developer tool, the page of
 * the developer tools, the metrics, or another route.
 */
export type TargetKind = 'api' | 'tool' | 'page' | 'metrics' | 'other';

/** What the service knows about a request. Each step adds its results here, so that error responses have them too. */
export type RequestContext = {
  /** The request id, which the response has as X-Request-Id. */
  readonly id: string;
  /** The client's IP address. */
  readonly client: string;
  /** The method and the target as the client sent them; `-` if the request was not valid HTTP. */
  readonly method: string;
  readonly url: string;
  /** What the target belongs to. */
  readonly kind: TargetKind;
  /** When the request began, as `elapsed()` of the clock in milliseconds; 0 if requests are neither logged nor recorded. */
  readonly started: number;
  /** The host in an absolute target. */
  readonly targetHost?: string | undefined;
  /** The host that the client asked for, with an optional port; undefined if the request names none. */
  host?: string | undefined;
  /** The name of the operation, `options`, or the path of an unversioned route; undefined if none of them was requested. */
  operation?: string;
  /** The name of the API key, if it is valid. */
  keyName?: string;
  /** Whether the request was counted against the rate limit of its API key. */
  isCounted?: true;
  /** What injected a fault as the response, such as `rule 2 of your faults`. */
  injected?: string;
  window?: RateLimitWindow;
  /** What the rate limits of the caller decided, if the request was to be counted. */
  limits?: RateLimitDecision;
  /** The injected latency of the response, in milliseconds. */
  latency: number;
  headers: Record<string, string>;
  /** Set just before the response is sent. */
  isFinished?: true;
};
