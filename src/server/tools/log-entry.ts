import { header } from '../../contract/headers.ts';
import { decodeIdempotencyKey } from '../../contract/idempotency-key.ts';
import { API_PREFIX, operations } from '../../contract/operations.ts';
import { REDACTED } from '../../contract/recorded-text.ts';
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
  operation?: string;
  keyName?: string;
  /** Missing if the client gave up before a response. */
  status?: number;
  code?: string;
  outcome: RequestOutcome;
  because: string;
  until?: string;
  /** The number of the request that this one repeats. */
  again?: number;
};

/** A request as `GET /requests` shows it, without secrets. */
export type DescribedRequest = RequestSummary & {
  request: Message;
  response?: Message;
  /** Why the request cannot be sent again; missing if it can. */
  notAgain?: string;
};

/**
 * Returns functions that describe recorded requests without `secrets` and without the credentials of each request.
 * `originals` has, by the number of each replayed request, the number of the request whose response it got.
 */
export function createRequestDescriber(
  secrets: readonly string[],
  originals: ReadonlyMap<number, number> = new Map(),
) {
  const serviceSecrets = createTextRedactor(secrets);
  // Most requests have the same credentials.
  const redactors = new Map<string, Redactor>();
  const redactorFor = (headers: readonly string[]): Redactor => {
    const own = headers.filter((_, i) => i % 2 === 1 && isCredential(headers[i - 1])).join('\n');
    let redactor = redactors.get(own);
    if (redactor === undefined) {
      redactor = alsoRemoving(serviceSecrets, own.split('\n'));
      redactors.set(own, redactor);
    }
    return redactor;
  };

  function summarize(recorded: RecordedRequest): RequestSummary {
    const { number, operation, keyName, client, status, code, headers } = recorded;
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
      ...(operation !== '' && { operation }),
      ...(keyName !== '' && { keyName }),
      ...(status !== 0 && { status }),
      ...(code !== '' && { code }),
      outcome,
      because: redact(because(recorded, originals.get(number))),
      ...(isRefused && { until: new Date(recorded.resetAt).toISOString() }),
      ...(recorded.again > 0 && { again: recorded.again }),
    };
  }

  function describe(recorded: RecordedRequest): DescribedRequest {
    const { headers, body, responseHeaders, responseBody } = recorded;
    const redactor = redactorFor(headers);
    const summary = summarize(recorded);
    const request = messageOf(headers, body, redactor);
    const isShown = summary.url === recorded.url && (request.body ?? '') === body.text;
    const reason = notAgain(recorded, isShown);
    return {
      ...summary,
      request,
      ...(responseHeaders.length > 0 && { response: messageOf(responseHeaders, responseBody, redactor) }),
      ...(reason !== undefined && { notAgain: reason }),
    };
  }

  /** Describes a request that has no response yet. Times are in milliseconds, `elapsed` by the clock of the request. */
  function describeRunning(
    { context, headers }: RunningRequest,
    now: number,
    elapsed: number,
  ): DescribedRunning {
    const { id, client, method, url, operation, keyName } = context;
    const { redact } = redactorFor(headers);
    const milliseconds = elapsed - context.started;
    return {
      id: redact(id),
      time: new Date(now - milliseconds).toISOString(),
      milliseconds: Math.round(milliseconds * 10) / 10,
      client,
      method: redact(method),
      url: redact(url),
      ...(operation !== undefined && { operation }),
      ...(keyName !== undefined && { keyName }),
    };
  }

  return { summarize, describe, describeRunning, redact: serviceSecrets.redact };
}

/** A request without a response, as `GET /requests` shows it. */
export type DescribedRunning = Pick<
  RequestSummary,
  'id' | 'time' | 'client' | 'method' | 'url' | 'operation' | 'keyName' | 'milliseconds'
>;

export function outcomeOf(recorded: RecordedRequest): RequestOutcome {
  const { isCounted, injected, code, responseHeaders } = recorded;
  if (injected !== '') return 'injected_fault';
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
  { method, url, keyName, headers, body: { text, bytes, isCutOff, isText } }: RecordedRequest,
  isShown: boolean,
): string | undefined {
  const length = headerOf(headers, 'content-length');
  if (method === '-') return 'it is not valid HTTP';
  if (!isUnderApi(splitTarget(method, url).target))
    return `only requests under ${API_PREFIX} can be sent again`;
  const needsKey = method !== 'OPTIONS' || headerOf(headers, header.authorization) !== undefined;
  if (keyName === '' && needsKey) return 'no API key was accepted for it';
  if (text === undefined) return 'its body is not recorded any more';
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
  const { status, milliseconds, latency } = recorded;
  if (status === 0) return `the client gave up after ${formatDuration(milliseconds)}`;
  const delay = latency === 0 ? '' : `, delayed by ${formatDuration(latency)}`;
  return reasonOf(recorded, original) + delay;
}

function reasonOf(recorded: RecordedRequest, original: number | undefined): string {
  const { status, message, injected, keyName, limit, remaining, isDay } = recorded;
  const window = isDay ? 'day' : 'minute';
  const outcome = outcomeOf(recorded);
  switch (outcome) {
    case 'injected_fault':
      return injected;
    case 'mocked':
      return `the client asked for it with ${header.prefer}: ${headerOf(recorded.responseHeaders, header.preferenceApplied)}`;
    case 'banned':
      return 'the key is banned, because requests continued after a 429';
    case 'rate_limited':
      return `${limit} of ${limit} requests ${keyName === '' ? 'without a valid key ' : ''}of this ${window} are used`;
  }
  if (message !== '') return message.replace(/\.$/, '');
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
  const hasText = text !== undefined && bytes > 0;
  return {
    headers: redactHeaders(headers, redactor),
    // The end of a text that was cut off can be the beginning of a secret.
    ...(hasText && { body: isCutOff ? redact(text).slice(0, -longest) : redact(text) }),
    bodyBytes: bytes,
    ...(isCutOff && { cutOff: true }),
  };
}

/** How many characters a character of a secret can take up: backslashes, and `u` with four digits. */
const MAX_ESCAPED = 9;

/** Shorter credentials are not searched for, because they occur in ordinary text. */
const MIN_LENGTH = 6;

/** How many credentials of an Authorization header are searched for. Digest has about ten. */
const MAX_CREDENTIALS = 16;

/**
 * The user and the password in a URL, which can be percent-encoded, or escaped as in JSON. They contain no slash, so that no
 * text is searched twice.
 */
const USER_INFO =
  /((?::|%3a|\\u003a)(?:\\{0,4}\/|%2f|\\u002f){2})(?:(?!%2f|\\u002f)[^/?#\s"])+(@|%40|\\u0040)/gi;

/** The words that name a secret, such as those in X-Api-Key, X-Auth-Token and `?access_token=`. */
const SECRET_WORDS =
  '(?:api|access|auth|private|secret|subscription|functions)[-_.]?key|token|secret|passw(?:or)?d|passphrase|pwd|credentials?|signature|authori[sz]ation|authentication|(?<![a-z])(?:auth|jwt|sig|session|sid|dpop)(?![a-z])';

/** Headers whose values are never shown. */
const SECRET_HEADER = new RegExp(`^(?:proxy-)?authorization$|^(?:set-)?cookie2?$|${SECRET_WORDS}`, 'i');

/** A parameter in a URL whose name has one of these words. The URL can be percent-encoded, or escaped as in JSON. */
const SECRET_PARAMETER = new RegExp(
  String.raw`((?:[?&;]|%3f|%26|\\u003f|\\u0026)(?:[\w.[\]-]|%5b|%5d){0,40}(?:${SECRET_WORDS})(?:[\w.[\]-]|%5b|%5d){0,40}(?:=|%3d|\\u003d))(?:(?!%26|%23|\\u0026)[^&;#\s"])+`,
  'gi',
);

/** A generated API key, also of another service. */
const GENERATED_KEY = new RegExp(
  `${escapable('pets_')}(?:[\\w-]|%(?:25)?[0-9a-f]{2}|\\\\{1,4}u00[0-9a-f]{2}){43}`,
  'gi',
);
const GENERATED_LENGTH = 48;

type Redactor = {
  redact(text: string): string;
  /** How many characters at the end of a text that was cut off can be a part of a secret. */
  longest: number;
};

/**
 * Creates a redactor that removes secrets and all generated API keys, also if they are percent-encoded or escaped as in
 * JSON, and users and passwords in URLs.
 */
export function createTextRedactor(secrets: readonly string[]): Redactor {
  const long = secrets.filter(({ length }) => length >= MIN_LENGTH);
  const patterns = [GENERATED_KEY, ...long.map((secret) => new RegExp(escapable(secret), 'gi'))];
  return {
    redact: (text) =>
      patterns
        .reduce((rest, pattern) => rest.replace(pattern, REDACTED), text)
        .replace(USER_INFO, `$1${REDACTED}$2`)
        .replace(SECRET_PARAMETER, `$1${REDACTED}`),
    longest: MAX_ESCAPED * Math.max(GENERATED_LENGTH, ...long.map(({ length }) => length)),
  };
}

/** Whether a header has credentials, which are removed from everything else in the request and the response. */
const isCredential = (name = ''): boolean => SECRET_HEADER.test(name) && !/cookie/i.test(name);

/**
 * A redactor that also removes the credentials in headers with these values, as clients encode them. They are not searched
 * for with a regular expression, because a client could send credentials for which that takes very long, or which are too
 * long for an expression.
 */
function alsoRemoving({ redact, longest }: Redactor, values: readonly string[]): Redactor {
  const encoded = values
    .flatMap(credentialsIn)
    .slice(0, MAX_CREDENTIALS)
    .flatMap((text) => [text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1)])
    .filter(({ length }) => length >= MIN_LENGTH);
  const forms = [...new Set(encoded)];
  return {
    redact: (text) => redact(forms.reduce((rest, form) => rest.replaceAll(form, REDACTED), text)),
    longest: Math.max(longest, ...forms.map(({ length }) => length)),
  };
}

/** The credentials in the value of a header, such as Authorization: all of its words, except the first one if there are more. */
function credentialsIn(value: string): string[] {
  const words = value.split(/\s+/).filter(Boolean);
  return words.length > 1 ? words.slice(1) : words;
}

/** The source of a regular expression that matches the text, and each of its characters also as an escape. */
function escapable(text: string): string {
  return Array.from(text, (character) => {
    const hex = character.charCodeAt(0).toString(16).padStart(2, '0');
    // The number of backslashes is limited, so that a text of backslashes is not searched in quadratic time.
    return `(?:\\\\{0,4}\\x${hex}|%(?:25)?${hex}|\\\\{1,4}u00${hex})`;
  }).join('');
}

/** The headers by their names in lower case. Repeated headers are joined (RFC 9110, 5.3). `lines` has alternately: name, value, name, value. */
function redactHeaders(lines: readonly string[], { redact }: Redactor): Record<string, string> {
  // Any name may occur, such as __proto__.
  const headers: Record<string, string> = Object.create(null);
  for (let i = 0; i < lines.length; i += 2) {
    const name = (lines[i] ?? '').toLowerCase();
    const value = SECRET_HEADER.test(name) ? REDACTED : redact(lines[i + 1] ?? '');
    const shown = redact(lines[i] ?? '').toLowerCase();
    headers[shown] = shown in headers ? `${headers[shown]}, ${value}` : value;
  }
  return headers;
}
