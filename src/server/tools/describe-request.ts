import { header } from '../../contract/headers.ts';
import type { RecordedBody, RecordedRequest } from './recorder.ts';
import { createTextRedactor, credentialsIn, type Redactor, redactHeaders } from './redact.ts';

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

/** A request as `GET /requests` shows it. It contains no secrets. */
export type DescribedRequest = {
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
  request: Message;
  response?: Message;
};

/** Returns a function that describes recorded requests without `secrets` and without the credentials of each request. */
export function createRequestDescriber(
  secrets: readonly string[],
): (recorded: RecordedRequest) => DescribedRequest {
  // Most requests have the same Authorization header.
  const redactors = new Map<string, Redactor>();
  const redactorFor = (headers: readonly string[]): Redactor => {
    const own = headers.filter((_, i) => i % 2 === 1 && isAuthorization(headers[i - 1])).join(' ');
    let redactor = redactors.get(own);
    if (redactor === undefined) {
      redactor = createTextRedactor([...secrets, ...credentialsIn(own)]);
      redactors.set(own, redactor);
    }
    return redactor;
  };

  return (recorded) => {
    const { context, status, code, headers, body, responseHeaders, responseBody } = recorded;
    const { operation, keyName, client } = context;
    const redactor = redactorFor(headers);
    const { redact } = redactor;
    const outcome = outcomeOf(recorded);
    const isRefused = outcome === 'rate_limited' || outcome === 'banned';
    return {
      id: redact(context.id),
      time: new Date(recorded.time - recorded.milliseconds).toISOString(),
      milliseconds: Math.round(recorded.milliseconds * 10) / 10,
      client,
      method: redact(context.method),
      url: redact(context.url),
      ...(operation !== undefined && { operation }),
      ...(keyName !== undefined && { keyName }),
      status,
      ...(code !== undefined && { code }),
      outcome,
      ...(isRefused && context.window && { until: new Date(context.window.resetAt).toISOString() }),
      request: messageOf(headers, body, redactor),
      ...(responseHeaders && { response: messageOf(responseHeaders, responseBody, redactor) }),
    };
  };
}

const isAuthorization = (name = ''): boolean => /^(proxy-)?authorization$/i.test(name);

function outcomeOf({ context, code, responseHeaders = [] }: RecordedRequest): RequestOutcome {
  if (context.isInjected) return 'injected_fault';
  if (responseHeaders.includes(header.preferenceApplied)) return 'mocked';
  if (code === 'rate_limited') return 'rate_limited';
  if (code === 'key_banned') return 'banned';
  if (responseHeaders.includes(header.idempotencyReplayed)) return 'replayed';
  return context.isCounted ? 'counted' : 'not_counted';
}

function messageOf(headers: readonly string[], body: RecordedBody | undefined, redactor: Redactor): Message {
  const text = textOf(body, redactor);
  return {
    headers: redactHeaders(headers, redactor),
    ...(text !== undefined && { body: text }),
    bodyBytes: body?.bytes ?? 0,
  };
}

/** The recorded text without secrets; undefined if there is no body, or if its text was dropped. */
function textOf(body: RecordedBody | undefined, { redact, longest }: Redactor): string | undefined {
  if (body?.text === undefined || body.bytes === 0) return undefined;
  const isBinary = body.encoding === 'latin1';
  const text = isBinary ? Buffer.from(body.text, 'latin1').toString() : body.text;
  const isCutOff = isBinary && body.bytes > body.text.length;
  // The end of a text that was cut off can be the beginning of a secret.
  return isCutOff ? redact(text).slice(0, -longest) : redact(text);
}
