import { header } from '../../contract/headers.ts';
import { decodeIdempotencyKey } from '../../contract/idempotency-key.ts';
import { API_PREFIX, operations } from '../../contract/operations.ts';
import { REDACTED } from '../../contract/recorded-text.ts';
import { createRequestRedactors, isSecretHeader, type Redactor } from '../redact.ts';
import { isUnderApi, splitTarget } from '../request/input.ts';
import type { RecordedBody, RecordedRequest, RunningRequest } from './recorder.ts';

/** What the service did with a request (docs/service.md 13.1). */
export type RequestOutcome =
  | 'counted'
  | 'replayed'
  | 'rate_limited'
  | 'banned'
  | 'injected_fault'
  | 'mocked'
  | 'not_counted';

type Message = {
  headers: Record<string, string>;
  body?: string;
  bodyBytes: number;
  /** Whether `body` is only the beginning. */
  cutOff?: true;
};

/** A request without its headers and bodies. */
export type RequestSummary = {
  number: number;
  id: string;
  time: string;
  milliseconds: number;
  client: string;
  method: string;
  url: string;
  operation?: string | undefined;
  keyName?: string | undefined;
  /** Missing if the client gave up before a response. */
  status?: number | undefined;
  code?: string | undefined;
  outcome: RequestOutcome;
  because: string;
  until?: string | undefined;
  /** The number of the request that this one repeats. */
  again?: number | undefined;
};

/** A request as `GET /requests` shows it, without secrets. */
export type DescribedRequest = RequestSummary & {
  request: Message;
  response?: Message | undefined;
  /** Why the request cannot be sent again; missing if it can. */
  notAgain?: string | undefined;
};

/**
 * Returns functions that describe recorded requests without `secrets` and without the credentials of each request.
 * `originals` has, by the number of each replayed request, the number of the request whose response it got.
 */
export function createRequestDescriber(
  secrets: readonly string[],
  originals: ReadonlyMap<number, number> = new Map(),
) {
  const redactorFor = createRequestRedactors(secrets);

  function summarize(recorded: RecordedRequest): RequestSummary {
    const { number, operation, keyName, client, code, again, headers, window } = recorded;
    const { redact } = redactorFor(headers);
    const outcome = outcomeOf(recorded);
    const isRefused = outcome === 'rate_limited' || outcome === 'banned';
    return {
      number,
      id: redact(recorded.id),
      time: new Date(recorded.time - recorded.milliseconds).toISOString(),
      milliseconds: Math.round(recorded.milliseconds * 10) / 10,
      client,
      method: redact(recorded.method),
      url: redact(recorded.url),
      operation,
      keyName,
      status: recorded.status || undefined,
      code,
      outcome,
      because: redact(because(recorded, originals.get(number))),
      until: isRefused && window ? new Date(window.resetAt).toISOString() : undefined,
      again,
    };
  }

  function describe(recorded: RecordedRequest): DescribedRequest {
    const { headers, body, responseHeaders, responseBody } = recorded;
    const redactor = redactorFor(headers);
    const summary = summarize(recorded);
    const request = messageOf(headers, body, redactor);
    const isShown = summary.url === recorded.url && (request.body ?? '') === body.text;
    return {
      ...summary,
      request,
      response: responseHeaders.length > 0 ? messageOf(responseHeaders, responseBody, redactor) : undefined,
      notAgain: notAgain(recorded, isShown),
    };
  }

  /** Describes a request that has no response yet. Times are in milliseconds, `elapsed` by the clock of the request. */
  function describeRunning({ context }: RunningRequest, now: number, elapsed: number): DescribedRunning {
    const { id, client, method, url, operation, keyName } = context;
    const { redact } = redactorFor(context.sentHeaders);
    const milliseconds = elapsed - context.started;
    return {
      id: redact(id),
      time: new Date(now - milliseconds).toISOString(),
      milliseconds: Math.round(milliseconds * 10) / 10,
      client,
      method: redact(method),
      url: redact(url),
      operation,
      keyName,
    };
  }

  return { summarize, describe, describeRunning, redact: redactorFor([]).redact };
}

/** A request without a response, as `GET /requests` shows it. */
export type DescribedRunning = Pick<
  RequestSummary,
  'id' | 'time' | 'client' | 'method' | 'url' | 'operation' | 'keyName' | 'milliseconds'
>;

export function outcomeOf(recorded: RecordedRequest): RequestOutcome {
  const { isCounted, injected, code, responseHeaders } = recorded;
  if (injected !== undefined) return 'injected_fault';
  if (headerOf(responseHeaders, header.preferenceApplied)) return 'mocked';
  if (code === 'rate_limited') return 'rate_limited';
  if (code === 'key_banned') return 'banned';
  if (headerOf(responseHeaders, header.idempotencyReplayed)) return 'replayed';
  return isCounted ? 'counted' : 'not_counted';
}

/** The value of the only header with this name; undefined if there are none or several. */
export function headerOf(headers: readonly string[], name: string): string | undefined {
  const values = headers.filter(
    (_, i) => i % 2 === 1 && headers[i - 1]?.toLowerCase() === name.toLowerCase(),
  );
  return values.length === 1 ? values[0] : undefined;
}

/** Why a request cannot be sent again (docs/service.md 13.1); undefined if it can. `isShown`: without a redacted secret. */
function notAgain(
  { method, url, keyName, headers, body: { bytes, isCutOff, isText } }: RecordedRequest,
  isShown: boolean,
): string | undefined {
  const length = headerOf(headers, 'content-length');
  if (method === '-') return 'it is not valid HTTP';
  if (!isUnderApi(splitTarget(method, url).target))
    return `only requests under ${API_PREFIX} can be sent again`;
  const needsKey = method !== 'OPTIONS' || headerOf(headers, header.authorization) !== undefined;
  if (keyName === undefined && needsKey) return 'no API key was accepted for it';
  if (isCutOff) return 'only the beginning of its body is recorded';
  if (length !== undefined && Number(length) !== bytes) return 'its body did not arrive completely';
  if (!isText) return 'its body is not text';
  return isShown ? undefined : 'a secret in it is not shown';
}

/** Finds the original of each replayed request. `all` are the newest first. */
export function findOriginals(all: readonly RecordedRequest[]): Map<number, number> {
  const originals = new Map<number, number>();
  const creations = new Map<string, number>();
  for (const recorded of all.toReversed()) {
    const { number, keyName, headers, status } = recorded;
    const key = headerOf(headers, header.idempotencyKey);
    if (key === undefined || status !== operations.createPet.success.status) continue;
    const creation = JSON.stringify([keyName, decodeIdempotencyKey(key)]);
    const original = creations.get(creation);
    if (outcomeOf(recorded) === 'counted') creations.set(creation, number);
    else if (original !== undefined) originals.set(number, original);
  }
  return originals;
}

/**
 * Why a request got its response, in one sentence without the status and without a full stop (docs/service.md 13.1).
 * If it is the response to an earlier request, `original` is the number of that request, if it is still in the log.
 */
export function because(recorded: RecordedRequest, original: number | undefined): string {
  const { status, latency } = recorded;
  const delay = latency === 0 ? '' : formatDuration(latency);
  if (status === 0)
    return `the client had closed the connection${delay && `; your faults delayed the response by ${delay}`}`;
  return reasonOf(recorded, original) + (delay && `, delayed by ${delay}`);
}

function reasonOf(recorded: RecordedRequest, original: number | undefined): string {
  const { status, message, injected, keyName, window: { limit, remaining } = {}, isDay } = recorded;
  const window = isDay ? 'day' : 'minute';
  const outcome = outcomeOf(recorded);
  switch (outcome) {
    case 'injected_fault':
      return injected ?? '';
    case 'mocked':
      return `the client asked for it with ${header.prefer}: ${headerOf(recorded.responseHeaders, header.preferenceApplied)}`;
    case 'banned':
      return 'the key is banned, because requests continued after a 429';
    case 'rate_limited':
      return `${limit} of ${limit} requests ${keyName === undefined ? 'without a valid key ' : ''}of this ${window} are used`;
  }
  if (message !== undefined) return message.replace(/\.$/, '');
  if (status >= 400) return 'the request did not arrive completely, or is not valid HTTP';
  if (outcome === 'not_counted') return 'needs no key, and is not counted';
  return outcome === 'replayed'
    ? `the same response as ${original === undefined ? 'an earlier request' : `request ${original}`}, by its ${header.idempotencyKey}`
    : `counted: ${remaining} of ${limit} requests are left in this ${window}`;
}

const formatDuration = (milliseconds: number): string =>
  milliseconds < 1_000 ? `${Math.round(milliseconds)} ms` : `${Math.round(milliseconds / 100) / 10} s`;

function messageOf(
  headers: readonly string[],
  { text, bytes, isCutOff }: RecordedBody,
  redactor: Redactor,
): Message {
  const { redact, longest } = redactor;
  return {
    headers: redactHeaders(headers, redactor),
    // The end of a text that was cut off can be the beginning of a secret.
    ...(bytes > 0 && { body: isCutOff ? redact(text).slice(0, -longest) : redact(text) }),
    bodyBytes: bytes,
    ...(isCutOff && { cutOff: true }),
  };
}

/** The headers by their names in lower case. Repeated headers are joined (RFC 9110, 5.3). `lines` has alternately: name, value, name, value. */
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
