import {
  ApiFailure,
  ContractError,
  hasSuccessStatus,
  NetworkError,
  OutcomeUnknownError,
  ProtocolError,
  ProxyError,
  RateLimitError,
  RedirectError,
  TimeoutError,
} from '../../client/errors.ts';
import { StoreError, type StoreErrorCode } from '../../store/errors.ts';
import type { Clock } from '../../system/clock.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import {
  CliError,
  NOT_HTTPS,
  ONLY_HTTP2,
  OTHER_TLS_VERSION,
  systemReason,
  TLS_REFUSED,
  UNKNOWN_ISSUER,
} from '../core/errors.ts';
import { type CliErrorCode, exitCodes, type UserError, userError } from '../core/exit-codes.ts';
import { shellQuote } from '../core/shell-words.ts';
import { type Console, OutputError } from '../output/console.ts';
import { maskKey, redactKey } from '../output/redact.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { cutToWidth } from '../output/text.ts';
import { formatDeadline, formatIso } from '../output/time.ts';
import {
  type Connection,
  DEFAULT_PORT,
  isLoopbackUrl,
  listAllCommand,
  type ProxySetting,
  portOf,
  proxyLabel,
} from '../profiles/profile.ts';

/** An error, and the connection that was used. The API key is redacted from the message, but not from the `cause`. */
export class CallError extends Error {
  readonly connection: Connection;

  readonly proxy: ProxySetting | undefined;

  /** A variable such as ALL_PROXY that the user has set, but pets does not support. */
  readonly ignoredProxy: string | undefined;

  /** Replaces the hint that `describeError` would choose. */
  readonly hint: string | undefined;

  constructor(
    cause: unknown,
    connection: Connection,
    {
      proxy,
      ignoredProxy,
      hint,
    }: { proxy?: ProxySetting | undefined; ignoredProxy?: string | undefined; hint?: string } = {},
  ) {
    super(redactKey(cause instanceof Error ? cause.message : String(cause), connection.key), { cause });
    this.connection = connection;
    this.proxy = proxy;
    this.ignoredProxy = ignoredProxy;
    this.hint = hint;
  }
}

/** The time and the time zone for deadlines, and the platform whose shell must understand the commands in hints. */
type ErrorContext = {
  clock: Clock;
  platform: NodeJS.Platform;
  console: Pick<Console, 'timeZone'>;
};

/** Converts any error into a message, a hint and an exit code. Nothing else in the program does this. */
export function describeError(error: unknown, context: ErrorContext): UserError {
  if (!(error instanceof CallError)) return describeOwn(error) ?? unexpected(error);
  const { cause, connection } = error;
  const { code, message, hint, ...rest } =
    describeOwn(cause) ?? describeCallError(cause, error, context) ?? unexpected(cause);
  // The service may have included the API key in its error, and the output of pets may end up in a log.
  const { key } = connection;
  return { ...rest, code: redactKey(code, key), message: redactKey(message, key), hint: error.hint ?? hint };
}

function describeOwn(error: unknown): UserError | undefined {
  if (error instanceof CliError) {
    const { code, message, hint, mayHaveBeenAdded } = error;
    return userError(code, message, { hint, mayHaveBeenAdded });
  }
  if (error instanceof StoreError) {
    const { code, message, hint } = error;
    return userError(STORE_CODES[code] ?? 'store_error', message, { hint: STORE_HINTS[code] ?? hint });
  }
  if (error instanceof InterruptedError) return userError('interrupted', 'interrupted');
  if (error instanceof OutputError)
    return userError('output_error', `cannot write ${error.file ?? 'the output'}: ${error.message}`, {
      hint: `${isDiskFull(error) ? 'free some disk space, or ' : ''}write the output somewhere else`,
    });
  return undefined;
}

const isDiskFull = ({ code = '' }: OutputError): boolean => ['ENOSPC', 'EDQUOT'].includes(code);

const STORE_CODES: Partial<Record<StoreErrorCode, CliErrorCode>> = {
  key_missing: 'not_found',
  key_request: 'usage',
};

/** The hints for errors of a store that name commands and options. The store knows neither. */
const STORE_HINTS: Partial<Record<StoreErrorCode, string>> = {
  missing: 'check the directory or URL; to create a store there: pets serve --data <dir|url>',
  in_use: 'use that server, stop it, or choose another directory with --data',
  changed:
    'find out which program did that; put the journal back, or restore a backup; then run pets store check, and start the server again, which creates a new store if the directory is missing',
  key_request: 'see: pets help keys add',
  privilege:
    'grant the missing privilege to the database user; or, to create the store, let an administrator run the output of: pets store migrate --dry-run',
};

const unexpected = (error: unknown): UserError =>
  userError('internal_error', `unexpected error: ${error instanceof Error ? error.message : String(error)}`, {
    hint: 'this is a bug; please report it with the output of the same command with --debug',
  });

/** Error messages are cut to this number of columns. With --json, they are printed in full. */
const MAX_MESSAGE = 2_000;

/** Prints an error and its hint as text. With --json, prints one JSON object. */
export function printError(console: Console, { exitCode, ...error }: UserError): void {
  const { red, dim } = console.errorColors;
  const hint = error.hint === undefined ? '' : `\n  ${dim('→')} ${sanitizeForTerminal(error.hint)}`;
  // Redact before cutting, because a part of a password would not be recognized.
  const start = console.redactAll(error.message).slice(0, 2 * MAX_MESSAGE);
  const message = cutToWidth(sanitizeForTerminal(start), MAX_MESSAGE);
  console.event({ error: { ...error, exitCode } }, `${red('error:')} ${message}${hint}`, 4);
}

export function printStack(console: Console, error: unknown): void {
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  // Line breaks in the message are data, so they are escaped. Line breaks between stack frames are printed.
  const end = error instanceof Error ? stack.indexOf(error.message) + error.message.length : 0;
  const frames = stack.slice(end).split('\n').map(sanitizeForTerminal);
  const text = `${sanitizeForTerminal(stack.slice(0, end))}${frames.join('\n')}`;
  console.event({ debug: { stack } }, console.errorColors.dim(text));
}

/** Describes an error of the client; undefined for any other error. */
function describeCallError(error: unknown, call: CallError, context: ErrorContext): UserError | undefined {
  const described = describeClientError(error, call, context);
  return described && { ...described, hint: addressHint(error, call) ?? described.hint };
}

function describeClientError(
  error: unknown,
  call: CallError,
  { clock, platform, console }: ErrorContext,
): UserError | undefined {
  const { connection } = call;
  const { host: server, protocol } = new URL(connection.baseUrl);
  if (error instanceof OutcomeUnknownError) return describeUnknownOutcome(error, call, platform);
  if (error instanceof ApiFailure) {
    const described = describeApiFailure(error, connection, server);
    // With plain http, a proxy can respond in place of the service.
    const mayBeProxy = protocol === 'http:' && error.code === undefined;
    if (!call.proxy || !mayBeProxy) return described;
    const note = `the response may come from the proxy ${proxyLabel(call.proxy)}`;
    return { ...described, hint: `${note}; ${described.hint}` };
  }
  if (error instanceof RateLimitError) return describeRateLimit(error, server, clock.now(), console);
  if (error instanceof ProxyError && call.proxy) return describeProxyError(error, call.proxy, server);
  if (error instanceof TimeoutError) {
    const via =
      call.proxy === undefined ? '' : `; the request goes through the proxy ${proxyLabel(call.proxy)}`;
    return userError('timeout', `${server}: ${error.message}`, {
      hint: `try again, or increase --timeout${via}${ignoredProxyNote(call.ignoredProxy)}`,
    });
  }
  if (error instanceof NetworkError) {
    const hint = networkHint(error, call, clock.now());
    return userError('network_error', `cannot reach ${server}: ${networkReason(error)}`, { hint });
  }
  if (error instanceof ContractError) {
    const { status, message } = error;
    return userError('contract_error', `${server}: ${message}`, { status, hint: baseUrlHint(connection) });
  }
  return undefined;
}

const SECOND = 1_000;

/** The hint suggests --max-wait only for waits that are shorter than this, in milliseconds. */
const MAX_SUGGESTED_WAIT = 3_600 * SECOND;

function describeRateLimit(
  error: RateLimitError,
  server: string,
  now: number,
  { timeZone }: ErrorContext['console'],
): UserError {
  const { until, code, fromResponse, neededMaxWait = Number.POSITIVE_INFINITY } = error;
  const deadline = formatDeadline(until, now, timeZone());
  const when = deadline === undefined ? '' : ` ${deadline}`;
  const state = code === 'key_banned' ? 'has banned this key' : 'is rate-limited';
  // `pets serve` adds the waiting time to its message. Remove it, because `when` contains the same time.
  const reason = error.message.replace(/\.? Retry in \d+ s\b/, '');
  const message = fromResponse
    ? `${server} ${state}${when}: ${reason}`
    : `no request is sent to ${server}${when}: according to an earlier response, the rate limit is used up or the key is banned`;
  const seconds = Math.ceil(neededMaxWait / SECOND);
  const wait = neededMaxWait < MAX_SUGGESTED_WAIT ? `, or wait with --max-wait ${seconds}` : '';
  const check = fromResponse
    ? ''
    : '; to ask the service whether the limit has ended earlier: pets profiles --check';
  return {
    ...userError('rate_limited', message),
    ...(code !== undefined && { code }),
    status: 429,
    until: deadline === undefined ? undefined : formatIso(until),
    hint: `try again ${deadline === undefined ? 'later' : 'after this time'}${wait}${check}`,
  };
}

/** Describes a creation that may or may not have been applied. The hint shows how to find out and how to retry. */
function describeUnknownOutcome(
  { cause, idempotencyKey, supportsIdempotency }: OutcomeUnknownError,
  { connection }: CallError,
  platform: NodeJS.Platform,
): UserError {
  const reason = cause instanceof NetworkError ? networkReason(cause) : cause;
  // After an invalid response with a success status, another attempt would get the same response.
  const canRepeat = supportsIdempotency && !hasSuccessStatus(cause);
  const repeat = canRepeat
    ? `to retry without adding it twice, run the same command within 24 hours with ${shellQuote(['--idempotency-key', idempotencyKey], platform)}`
    : 'add it again only if it is missing';
  return userError(
    cause instanceof InterruptedError ? 'interrupted' : 'outcome_unknown',
    `${new URL(connection.baseUrl).host}: outcome unknown (${reason instanceof Error ? reason.message : reason}); the animal may or may not have been added`,
    {
      mayHaveBeenAdded: true,
      ...(canRepeat && { idempotencyKey }),
      hint: `check whether the animal was added: ${listAllCommand(connection, platform)}; ${repeat}`,
    },
  );
}

/** Matches a 403 that gives no reason. The page of nginx and similar servers ends with the name of the server. */
const NO_REASON = /^(403\s+)?(forbidden\.?(\s+\S+)?)?$/i;

function describeApiFailure(error: ApiFailure, connection: Connection, server: string): UserError {
  const { status, code, reason = '', message } = error;
  const base = { status, code: code ?? `http_${status}`, message: `${server}: ${message}` };
  const { key, keySource } = connection;
  const source = keySource === 'this login' ? '' : ` from ${keySource}`;
  // A 403 without a reason is how some services reject a key.
  const isKeyRejected = status === 401 || (status === 403 && NO_REASON.test(reason));
  if (isKeyRejected) {
    const rejected = `${server} rejected key ${maskKey(key)}${source}: ${message}`;
    return { ...base, exitCode: exitCodes.noKey, message: rejected, hint: keyHint(connection) };
  }
  if (status === 403) {
    const hint = `use a key that is allowed to do this, instead of key ${maskKey(key)}${source}`;
    return { ...base, exitCode: exitCodes.other, hint };
  }
  if (status === 404) return { ...base, exitCode: exitCodes.notFound, hint: baseUrlHint(connection) };
  // Only an error code shows that the response is from the service, and not from another server at the base URL.
  const isRefusal = status < 500 && code !== undefined;
  const exitCode = isRefusal ? exitCodes.other : exitCodes.service;
  return { ...base, exitCode, hint: failureHint(error, connection) };
}

function failureHint({ status, code }: ApiFailure, connection: Connection): string {
  if (status >= 500 || status === 408) return 'try again later';
  if (status === 405) return baseUrlHint(connection);
  if (status === 413)
    return 'the service, or a proxy in front of it, does not accept requests of this size; use a shorter name';
  return code === 'idempotency_mismatch'
    ? 'use another --idempotency-key, or repeat the command with the same animal'
    : 'run again with --debug to see the request and the response';
}

function keyHint({ keySource, profile }: Connection): string {
  if (keySource === 'PETS_API_KEY')
    return 'set PETS_API_KEY to a valid key, or unset it to use the saved key of a profile';
  if (keySource === 'this login')
    return 'nothing was saved; copy the key again, and check that it is for this service';
  return profile === 'local'
    ? 'restart the local service to save a valid key: pets serve; or create one while it runs: pets keys add <name> --save; if the service was started with --data, add the same --data to the command'
    : `log in with a valid key: pets login --profile ${profile}`;
}

const baseUrlHint = ({ baseUrl }: Connection): string =>
  `check the base URL ${baseUrl}${baseUrl.endsWith('/v1') ? '' : '; it usually ends in /v1'}`;

/** Describes an error of a proxy. Names the host and port of the proxy, but never its user or password. */
function describeProxyError(error: ProxyError, proxy: ProxySetting, server: string): UserError {
  const { status } = error;
  const { variable, address } = proxy;
  const { protocol, username } = new URL(address);
  const label = `the proxy ${proxyLabel(proxy)}`;
  // Some proxies respond with 401 to a wrong password.
  if (status === 407 || status === 401) {
    const example = `${protocol}//USER:PASSWORD@${proxyLabel(proxy)}`;
    const message = username
      ? `${label} rejected the user and password in ${variable} (${status})`
      : `${label} requires a user and password (${status})`;
    return userError('network_error', message, {
      hint: `set ${variable} to ${example}; in USER and PASSWORD, write @ as %40, : as %3A, / as %2F and % as %25`,
    });
  }
  const message =
    status === undefined
      ? `cannot reach ${label}: ${systemReason(error)}`
      : `${label} did not connect to ${server} (${status})`;
  return userError('network_error', message, {
    hint: `check ${variable}${status === undefined ? '' : ' and the base URL'}; to connect without a proxy, add ${server} to NO_PROXY`,
  });
}

// Hints for a failed connection, or for a response that shows what is wrong with the base URL.

/** What nginx, Go and Apache respond to a request without https at a port for https. */
const PLAIN_HTTP =
  /plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server|speaking plain HTTP/i;

/** What nginx responds to a client without a certificate. Most other servers end the connection instead. */
const NO_CERTIFICATE = /No required SSL certificate was sent/i;

const WITHOUT_CERTIFICATE = 'use an address that does not require one, or a local proxy that sends it';
const CERTIFICATE_REQUIRED = `pets cannot send a client certificate; ${WITHOUT_CERTIFICATE}`;
const CERTIFICATE_MAYBE_REQUIRED = `the service may require a client certificate, which pets cannot send; ${WITHOUT_CERTIFICATE}`;

/** The error codes of a connection that the peer closed. */
const CLOSED = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'];

/** The response of a server that supports only HTTP/2: a frame with its settings. */
const HTTP2_SETTINGS = /^\0\0[\s\S]\x04/;

/** The hint for a response that shows that the base URL is wrong or needs a client certificate; otherwise undefined. */
function addressHint(error: unknown, { connection: { baseUrl } }: CallError): string | undefined {
  if (error instanceof RedirectError) {
    const address = httpsAddress(baseUrl, error.location);
    return address && useBaseUrl(address);
  }
  if (error instanceof ApiFailure) {
    if (PLAIN_HTTP.test(error.message)) return useBaseUrl(withScheme('https', baseUrl));
    return NO_CERTIFICATE.test(error.message) ? CERTIFICATE_REQUIRED : undefined;
  }
  return undefined;
}

/** Describes a response that is not HTTP/1.1. */
function protocolReason({ received, message }: ProtocolError): string {
  if (HTTP2_SETTINGS.test(received)) return ONLY_HTTP2;
  const [line = ''] = received.split(/[\r\n]/);
  const isOther = /Expected HTTP\//.test(message);
  return isOther ? `it does not use HTTP (it sent ${JSON.stringify(line.slice(0, 80))})` : message;
}

/**
 * The hint for a failed connection. Some errors show that the base URL, TLS or the clock of this machine is the cause.
 * `now` is in milliseconds since the epoch.
 */
function networkHint(
  error: NetworkError,
  { connection: { baseUrl, keySource }, proxy, ignoredProxy }: CallError,
  now: number,
): string {
  const { code = '', sent } = error;
  const url = new URL(baseUrl);
  const isNew = keySource === 'this login';
  if (['CERT_NOT_YET_VALID', 'CERT_HAS_EXPIRED'].includes(code))
    return `check the clock of this machine, which shows ${formatIso(now)}; if the clock is right, the service must replace its certificate`;
  const reason = networkReason(error);
  if (reason === OTHER_TLS_VERSION)
    return 'the service, or a proxy in front of it, must support TLS 1.2 or newer';
  if (reason === ONLY_HTTP2) return 'use an address of the service that supports HTTP/1.1';
  if (reason === TLS_REFUSED) return CERTIFICATE_MAYBE_REQUIRED;
  if (reason === NOT_HTTPS && isLoopbackUrl(url)) return useBaseUrl(withScheme('http', baseUrl));
  // A closed connection has many causes. Suggest https or a client certificate only during login, when the base URL is
  // new.
  if (isNew && proxy === undefined && sent && CLOSED.includes(code)) {
    return url.protocol === 'http:'
      ? `if the service uses https, ${useBaseUrl(withScheme('https', baseUrl))}`
      : CERTIFICATE_MAYBE_REQUIRED;
  }
  if (url.protocol === 'http:' && isLoopbackUrl(url) && code === 'ECONNREFUSED') {
    const option = url.port === String(DEFAULT_PORT) ? '' : ` --port ${portOf(url)}`;
    return `start the local service: pets serve${option}; if it was started with --data before, add the same --data`;
  }
  if (reason === UNKNOWN_ISSUER)
    return 'if you trust that authority, set NODE_EXTRA_CA_CERTS to the file with its certificate';
  const via = proxy === undefined ? '' : `, the proxy ${proxyLabel(proxy)}`;
  return `check the network${via} and the base URL ${baseUrl}${ignoredProxyNote(ignoredProxy)}${isNew ? '; nothing was saved' : ''}`;
}

/** Describes why a request got no valid response. */
export const networkReason = (error: Error): string =>
  error instanceof ProtocolError ? protocolReason(error) : systemReason(error);

/** The end of a hint if the user has set a variable such as ALL_PROXY; otherwise empty. */
const ignoredProxyNote = (variable: string | undefined): string =>
  variable === undefined ? '' : `; ${variable} is not supported: set HTTPS_PROXY or HTTP_PROXY instead`;

const useBaseUrl = (address: string): string => `use the base URL ${address}`;

const withScheme = (scheme: 'http' | 'https', baseUrl: string): string => baseUrl.replace(/^\w+/, scheme);

/** The base URL with https, if a redirect changes http to https but not the host and path; otherwise undefined. */
function httpsAddress(baseUrl: string, location: string | undefined): string | undefined {
  if (location === undefined || !URL.canParse(location, baseUrl)) return undefined;
  const [from, to] = [new URL(baseUrl), new URL(location, baseUrl)];
  const path = from.pathname.replace(/\/$/, '');
  const isSame = to.hostname === from.hostname && to.pathname.startsWith(`${path}/`);
  const isUpgrade = from.protocol === 'http:' && to.protocol === 'https:';
  return isSame && isUpgrade ? to.origin + path : undefined;
}
