import {
  ApiFailure,
  ClientError,
  ContractError,
  hasSuccessStatus,
  LocalError,
  NetworkError,
  OutcomeUnknownError,
  ProxyError,
  RateLimitError,
  TimeoutError,
} from '../../client/errors.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { CliError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { shellQuote } from '../core/shell-words.ts';
import { createRedactor, maskKey } from '../output/redact.ts';
import { formatDeadline, formatIso } from '../output/time.ts';
import {
  type Connection,
  DEFAULT_PORT,
  isLoopbackUrl,
  type ProxySetting,
  portOf,
  proxyLabel,
} from '../profiles/profile.ts';

/** The connection of a request that failed. The key that it used is never part of the error. */
export type FailedCall = {
  connection: Connection;
  proxy?: ProxySetting | undefined;
  /** A variable such as ALL_PROXY that the user has set, but pets does not support. */
  ignoredProxy?: string | undefined;
  /** The time and the time zone for deadlines. */
  now: number;
  timeZone: string;
  platform: NodeJS.Platform;
  /** The command that lists animals of the same service. */
  listCommand: string;
  /** The base URL at which the service was found instead. */
  foundBaseUrl?: string | undefined;
};

/**
 * Adds to an error of the client what the client does not know: the server, the source of the key, the proxy, and the
 * commands that help. Returns any other error unchanged. The error of the client is the `cause` of the result.
 */
export function callError(error: unknown, call: FailedCall): unknown {
  if (!(error instanceof ClientError)) return error;
  const { connection } = call;
  const { code, message, exitCode, fields, hint } = describe(error, call, new URL(connection.baseUrl).host);
  // The service may have included the API key in its error, and the output of pets may end up in a log.
  const redact = createRedactor(connection.key);
  return new CliError(redact(message), { ...fields, code: redact(code), exitCode, hint, cause: error });
}

function describe(error: ClientError, call: FailedCall, server: string): CliError {
  const { connection } = call;
  if (error instanceof OutcomeUnknownError) return outcomeUnknown(error, call, server);
  if (error instanceof ApiFailure) return apiFailure(error, connection, server);
  if (error instanceof RateLimitError) return rateLimited(error, call, server);
  if (error instanceof ProxyError && call.proxy) return proxyFailure(error, call.proxy, server);
  if (error instanceof LocalError)
    return new CliError(error.message, { code: 'local_error', hint: error.hint });
  if (error instanceof TimeoutError) {
    const hint = `try again, or increase --timeout or --max-time${proxyNote(call)}`;
    return new CliError(`${server}: ${error.message}`, { code: 'timeout', hint });
  }
  if (error instanceof NetworkError)
    return new CliError(`cannot reach ${server}: ${error.message}`, {
      code: 'network_error',
      hint: networkHint(error, call),
    });
  const status = error instanceof ContractError ? error.status : undefined;
  const { foundBaseUrl } = call;
  const hint = foundBaseUrl ? `use the base URL ${foundBaseUrl}` : (error.hint ?? baseUrlHint(connection));
  return new CliError(`${server}: ${error.message}`, { code: 'contract_error', status, hint });
}

function networkHint(error: NetworkError, call: FailedCall): string {
  const { baseUrl, keySource } = call.connection;
  if (error.hint !== undefined) return error.hint;
  const url = new URL(baseUrl);
  if (url.protocol === 'http:' && isLoopbackUrl(url) && error.errno === 'ECONNREFUSED') {
    const option = url.port === String(DEFAULT_PORT) ? '' : ` --port ${portOf(url)}`;
    return `start the local service: pets serve${option}; if it was started with --data before, add the same --data`;
  }
  const nothingSaved = keySource === 'this login' ? '; nothing was saved' : '';
  return `check the network and the base URL ${baseUrl}${proxyNote(call)}${nothingSaved}`;
}

/** The end of a hint if the environment has a proxy, which may be the cause; otherwise empty. */
function proxyNote({ proxy, ignoredProxy }: FailedCall): string {
  if (proxy) return `; the request goes through the proxy ${proxyLabel(proxy)}`;
  return ignoredProxy ? `; ${ignoredProxy} is not supported: set HTTPS_PROXY or HTTP_PROXY instead` : '';
}

/** Describes a refusal by a proxy. Names the host and port of the proxy, but never its user or password. */
function proxyFailure({ message }: ProxyError, proxy: ProxySetting, server: string): CliError {
  const label = proxyLabel(proxy);
  const { protocol } = new URL(proxy.address);
  const user = `a user and password go in ${protocol}//USER:PASSWORD@${label}, with @ as %40, : as %3A, / as %2F and % as %25`;
  return new CliError(`the proxy ${label} did not connect to ${server}: ${message}`, {
    code: 'network_error',
    hint: `check ${proxy.variable} (${user}) and the base URL; to connect without a proxy, add ${server} to NO_PROXY`,
  });
}

const SECOND = 1_000;

/** The hint suggests --max-wait only for waits that are shorter than this, in milliseconds. */
const MAX_SUGGESTED_WAIT = 3_600 * SECOND;

function rateLimited(error: RateLimitError, { now, timeZone }: FailedCall, server: string): CliError {
  const { until, code, fromResponse } = error;
  const deadline = formatDeadline(until, now, timeZone);
  const when = deadline === undefined ? '' : ` ${deadline}`;
  const state = code === 'key_banned' ? 'has banned this key' : 'is rate-limited';
  const seconds = Math.ceil((until - now) / SECOND);
  const wait = until - now < MAX_SUGGESTED_WAIT ? `, or wait with --max-wait ${seconds}` : '';
  const check = fromResponse
    ? ''
    : '; to ask the service whether the limit has ended earlier: pets profiles --check';
  return new CliError(
    fromResponse
      ? `${server} ${state}${when}: ${error.message}`
      : `no request is sent to ${server}${when}: according to an earlier response, the rate limit is used up or the key is banned`,
    {
      code,
      exitCode: exitCodes.rateLimited,
      status: 429,
      until: deadline === undefined ? undefined : formatIso(until),
      hint: `try again ${deadline === undefined ? 'later' : 'after this time'}${wait}${check}`,
    },
  );
}

/** Describes a creation that may or may not have been applied. The hint shows how to find out and how to retry. */
function outcomeUnknown(
  { cause, idempotencyKey, supportsIdempotency }: OutcomeUnknownError,
  { listCommand, platform }: FailedCall,
  server: string,
): CliError {
  const reason = cause instanceof Error ? cause.message : cause;
  // After a success, the service would only send the same response again.
  const canRepeat = supportsIdempotency && !hasSuccessStatus(cause);
  const repeat = canRepeat
    ? `to retry without adding it twice, run the same command within 24 hours with ${shellQuote(['--idempotency-key', idempotencyKey], platform)}`
    : 'add it again only if it is missing';
  return new CliError(`${server}: outcome unknown (${reason}); the animal may or may not have been added`, {
    code: cause instanceof InterruptedError ? 'interrupted' : 'outcome_unknown',
    mayHaveBeenAdded: true,
    ...(canRepeat && { idempotencyKey }),
    hint: `check whether the animal was added: ${listCommand} --all; ${repeat}`,
  });
}

function apiFailure(error: ApiFailure, connection: Connection, server: string): CliError {
  const { status, code, message } = error;
  const { key, keySource } = connection;
  const source = keySource === 'this login' ? '' : ` from ${keySource}`;
  const fail = (exitCode: CliError['exitCode'], hint: string, text = `${server}: ${message}`) =>
    new CliError(text, { code, exitCode, status, hint });
  if (status === 401)
    return fail(
      exitCodes.noKey,
      keyHint(connection),
      `${server} rejected key ${maskKey(key)}${source}: ${message}`,
    );
  if (status === 403)
    return fail(
      exitCodes.other,
      `use a key that is allowed to do this, instead of key ${maskKey(key)}${source}`,
    );
  if (status === 404) return fail(exitCodes.notFound, baseUrlHint(connection));
  // Only an error code shows that the response is from the service, and not from another server at the base URL.
  const isRefusal = status < 500 && error.isFromService;
  return fail(isRefusal ? exitCodes.other : exitCodes.service, failureHint(error));
}

function failureHint({ status, code }: ApiFailure): string {
  if (status >= 500 || status === 408) return 'try again later';
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
    ? 'restart the local service to save a valid key: pets serve; or create one while it runs: pets keys add <name> | pets login --profile local; if the service was started with --data, add the same --data to the first command'
    : `log in with a valid key: pets login --profile ${profile}`;
}

const baseUrlHint = ({ baseUrl }: Connection): string =>
  `check the base URL ${baseUrl}${baseUrl.endsWith('/v1') ? '' : '; it usually ends in /v1'}`;
