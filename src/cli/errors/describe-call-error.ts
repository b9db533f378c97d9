import {
  ApiFailure,
  ContractError,
  InterruptedError,
  isAfterSuccess,
  NetworkError,
  OutcomeUnknownError,
  ProxyError,
  RateLimitError,
  TimeoutError,
} from '../../client/errors.ts';
import type { Clock } from '../../contract/clock.ts';
import { isNotCarriedOut } from '../../contract/error-codes.ts';
import { systemReason } from '../core/errors.ts';
import { exitCodes, type UserError, userError } from '../core/exit-codes.ts';
import { shellQuote } from '../core/shell-words.ts';
import type { Console } from '../output/console.ts';
import { maskKey } from '../output/redact.ts';
import { formatDeadline, formatIso } from '../output/time.ts';
import { type Connection, listAllCommand, type ProxySetting, proxyLabel } from '../profiles/profile.ts';
import { addressHint, ignoredProxyNote, networkHint, networkReason } from './address-hint.ts';
import type { CallError } from './call-error.ts';

/** The time and the time zone for deadlines, and the platform whose shell must understand the commands in hints. */
export type ErrorContext = {
  clock: Clock;
  platform: NodeJS.Platform;
  console: Pick<Console, 'timeZone'>;
};

/** Describes an error of the client; undefined for any other error. */
export function describeCallError(
  error: unknown,
  call: CallError,
  context: ErrorContext,
): UserError | undefined {
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
    // With plain http, a proxy can respond in place of the service, usually with a web page.
    const mayBeProxy = protocol === 'http:' && error.reason === undefined;
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
  // The message has the deadline already, so remove the waiting time from the text of our service.
  const reason = error.message.replace(/\.? Retry in \d+ s\b/, '');
  const message = fromResponse
    ? `${server} ${state}${when}: ${reason}`
    : `no request is sent to ${server}${when}: the rate limit is used up`;
  const seconds = Math.ceil(neededMaxWait / SECOND);
  const wait = neededMaxWait < MAX_SUGGESTED_WAIT ? `, or wait with --max-wait ${seconds}` : '';
  const check = fromResponse ? '' : '. To check the limit now: pets profiles --check';
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
  // After a success, another attempt would get the same response.
  const canRepeat = supportsIdempotency && !isAfterSuccess(cause);
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

/** What a 403 without a reason says. The page of nginx and similar servers ends with the name of the server. */
const NO_REASON = /^(403\s+)?(forbidden\.?(\s+\S+)?)?$/i;

function describeApiFailure(error: ApiFailure, connection: Connection, server: string): UserError {
  const { status, code, text = '', message } = error;
  const base = { status, code: code ?? `http_${status}`, message: `${server}: ${message}` };
  const { key, keySource } = connection;
  const source = keySource === 'this login' ? '' : ` from ${keySource}`;
  // A 403 without a reason is how some services reject a key.
  const isKeyRejected = status === 401 || (status === 403 && NO_REASON.test(text));
  if (isKeyRejected) {
    const rejected = `${server} rejected key ${maskKey(key)}${source}: ${message}`;
    return { ...base, exitCode: exitCodes.noKey, message: rejected, hint: keyHint(connection) };
  }
  if (status === 403) {
    const hint = `use a key that is allowed to do this, instead of key ${maskKey(key)}${source}`;
    return { ...base, exitCode: exitCodes.other, hint };
  }
  if (status === 404) return { ...base, exitCode: exitCodes.notFound, hint: baseUrlHint(connection) };
  const note = isNotCarriedOut(error) ? '; the request was not carried out' : '';
  // Only an error code shows that the response is from the service, and not from another server at the base URL.
  const isRefusal = status < 500 && code !== undefined;
  const exitCode = isRefusal ? exitCodes.other : exitCodes.service;
  return {
    ...base,
    message: base.message + note,
    exitCode,
    hint: failureHint(error, connection),
  };
}

function failureHint({ status, code }: ApiFailure, connection: Connection): string {
  if (status >= 500 || status === 408) return 'try again later';
  if (status === 405) return baseUrlHint(connection);
  if (status === 413) return 'the service, or a proxy in front of it, does not accept requests of this size';
  return code === 'idempotency_mismatch'
    ? 'use another --idempotency-key, or repeat the command with the same animal'
    : 'run again with --debug to see the request and the response';
}

function keyHint({ keySource, profile }: Connection): string {
  if (keySource === 'PETS_API_KEY')
    return `set PETS_API_KEY to a valid key, or unset it to use the key of profile ${profile}`;
  if (keySource === 'this login')
    return 'nothing was saved; copy the key again, and check that it is for this service';
  return profile === 'local'
    ? 'restart the local service, which saves a valid key: pets serve; or create one while it runs, with the same --data: pets keys add <name> --save'
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
      : `${label} refused to connect to ${server} (${status})`;
  return userError('network_error', message, {
    hint: `check ${variable}; to connect to ${server} without a proxy, add it to NO_PROXY`,
  });
}
