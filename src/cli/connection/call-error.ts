import {
  ApiFailure,
  ClientError,
  ContractError,
  hasSuccessStatus,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
} from '../../client/errors.ts';
import { InterruptedError } from '../../system/clock.ts';
import { CliError, type ErrorFields } from '../core/errors.ts';
import { type CliErrorCode, cliErrorCodes, type ExitCode, exitCodes } from '../core/exit-codes.ts';
import { createRedactor, maskKey, shellQuote } from '../output/text.ts';
import { formatDeadline } from '../output/time.ts';
import { type Connection, DEFAULT_PORT, isLoopbackUrl, portOf } from '../profiles/profile.ts';

/** A request that failed, and what `callError` must know about it. The key of the connection is masked in the error. */
export type FailedCall = {
  connection: Connection;
  /** The environment variable with the proxy of the request. */
  proxyVariable?: string | undefined;
  /** For deadlines: the time in milliseconds since the epoch, and the name of the time zone. */
  now: number;
  timeZone: string;
  /** False with `--no-retry`, and for requests that are sent only once. */
  canWait: boolean;
  platform: NodeJS.Platform;
  /** The command that lists animals of the same service. */
  listCommand: string;
  /** The base URL at which the service was found instead. */
  foundBaseUrl?: string | undefined;
};

type Description = ErrorFields & { message: string; hint?: string; code?: CliErrorCode };

/**
 * Converts an error of the client to a CliError, and adds what it lacks: the server, the source of the key, the proxy, and
 * the commands that help. The error of the client is the `cause` of the result. Returns any other error unchanged.
 */
export function callError(error: unknown, call: FailedCall): unknown {
  if (!(error instanceof ClientError)) return error;
  const { message, ...description } = describe(error, call);
  // The service may have included the API key in its error, and the output of pets may end up in a log.
  const redact = createRedactor(call.connection.key);
  const { code = redact(error.code), hint = error.hint } = description;
  const options = { ...description, code, exitCode: exitCodeOf(error, code), hint };
  return new CliError(redact(message), { ...options, cause: error });
}

function exitCodeOf(error: ClientError, code: string): ExitCode {
  if (error instanceof RateLimitError) return exitCodes.rateLimited;
  if (!(error instanceof ApiFailure)) return cliErrorCodes[code as CliErrorCode];
  if (error.status === 401) return exitCodes.noKey;
  if (error.status === 404) return exitCodes.notFound;
  // Only an error code shows that the response is from the service, and not from another server at the base URL.
  return error.status < 500 && error.isFromService ? exitCodes.other : exitCodes.service;
}

function describe(error: ClientError, call: FailedCall): Description {
  const { connection, foundBaseUrl } = call;
  const server = new URL(connection.baseUrl).host;
  const message = `${server}: ${error.message}`;
  if (error instanceof OutcomeUnknownError) return describeUnknownOutcome(error, call, server);
  if (error instanceof RateLimitError) return describeRateLimit(error, call, server);
  if (error instanceof NetworkError) {
    if (error.code === 'local_error') return { message: error.message };
    const isReached = error.sent || error.code === 'timeout';
    return {
      message: isReached ? message : `cannot reach ${message}`,
      hint: networkHint(error, call, server),
    };
  }
  if (error instanceof ApiFailure) {
    const { status, isFromService } = error;
    if (status !== 401 || !isFromService) return { message, status, hint: failureHint(error, connection) };
    const key = `key ${maskKey(connection.key)} from ${connection.keySource}`;
    return { message: `${server} rejected ${key}: ${error.message}`, status, hint: keyHint(connection) };
  }
  const status = error instanceof ContractError ? error.status : undefined;
  return { message, status, hint: error.hint ?? baseUrlHint(connection, foundBaseUrl) };
}

/** How to write special characters in the URL of a proxy. */
export const PROXY_ENCODING =
  'in its user or password, write @ as %40, # as %23, ? as %3F, : as %3A, / as %2F and % as %25';

function networkHint(error: NetworkError, call: FailedCall, server: string): string {
  const { code, errno, sent } = error;
  const { connection, proxyVariable } = call;
  const url = new URL(connection.baseUrl);
  if (url.protocol === 'http:' && isLoopbackUrl(url) && errno === 'ECONNREFUSED') {
    const option = url.port === String(DEFAULT_PORT) ? '' : ` --port ${portOf(url)}`;
    return `start the local service: pets serve${option}; if it was started with --data before, add the same --data`;
  }
  const check = `${sent ? 'try again later, or check' : 'check the network and'} the base URL ${connection.baseUrl}`;
  const slow = code === 'timeout' ? '; if the service is only slow, increase --timeout or --max-time' : '';
  const hint = error.hint ?? `${check}${slow}`;
  return proxyVariable === undefined
    ? hint
    : `check the proxy in ${proxyVariable}, in the form http://host:port or http://user:password@host:port; ${PROXY_ENCODING}; to connect without it, add ${server} to NO_PROXY (or to no_proxy, if that is set); if the proxy is right, ${hint}`;
}

function describeRateLimit(error: RateLimitError, call: FailedCall, server: string): Description {
  const { now, timeZone, canWait } = call;
  const { until, code, fromResponse } = error;
  const deadline = formatDeadline(until, now, timeZone);
  const when = deadline === undefined ? '' : ` ${deadline}`;
  const fields = { status: 429, until: deadline && new Date(until).toISOString() };
  if (fromResponse) {
    const state = code === 'key_banned' ? 'has banned this key' : 'allows no more requests';
    const longer = canWait ? ', or allow a longer wait with --max-wait (and --max-time, if used)' : '';
    const hint = `try again ${deadline ? 'after this time' : 'later'}${longer}`;
    return { ...fields, message: `${server} ${state}${when}: ${error.message}`, hint };
  }
  return {
    ...fields,
    message: `pets sends no request to ${server}${when}: according to an earlier response, the rate limit is used up or the key is banned`,
    hint: 'try again after this time; for a saved key, pets profiles --check asks the service at most once a minute whether the limit has ended earlier',
  };
}

/** Describes a creation that may or may not have been applied. The hint shows how to find out, and what to do next. */
function describeUnknownOutcome(
  { cause, idempotencyKey, supportsIdempotency }: OutcomeUnknownError,
  { listCommand, platform }: FailedCall,
  server: string,
): Description {
  const reason = cause instanceof Error ? cause.message : cause;
  // After a success, the service would only send the same response again.
  const canRepeat = supportsIdempotency && !hasSuccessStatus(cause);
  const repeat = canRepeat
    ? `to retry without adding it twice, run the same command within 24 hours with ${shellQuote(['--idempotency-key', idempotencyKey], platform)}`
    : 'add it again only if it is missing';
  return {
    message: `${server}: outcome unknown (${reason}); the animal may or may not have been added`,
    code: cause instanceof InterruptedError ? 'interrupted' : 'outcome_unknown',
    mayHaveBeenAdded: true,
    ...(canRepeat && { idempotencyKey }),
    hint: `check whether the animal was added: ${listCommand} --all; ${repeat}`,
  };
}

function failureHint({ status, isFromService }: ApiFailure, connection: Connection): string {
  if (status === 401)
    return `${keyHint(connection)}; or another server asks for a user and password, which pets cannot send: check the base URL`;
  if (status === 404) return baseUrlHint(connection);
  if (status === 400 && !isFromService && connection.baseUrl.startsWith('http:'))
    return `${baseUrlHint(connection)}; it may have to begin with https://`;
  const isTemporary = status >= 500 || status === 408;
  return isTemporary ? 'try again later' : 'run again with --debug to see the request and the response';
}

function keyHint({ keySource, profile }: Connection): string {
  if (keySource === 'PETS_API_KEY')
    return 'set PETS_API_KEY to a valid key, or use the saved key of a profile: --profile <name>';
  if (keySource === 'this login')
    return 'nothing was saved; copy the key again, and check that it is for this service';
  return profile === 'local'
    ? 'restart the local service to save a valid key: pets serve; or create one while it runs: pets keys add laptop | pets login --profile local; if it was started with --data, add the same --data'
    : `log in with a valid key: pets login --profile ${profile}`;
}

function baseUrlHint({ baseUrl }: Connection, foundBaseUrl?: string): string {
  const [, better = foundBaseUrl] = /^(.*)\/pets$/.exec(baseUrl) ?? [];
  if (better !== undefined) return `try the base URL ${better}`;
  return `check the base URL ${baseUrl}${baseUrl.endsWith('/v1') ? '' : '; it usually ends in /v1'}`;
}
