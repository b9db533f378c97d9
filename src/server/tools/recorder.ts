import { isUtf8 } from 'node:buffer';
import { randomBytes, randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { API_PREFIX, type ErrorCode } from '../../contract/api.ts';
import { header } from '../../contract/headers.ts';
import { MAX_FOREIGN_REQUESTS, MAX_RECORDED_REQUESTS, REDACTED } from '../../contract/recorded-text.ts';
import type { RateLimitWindow } from '../../store/limiter.ts';
import { ignoredPreferences, type RequestedMock } from '../mocks.ts';
import { isUnderApi, splitTarget } from '../request/input.ts';
import type { SentResponse } from '../response.ts';

/** The beginning of a body; each character is one byte. `bytes` is the size of the whole body. */
export type RecordedBody = { latin1: string; bytes: number };

const NO_BODY: RecordedBody = { latin1: '', bytes: 0 };

/**
 * What the access log and the developer tools show of a request. It contains secrets, which `createRequestDescriber` removes.
 * Each step of `createApp` adds what it finds out, so that the record is useful even if a later step fails.
 */
export type RequestRecord = ReturnType<typeof createRecord>;

/**
 * The record of a request that arrived at `started` (`clock.elapsed()`), or, without a method, of bytes that are no request.
 * `client`: an IP address; `rule`: the number of a fault rule; `latency`: the injected delay; `window`: what headers report.
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
  mock: undefined as RequestedMock | undefined,
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
  /** About how much memory the texts need, in bytes. */
  size: 0,
});

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
    const request = toMessage(redactHeaders(sentHeaders, redactor, true), body, redact, redactor.longest);
    const isShown = summary.url === recorded.url && (request.body ?? '') === body.text;
    const headers = redactHeaders(responseHeaders, redactor, false);
    // The body of an error is a sentence of the service.
    const redactBody = code === undefined ? redactResponse : redactSentence;
    const response = toMessage(headers, bodyText(recorded.responseBody), redactBody, redactor.longest);
    return {
      ...summary,
      request,
      response: responseHeaders.length > 0 ? response : undefined,
      /** Why the request cannot be sent again; missing if it can. */
      notAgain: whyNotAgain(recorded, body, isShown),
    };
  }

  return { summarize, describe };
}

/** The id of a request that repeats the one with this number (`POST /requests`). */
export const createRepeatId = (number: number): string => `again-${number}-${randomUUID()}`;
const AGAIN_ID = /^again-(\d{1,9})-/;

/** What the service did with a request (docs/testing.md). */
function outcomeOf({ isCounted, mock, code, responseHeaders }: RequestRecord) {
  if (mock) return mock.applied === undefined ? 'injected_fault' : 'mocked';
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
function whyNotAgain(
  { method, url, keyName, sentHeaders }: RequestRecord,
  { bytes, isCutOff, isText }: ReturnType<typeof bodyText>,
  isShown: boolean,
): string | undefined {
  const length = singleHeader(sentHeaders, 'content-length');
  if (method === '-') return 'its method and URL were not recorded';
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

/** Why a request got its response: usually one sentence, without its status and its last full stop (docs/testing.md). */
function describeReason(request: RequestRecord, outcome: ReturnType<typeof outcomeOf>): string {
  const { status, code, message, mock, keyName, window, isDay, foreignOrigin } = request;
  const { limit, remaining } = window ?? {};
  const unit = isDay ? 'day' : 'minute';
  if (status === 0) return 'the client closed the connection before the response';
  if (foreignOrigin !== undefined && ORIGIN.test(foreignOrigin) && code !== 'forbidden')
    return `browsers do not let pages of ${foreignOrigin} read this response; to allow it, start pets serve with --cors ${foreignOrigin}`;
  switch (outcome) {
    case 'injected_fault':
      return mock?.source ?? '';
    case 'mocked':
      return `the client asked for this response with ${mock?.source}`;
    case 'banned':
      return 'the key is banned, because requests continued after a 429';
    case 'rate_limited':
      return `the limit of ${formatCount(limit)} requests ${keyName === undefined ? 'without a valid key ' : ''}per ${unit} is used up`;
  }
  if (message !== undefined) return message.replace(/\.$/, '');
  if (outcome === 'not_counted') return 'this request needs no key, and is not counted';
  return outcome === 'replayed'
    ? `repeats the response of an earlier request, because both have the same ${header.idempotencyKey}`
    : `counted: ${formatCount(remaining)} of ${formatCount(limit)} requests left in this ${unit}`;
}

const formatCount = (value = 0): string => value.toLocaleString('en-US');

const toMessage = (
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
 * names and values in turn.
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
    // In `Prefer: code=503`, `code` is a status and not a secret.
    const clean = isOfRequest && name !== 'prefer' ? redact : redactResponse;
    const value = isSecretHeader(name, sent, isOfRequest) ? REDACTED : clean(sent);
    const shown = redact(lines[i] ?? '').toLowerCase();
    headers[shown] = shown in headers ? `${headers[shown]}, ${value}` : value;
  }
  return headers;
}

/** Shorter secrets are not searched for, because they occur in ordinary text. */
const MIN_LENGTH = 6;

/** The maximum length of one encoded character of a secret: two backslashes, `u` and four digits. */
const MAX_ENCODED = 7;

/** The words that name a secret, such as those in X-Api-Key, `?access_token=` and `{"password":…}`. */
const SECRET_WORDS =
  '(?:api|access|auth|private|secret|subscription|functions)[-_.]?key|token|secret|passw(?:or)?d|passphrase|pwd|credentials?|signature|authori[sz]ation|authentication|(?<![a-z])(?:auth|jwt|sig|session|sid|dpop)(?![a-z])';

/** Whole names of secrets in requests. In responses, and as parts of longer names, they often name other things. */
const SECRET_NAMES = '(?:code|pass|(?:x-)?(?:otp|pin|key))';

const SECRET_HEADER = new RegExp(`^(?:set-)?cookie2?$|${SECRET_WORDS}`, 'i');
const SECRET_REQUEST_HEADER = new RegExp(`^${SECRET_NAMES}$`, 'i');
/** The beginning of a value that is secret in any header: a scheme, after which the credentials follow. */
const CREDENTIALS = /^\s*(?:bearer|basic)\s/i;

export const isSecretHeader = (name: string, value: string, isOfRequest = true): boolean =>
  SECRET_HEADER.test(name) || CREDENTIALS.test(value) || (isOfRequest && SECRET_REQUEST_HEADER.test(name));

/** A generated API key, even one of another service. */
const GENERATED_KEY = /pets_[\w-]{43}/gi;
const GENERATED_LENGTH = 48;

/** The user and the password in a URL. No match continues past a slash, so that the search takes linear time. */
const USER_INFO = /:\/\/[^/?#\s"]+@/g;

const NAME = String.raw`[\w.[\]-]{0,40}(?:${SECRET_WORDS})[\w.[\]-]{0,40}`;
const MEMBER_VALUE = String.raw`\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[{[][^]*|[^\s",{}[\]]+)`;
/**
 * Patterns for values that are named like a secret: members of JSON objects, and parameters of URLs and of forms. If the
 * value of a member is an object or array, the rest of the text is replaced.
 */
const namedBy = (name: string, parameter: string): [pattern: RegExp, replacement: string][] => [
  [new RegExp(`("(?:${name})"${MEMBER_VALUE}`, 'gi'), `$1"${REDACTED}"`],
  [new RegExp(String.raw`((?:${parameter})=)[^&;#\s"]+`, 'gi'), `$1${REDACTED}`],
];
const WORD_PARAMETER = String.raw`(?:^|[\s?&;+])${NAME}`;
const NAMED = namedBy(NAME, WORD_PARAMETER);
const NAMED_IN_REQUEST = namedBy(`${NAME}|${SECRET_NAMES}`, `${WORD_PARAMETER}|(?:^|[?&;])${SECRET_NAMES}`);

const SEPARATOR = /([\s&?;"]+)/;

type Redactor = ReturnType<ReturnType<typeof createRequestRedactors>>;

/**
 * Returns a function that creates the redactor of a request from its headers. `GET /requests` and `--log` use it
 * (docs/testing.md). The redactor replaces the credentials in the headers, `secrets`, all generated API keys, users and
 * passwords in URLs, and the values of parameters, of form fields and of members of JSON objects that are named like a
 * secret. If a secret appears only after decoding, the part with the secret, or the whole text, is replaced.
 */
export function createRequestRedactors(secrets: readonly string[]) {
  const fixed = searchable(secrets);

  return (headers: readonly string[] = []) => {
    const all = [...fixed, ...searchable(credentialsOf(headers))];
    return {
      /** Redacts a text that the client has sent. */
      redact: redactorOf(all, NAMED_IN_REQUEST),
      redactResponse: redactorOf(all, NAMED),
      /** Redacts a sentence of the service. Words in it that equal a credential of the client stay. */
      redactSentence: redactorOf(fixed, []),
      /** How many characters at the end of a text that was cut off can be a part of a secret. */
      longest: MAX_ENCODED * Math.max(GENERATED_LENGTH, ...all.map(({ length }) => length)),
    };
  };
}

/** Returns a function that replaces secrets in a text, and the values that are named like one. */
function redactorOf(secrets: readonly string[], named: typeof NAMED) {
  const replace = (text: string): string => {
    const rest = secrets.reduce((rest, secret) => rest.replaceAll(secret, REDACTED), text);
    const withoutKeys = rest.replace(GENERATED_KEY, REDACTED).replace(USER_INFO, `://${REDACTED}@`);
    return named.reduce((rest, [pattern, replacement]) => rest.replace(pattern, replacement), withoutKeys);
  };
  const isClean = (text: string): boolean => {
    const decoded = decode(text);
    return replace(decoded) === decoded;
  };
  return (text: string): string => {
    const replaced = replace(text);
    if (isClean(replaced)) return replaced;
    const parts = replaced.split(SEPARATOR).map((part) => (isClean(part) ? part : REDACTED));
    const joined = parts.join('');
    return isClean(joined) ? joined : REDACTED;
  };
}

/** The secrets to search for, as they are and decoded, because texts are also searched after they are decoded. */
const searchable = (secrets: readonly string[]): string[] =>
  [...new Set([...secrets, ...secrets.map(decode)])].filter(({ length }) => length >= MIN_LENGTH);

/** How many credentials of a request are searched for. A Digest header has about ten. */
const MAX_CREDENTIALS = 16;

/** The credentials in the headers of a request, except cookies. */
const credentialsOf = (headers: readonly string[]): string[] =>
  headers
    .filter((value, i) => {
      const name = headers[i - 1] ?? '';
      return i % 2 === 1 && isSecretHeader(name, value) && !/cookie/i.test(name);
    })
    .flatMap(credentialsIn)
    .slice(0, MAX_CREDENTIALS);

/** The credentials in the value of a header: its only word, or all words after the first, which is the scheme. */
function credentialsIn(value: string): string[] {
  const words = value.split(/\s+/).filter(Boolean);
  return words.length > 1 ? words.slice(1) : words;
}

/** Decodes percent-encoding and the escapes of JSON, even if a text was encoded twice. The result is in lower case. */
function decode(text: string): string {
  const once = (encoded: string): string =>
    encoded.replace(/(?:%|\\u00)([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return once(once(text)).replaceAll('\\', '').toLowerCase();
}

/** The longest beginning of a body that `GET /requests` shows, in bytes (docs/testing.md). */
export const MAX_RECORDED_BODY = 16 * 1024;

/** The most memory for the headers and the beginnings of the bodies of all kept requests. */
const MAX_BYTES = 24 * 1024 * 1024;

const CURSOR = /^([0-9a-f]{8})-(\d{1,15})$/;

export type Recorder = ReturnType<typeof createRecorder>;

/** Keeps the latest requests in memory for `GET /requests` (docs/testing.md). */
export function createRecorder() {
  // Distinguishes cursors of this log from those before a restart or `clear`.
  let logId = randomBytes(4).toString('hex');
  /** The requests in the log, the oldest first, and the sum of their sizes. */
  let records: RequestRecord[] = [];
  let bytes = 0;
  let count = 0;

  return {
    add(record: RequestRecord, sent: SentResponse | undefined): void {
      record.number = ++count;
      if (sent && record.method !== 'HEAD') record.responseBody = bodyOf(sent);
      record.size +=
        record.url.length +
        lengthOf(record.sentHeaders) +
        lengthOf(record.responseHeaders) +
        record.responseBody.latin1.length;
      records.push(record);
      bytes += record.size;
      if (record.foreignOrigin !== undefined) {
        const foreign = records.filter((recorded) => recorded.foreignOrigin !== undefined);
        if (foreign[0] && foreign.length > MAX_FOREIGN_REQUESTS) {
          bytes -= foreign[0].size;
          records.splice(records.indexOf(foreign[0]), 1);
        }
      }
      while (records.length > MAX_RECORDED_REQUESTS || bytes > MAX_BYTES) bytes -= records.shift()?.size ?? 0;
    },

    find: (number: number) => records.find((record) => record.number === number),

    /** The requests after a number, the newest first. */
    after: (number: number) => records.filter((record) => record.number > number).reverse(),

    /** Empties the log. The numbers continue. With an earlier cursor, a client gets all requests that are added later. */
    clear(): void {
      logId = randomBytes(4).toString('hex');
      records = [];
      bytes = 0;
    },

    /** Changes if the log is no longer the continuation of what was read before. */
    logId: () => logId,

    cursor: (): string => `${logId}-${count}`,

    /** The number of the last request before a cursor; 0 if the cursor is of an earlier log, undefined if invalid. */
    numberAt(cursor: string): number | undefined {
      const [, id, number] = CURSOR.exec(cursor) ?? [];
      if (number === undefined) return undefined;
      return id === logId ? Number(number) : 0;
    },
  };
}

/** Records the beginning of the body of a request while it is read. */
export function recordBody(record: RequestRecord, request: IncomingMessage): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  if (length === undefined && coding === undefined) return;
  // Count the largest size now, because the rest of the body may arrive after the response.
  record.size = MAX_RECORDED_BODY;
  // Listening to `data` would start to read the body, so wait until the service reads it, or Node after the response.
  request.once('resume', () => {
    request.on('data', (chunk: Buffer) => {
      const { latin1, bytes } = record.body;
      const more = chunk.toString('latin1', 0, MAX_RECORDED_BODY - latin1.length);
      record.body = { latin1: latin1 + more, bytes: bytes + chunk.length };
    });
  });
}

function lengthOf(texts: readonly string[]): number {
  let length = 0;
  for (const text of texts) length += text.length;
  return length;
}

function bodyOf({ body, encoding, bytes }: SentResponse): RecordedBody {
  if (encoding === 'latin1' && bytes <= MAX_RECORDED_BODY) return { latin1: body, bytes };
  // A part of a string would keep the whole string in memory, so make a new one.
  const beginning = Buffer.from(body.slice(0, MAX_RECORDED_BODY), encoding);
  return { latin1: beginning.toString('latin1', 0, MAX_RECORDED_BODY), bytes };
}

/** The recorded beginning of a body, whether it is only the beginning, and whether it is UTF-8. */
export function bodyText({ latin1, bytes }: RecordedBody) {
  const beginning = Buffer.from(latin1, 'latin1');
  return {
    ...{ text: beginning.toString(), bytes },
    ...{ isCutOff: beginning.length < bytes, isText: isUtf8(beginning) },
  };
}
