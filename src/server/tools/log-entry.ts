import { randomUUID } from 'node:crypto';
import { header } from '../../contract/headers.ts';
import { API_PREFIX } from '../../contract/operations.ts';
import { REDACTED } from '../../contract/recorded-text.ts';
import { ignoredPreferences } from '../mocks.ts';
import { createRequestRedactors, isSecretHeader, type Redactor } from '../redact.ts';
import { isUnderApi, splitTarget } from '../request/input.ts';
import type { RequestRecord } from '../request/record.ts';
import { bodyText } from './recorder.ts';

export type Describer = ReturnType<typeof createRequestDescriber>;
/** An object as it is sent: JSON leaves out fields that are undefined. */
type Sent<Shape> = {
  [Name in keyof Shape as undefined extends Shape[Name] ? Name : never]?: Shape[Name];
} & { [Name in keyof Shape as undefined extends Shape[Name] ? never : Name]: Shape[Name] };
export type RequestSummary = Sent<ReturnType<Describer['summarize']>>;
/** A request as `GET /requests` shows it, without secrets. */
export type DescribedRequest = Sent<ReturnType<Describer['describe']>>;

/** Returns functions that describe recorded requests without `secrets` and without the credentials of each request. */
export function createRequestDescriber(secrets: readonly string[]) {
  const redactorFor = createRequestRedactors(secrets);

  function summarize(recorded: RequestRecord, redactor = redactorFor(recorded.sentHeaders)) {
    const { id, number, time, milliseconds, status, code, sentHeaders, window, latency } = recorded;
    const { foreignOrigin } = recorded;
    const { redact, redactSentence } = redactor;
    const outcome = outcomeOf(recorded);
    const isRefused = outcome === 'rate_limited' || outcome === 'banned';
    const prefer = singleHeader(sentHeaders, header.prefer);
    return {
      number,
      id: redact(id),
      time: new Date(time - milliseconds).toISOString(),
      milliseconds: Math.round(milliseconds * 10) / 10,
      client: recorded.client,
      method: redact(recorded.method),
      url: redact(recorded.url),
      operation: recorded.operation,
      keyName: recorded.keyName,
      /** Missing if the client gave up before a response. */
      status: status || undefined,
      code,
      outcome,
      because: redactSentence(describeReason(recorded, outcome)),
      until: isRefused && window ? new Date(window.resetAt).toISOString() : undefined,
      delay: latency || undefined,
      rule: recorded.rule,
      ignored: (prefer === undefined ? '' : redact(ignoredPreferences(prefer))) || undefined,
      foreignOrigin: foreignOrigin === undefined ? undefined : redact(foreignOrigin),
      again: Number(AGAIN_ID.exec(id)?.[1]) || undefined,
    };
  }

  function describe(recorded: RequestRecord) {
    const { sentHeaders, responseHeaders, code } = recorded;
    const redactor = redactorFor(sentHeaders);
    const { redact, redactResponse, redactSentence } = redactor;
    const summary = summarize(recorded, redactor);
    const body = bodyText(recorded.body);
    const request = messageOf(redactHeaders(sentHeaders, redactor, true), body, redact, redactor.longest);
    const isShown = summary.url === recorded.url && (request.body ?? '') === body.text;
    const headers = redactHeaders(responseHeaders, redactor, false);
    // The body of an error is a sentence of the service.
    const redactBody = code === undefined ? redactResponse : redactSentence;
    const response = messageOf(headers, bodyText(recorded.responseBody), redactBody, redactor.longest);
    return {
      ...summary,
      request,
      response: responseHeaders.length > 0 ? response : undefined,
      /** Why the request cannot be sent again; missing if it can. */
      notAgain: notAgain(recorded, body, isShown),
    };
  }

  return { summarize, describe };
}

/** The id of a request that repeats the one with this number (`POST /requests`). */
export const againId = (number: number): string => `again-${number}-${randomUUID()}`;
const AGAIN_ID = /^again-(\d{1,9})-/;

/** What the service did with a request (docs/testing.md). */
function outcomeOf({ isCounted, asked, code, responseHeaders }: RequestRecord) {
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
  { method, url, keyName, sentHeaders }: RequestRecord,
  { bytes, isCutOff, isText }: ReturnType<typeof bodyText>,
  isShown: boolean,
): string | undefined {
  const length = singleHeader(sentHeaders, 'content-length');
  if (method === '-') return 'it is not valid HTTP';
  if (!isUnderApi(splitTarget(method, url).target))
    return `only requests under ${API_PREFIX} can be sent again`;
  if (keyName === undefined && method !== 'OPTIONS') return 'no API key was accepted for it';
  const isWhole = !isCutOff && (length === undefined || Number(length) === bytes);
  if (!isWhole) return 'its body was not recorded completely';
  if (!isText) return 'its body is not text';
  return isShown ? undefined : 'a secret in its URL or body was redacted';
}

/** An origin that `--cors` accepts, without characters that mean something to a shell. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[\w.-]+(?::\d+)?$/i;

/** Why a request got its response, in one sentence without the status and without a full stop (docs/testing.md). */
function describeReason(request: RequestRecord, outcome: ReturnType<typeof outcomeOf>): string {
  const { status, message, asked, keyName, window, isDay, foreignOrigin } = request;
  const { limit, remaining } = window ?? {};
  const unit = isDay ? 'day' : 'minute';
  if (status === 0) return 'the client closed the connection before the response';
  if (foreignOrigin !== undefined && ORIGIN.test(foreignOrigin))
    return `origin ${foreignOrigin} refused; start with --cors ${foreignOrigin}`;
  switch (outcome) {
    case 'injected_fault':
      return asked?.source ?? '';
    case 'mocked':
      return `the client asked for this response with ${asked?.source}`;
    case 'banned':
      return 'the key is banned, because requests continued after a 429';
    case 'rate_limited':
      return `the limit of ${grouped(limit)} requests ${keyName === undefined ? 'without a valid key ' : ''}per ${unit} is used up`;
  }
  if (message !== undefined) return message.replace(/\.$/, '');
  if (outcome === 'not_counted') return 'this request needs no key, and is not counted';
  return outcome === 'replayed'
    ? `repeats the response of an earlier request, because both have the same ${header.idempotencyKey}`
    : `counted: ${grouped(remaining)} of ${grouped(limit)} requests left in this ${unit}`;
}

const grouped = (value = 0): string => value.toLocaleString('en-US');

const messageOf = (
  headers: Record<string, string>,
  { text, bytes, isCutOff }: ReturnType<typeof bodyText>,
  redact: (text: string) => string,
  longest: number,
): { headers: Record<string, string>; body?: string; bodyBytes: number; cutOff?: true } => ({
  headers,
  // The end of a text that was cut off can be the beginning of a secret, so leave it out.
  ...(bytes > 0 && { body: isCutOff ? redact(text).slice(0, -longest) : redact(text) }),
  bodyBytes: bytes,
  ...(isCutOff && { cutOff: true }),
});

/**
 * The headers without secrets, by their names in lower case. Repeated headers are joined (RFC 9110, 5.3). `lines` has
 * alternately: name, value, name, value.
 */
function redactHeaders(
  lines: readonly string[],
  { redact, redactResponse }: Redactor,
  isOfRequest: boolean,
): Record<string, string> {
  // Any name may occur, such as __proto__.
  const headers: Record<string, string> = Object.create(null);
  for (let i = 0; i < lines.length; i += 2) {
    const name = (lines[i] ?? '').toLowerCase();
    const sent = lines[i + 1] ?? '';
    // In `Prefer: code=503`, `code` is a status.
    const clean = isOfRequest && name !== 'prefer' ? redact : redactResponse;
    const value = isSecretHeader(name, sent, isOfRequest) ? REDACTED : clean(sent);
    const shown = redact(lines[i] ?? '').toLowerCase();
    headers[shown] = shown in headers ? `${headers[shown]}, ${value}` : value;
  }
  return headers;
}
