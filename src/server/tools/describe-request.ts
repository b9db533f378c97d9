import { header } from '../../contract/headers.ts';
import type { RecordedBody, RecordedRequest } from './recorder.ts';
import { createTextRedactor, type Redactor, redactHeaders, withCredentials } from './redact.ts';

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
};

/** A request as `GET /requests` shows it, without secrets. */
export type DescribedRequest = RequestSummary & { request: Message; response?: Message };

/** A request without its headers and bodies. */
export type RequestSummary = {
  id: string;
  time: string;
  milliseconds: number;
  client: string;
  method: string;
  url: string;
  operation?: string;
  keyName?: string;
  status: number;
  code?: string;
  outcome: RequestOutcome;
  until?: string;
};

/** Returns functions that describe recorded requests without `secrets` and without the credentials of each request. */
export function createRequestDescriber(secrets: readonly string[]) {
  const known = createTextRedactor(secrets);
  // Most requests have the same Authorization header.
  const redactors = new Map<string, Redactor>();
  const redactorFor = (headers: readonly string[]): Redactor => {
    const own = headers.filter((_, i) => i % 2 === 1 && isAuthorization(headers[i - 1])).join(' ');
    let redactor = redactors.get(own);
    if (redactor === undefined) {
      redactor = withCredentials(known, own);
      redactors.set(own, redactor);
    }
    return redactor;
  };

  function summarize(recorded: RecordedRequest): RequestSummary {
    const { operation, keyName, client, status, code, headers } = recorded;
    const { redact } = redactorFor(headers);
    const outcome = outcomeOf(recorded);
    const isRefused = outcome === 'rate_limited' || outcome === 'banned';
    return {
      id: redact(recorded.id),
      time: new Date(recorded.time - recorded.milliseconds).toISOString(),
      milliseconds: Math.round(recorded.milliseconds * 10) / 10,
      client,
      method: redact(recorded.method),
      url: redact(recorded.url),
      ...(operation !== '' && { operation }),
      ...(keyName !== '' && { keyName }),
      status,
      ...(code !== '' && { code }),
      outcome,
      ...(isRefused && { until: new Date(recorded.resetAt).toISOString() }),
    };
  }

  function describe(recorded: RecordedRequest): DescribedRequest {
    const { headers, body, responseHeaders, responseBody } = recorded;
    const redactor = redactorFor(headers);
    return {
      ...summarize(recorded),
      request: messageOf(headers, body, redactor),
      ...(responseHeaders.length > 0 && { response: messageOf(responseHeaders, responseBody, redactor) }),
    };
  }

  return { summarize, describe };
}

const isAuthorization = (name = ''): boolean => /^(proxy-)?authorization$/i.test(name);

function outcomeOf({ isCounted, isInjected, code, responseHeaders }: RecordedRequest): RequestOutcome {
  // Compares only names, because a client can choose the value of X-Request-Id.
  const hasHeader = (name: string) => responseHeaders.some((text, i) => i % 2 === 0 && text === name);
  if (isInjected) return 'injected_fault';
  if (hasHeader(header.preferenceApplied)) return 'mocked';
  if (code === 'rate_limited') return 'rate_limited';
  if (code === 'key_banned') return 'banned';
  if (hasHeader(header.idempotencyReplayed)) return 'replayed';
  return isCounted ? 'counted' : 'not_counted';
}

function messageOf(
  headers: readonly string[],
  { text, bytes, isCutOff }: RecordedBody,
  redactor: Redactor,
): Message {
  const { redact, longest } = redactor;
  const hasText = text !== undefined && bytes > 0;
  return {
    headers: redactHeaders(headers, redactor),
    // The end of a text that was cut off can be the beginning of a secret.
    ...(hasText && { body: isCutOff ? redact(text).slice(0, -longest) : redact(text) }),
    bodyBytes: bytes,
  };
}
