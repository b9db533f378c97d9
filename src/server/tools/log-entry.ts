import { header } from '../../contract/headers.ts';
import { API_PREFIX } from '../../contract/operations.ts';
import { REDACTED } from '../../contract/recorded-text.ts';
import { createRequestRedactors, isSecretHeader, type Redactor } from '../redact.ts';
import type { RequestContext } from '../request/context.ts';
import { isUnderApi, splitTarget } from '../request/input.ts';
import type { RecordedBody, RecordedRequest } from './recorder.ts';

/** What the service did with a request (docs/testing.md). */
export type RequestOutcome =
  | 'counted'
  | 'replayed'
  | 'rate_limited'
  | 'banned'
  | 'injected_fault'
  | 'mocked'
  | 'not_counted';

type Describer = ReturnType<typeof createRequestDescriber>;
/** An object as it is sent: JSON leaves out fields that are undefined. */
type Sent<Shape> = {
  [Name in keyof Shape as undefined extends Shape[Name] ? Name : never]?: Shape[Name];
} & { [Name in keyof Shape as undefined extends Shape[Name] ? never : Name]: Shape[Name] };
/** A request without its headers and bodies. */
export type RequestSummary = Sent<ReturnType<Describer['summarize']>>;
/** A request as `GET /requests` shows it, without secrets. */
export type DescribedRequest = Sent<ReturnType<Describer['describe']>>;
/** A request that has no response yet, as `GET /requests` shows it. */
export type DescribedRunningRequest = Sent<ReturnType<Describer['describeRunning']>>;

/** Returns functions that describe recorded requests without `secrets` and without the credentials of each request. */
export function createRequestDescriber(secrets: readonly string[]) {
  const redactorFor = createRequestRedactors(secrets);

  function summarize(recorded: RecordedRequest) {
    const { number, status, code, again, headers, window } = recorded;
    const { redact } = redactorFor(headers);
    const outcome = outcomeOf(recorded);
    const isRefused = outcome === 'rate_limited' || outcome === 'banned';
    return {
      number,
      ...describeArrival(recorded, recorded.time - recorded.milliseconds, recorded.milliseconds, redact),
      /** Missing if the client gave up before a response. */
      status: status || undefined,
      code,
      outcome,
      because: redact(describeReason(recorded)),
      until: isRefused && window ? new Date(window.resetAt).toISOString() : undefined,
      /** The number of the request that this one repeats. */
      again,
    };
  }

  function describe(recorded: RecordedRequest) {
    const { headers, body, responseHeaders, responseBody } = recorded;
    const redactor = redactorFor(headers);
    const summary = summarize(recorded);
    const request = messageOf(headers, body, redactor);
    const isShown = summary.url === recorded.url && (request.body ?? '') === body.text;
    return {
      ...summary,
      request,
      response: responseHeaders.length > 0 ? messageOf(responseHeaders, responseBody, redactor) : undefined,
      /** Why the request cannot be sent again; missing if it can. */
      notAgain: notAgain(recorded, isShown),
    };
  }

  /** Describes a request that has no response yet. `now` and `elapsed` are the current times of the clock. */
  function describeRunning(context: RequestContext, now: number, elapsed: number) {
    const milliseconds = elapsed - context.started;
    const { redact } = redactorFor(context.sentHeaders);
    return describeArrival(context, now - milliseconds, milliseconds, redact);
  }

  return { summarize, describe, describeRunning, redact: redactorFor().redact };
}

/** Describes what is known about a request before its response. */
const describeArrival = (
  {
    id,
    client,
    method,
    url,
    operation,
    keyName,
  }: Pick<RequestContext, 'id' | 'client' | 'method' | 'url' | 'operation' | 'keyName'>,
  time: number,
  milliseconds: number,
  redact: Redactor['redact'],
) => ({
  id: redact(id),
  time: new Date(time).toISOString(),
  milliseconds: Math.round(milliseconds * 10) / 10,
  client,
  method: redact(method),
  url: redact(url),
  operation,
  keyName,
});

function outcomeOf(recorded: RecordedRequest): RequestOutcome {
  const { isCounted, asked, code, responseHeaders } = recorded;
  if (asked) return asked.applied === undefined ? 'injected_fault' : 'mocked';
  if (code === 'rate_limited') return 'rate_limited';
  if (code === 'key_banned') return 'banned';
  if (singleHeader(responseHeaders, header.idempotencyReplayed)) return 'replayed';
  return isCounted ? 'counted' : 'not_counted';
}

/** The value of the only header with this name; undefined if there are none or several. */
export function singleHeader(headers: readonly string[], name: string): string | undefined {
  const values = headers.filter(
    (_, i) => i % 2 === 1 && headers[i - 1]?.toLowerCase() === name.toLowerCase(),
  );
  return values.length === 1 ? values[0] : undefined;
}

/**
 * Why a request cannot be sent again (docs/testing.md); undefined if it can. `isShown`: URL and body are unredacted.
 */
function notAgain(
  { method, url, keyName, headers, body: { bytes, isCutOff, isText } }: RecordedRequest,
  isShown: boolean,
): string | undefined {
  const length = singleHeader(headers, 'content-length');
  if (method === '-') return 'it is not valid HTTP';
  if (!isUnderApi(splitTarget(method, url).target))
    return `only requests under ${API_PREFIX} can be sent again`;
  if (keyName === undefined && method !== 'OPTIONS') return 'no API key was accepted for it';
  if (isCutOff) return 'only the beginning of its body is recorded';
  if (length !== undefined && Number(length) !== bytes) return 'its body did not arrive completely';
  if (!isText) return 'its body is not text';
  return isShown ? undefined : 'a secret in its URL or body was redacted';
}

/** Why a request got its response, in one sentence without the status and without a full stop (docs/testing.md). */
function describeReason(recorded: RecordedRequest): string {
  const { status, latency } = recorded;
  const delay = latency === 0 ? '' : formatDuration(latency);
  if (status === 0)
    return `the client closed the connection before the response${delay && `; an injected fault delayed the response by ${delay}`}`;
  return reasonOf(recorded) + (delay && `, delayed by ${delay}`);
}

function reasonOf(recorded: RecordedRequest): string {
  const { message, asked, keyName, window: { limit, remaining } = {}, isDay } = recorded;
  const window = isDay ? 'day' : 'minute';
  const outcome = outcomeOf(recorded);
  switch (outcome) {
    case 'injected_fault':
      return asked?.source ?? '';
    case 'mocked':
      return `the client asked for this response with ${asked?.source}`;
    case 'banned':
      return 'the key is banned, because requests continued after a 429';
    case 'rate_limited':
      return `the limit of ${limit} requests ${keyName === undefined ? 'without a valid key ' : ''}per ${window} is used up`;
  }
  if (message !== undefined) return message.replace(/\.$/, '');
  if (outcome === 'not_counted') return 'this request needs no key, and is not counted';
  return outcome === 'replayed'
    ? `repeats the response of an earlier request, because both have the same ${header.idempotencyKey}`
    : `counted: ${remaining} of ${limit} requests left in this ${window}`;
}

const formatDuration = (milliseconds: number): string =>
  milliseconds < 1_000 ? `${Math.round(milliseconds)} ms` : `${Math.round(milliseconds / 100) / 10} s`;

function messageOf(headers: readonly string[], { text, bytes, isCutOff }: RecordedBody, redactor: Redactor) {
  const { redact, longest } = redactor;
  const message: { headers: Record<string, string>; body?: string; bodyBytes: number; cutOff?: true } = {
    headers: redactHeaders(headers, redactor),
    // The end of a text that was cut off can be the beginning of a secret, so leave it out.
    ...(bytes > 0 && { body: isCutOff ? redact(text).slice(0, -longest) : redact(text) }),
    bodyBytes: bytes,
    // Whether `body` is only the beginning.
    ...(isCutOff && { cutOff: true }),
  };
  return message;
}

/**
 * The headers without secrets, by their names in lower case. Repeated headers are joined (RFC 9110, 5.3). `lines` has
 * alternately: name, value, name, value.
 */
function redactHeaders(lines: readonly string[], { redact }: Redactor): Record<string, string> {
  // Any name may occur, such as __proto__.
  const headers: Record<string, string> = Object.create(null);
  for (let i = 0; i < lines.length; i += 2) {
    const name = (lines[i] ?? '').toLowerCase();
    const sent = lines[i + 1] ?? '';
    const value = isSecretHeader(name, sent) ? REDACTED : redact(sent);
    const shown = redact(lines[i] ?? '').toLowerCase();
    headers[shown] = shown in headers ? `${headers[shown]}, ${value}` : value;
  }
  return headers;
}
