import {
  ApiFailure,
  ContractError,
  InterruptedError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
  TimeoutError,
} from '../client/errors.ts';
import { StoreError, StoreNotFoundError, StoreRequestError } from '../store/errors.ts';
import { CallError } from './call-error.ts';
import { CliError } from './cli-error.ts';
import { type ExitCode, exitCodes } from './exit-codes.ts';
import { OutputError } from './output/console.ts';
import { maskKey, withoutKey } from './profiles/profile.ts';
import type { Connection } from './profiles/resolve.ts';

/** An error as a person and a program are told it. */
export type Explanation = {
  exitCode: ExitCode;
  code: string;
  message: string;
  status?: number | undefined;
  hint?: string | undefined;
};

/** Turns every error there is into a message, a next step and an exit code; the only place that does. */
export function explain(error: unknown): Explanation {
  if (error instanceof CallError) {
    const { code, message, ...rest } = explainAny(error.cause, error.connection);
    // A service may send the key back inside its error; whoever logs what we say must not keep it.
    const { key } = error.connection;
    const hint = error.hint ?? rest.hint;
    return { ...rest, code: withoutKey(code, key), message: withoutKey(message, key), hint };
  }
  return explainAny(error);
}

function explainAny(error: unknown, connection?: Connection): Explanation {
  if (error instanceof CliError) {
    return { exitCode: error.exitCode, code: error.code, message: error.message, hint: error.hint };
  }
  if (error instanceof StoreError) {
    const { message, hint } = error;
    return { ...kindOf(error), message, hint };
  }
  if (error instanceof InterruptedError) {
    return { exitCode: exitCodes.interrupted, code: 'interrupted', message: 'interrupted' };
  }
  if (error instanceof OutputError) {
    return {
      exitCode: exitCodes.other,
      code: 'output_error',
      message: `cannot write the output: ${error.message}`,
    };
  }
  return explainCall(error, connection) ?? unexpected(error);
}

function kindOf(error: StoreError): Pick<Explanation, 'exitCode' | 'code'> {
  if (error instanceof StoreNotFoundError) return { exitCode: exitCodes.notFound, code: 'not_found' };
  if (error instanceof StoreRequestError) return { exitCode: exitCodes.usage, code: 'store_error' };
  return { exitCode: exitCodes.other, code: 'store_error' };
}

function explainCall(error: unknown, connection: Connection | undefined): Explanation | undefined {
  const server = connection ? new URL(connection.baseUrl).host : 'the service';
  if (error instanceof OutcomeUnknownError) return explainUnknown(error, server, connection);
  if (error instanceof ApiFailure) return explainFailure(error, server, connection);
  if (error instanceof RateLimitError) {
    return {
      exitCode: exitCodes.rateLimited,
      code: error.code ?? 'rate_limited',
      status: 429,
      message: `${server} is rate-limited until ${timeOf(error.until)}: ${error.message}`,
      hint: `try again then, or allow a longer wait with --max-wait <seconds>${error.isAnswer ? '' : '; pets profiles --check asks the service anew'}`,
    };
  }
  if (error instanceof TimeoutError) {
    return {
      exitCode: exitCodes.network,
      code: 'timeout',
      message: `${server}: ${error.message}`,
      hint: 'try again, or allow more time with --timeout <seconds>',
    };
  }
  if (error instanceof NetworkError) {
    return {
      exitCode: exitCodes.network,
      code: 'network_error',
      message: `cannot reach ${server}: ${networkReason(error)}`,
      hint: networkHint(error, connection),
    };
  }
  if (error instanceof ContractError) {
    return {
      exitCode: exitCodes.service,
      code: 'contract_error',
      status: error.status,
      message: `${server}: ${error.message}`,
      hint: connection && `check that ${connection.baseUrl} is the service's base URL`,
    };
  }
  return undefined;
}

/** A creation of which nobody knows whether it was carried out: how to find out, and how to repeat it. */
function explainUnknown(
  { cause, idempotencyKey, honoured }: OutcomeUnknownError,
  server: string,
  connection: Connection | undefined,
): Explanation {
  const profile =
    connection && connection.keySource !== 'PETS_API_KEY' ? ` --profile ${connection.profile}` : '';
  const repeat = honoured
    ? `repeat the same command with --idempotency-key ${idempotencyKey}: within a day that adds no second one`
    : 'add it again only where it is missing: this service has not shown that it knows a repetition';
  return {
    ...kindOfUnknown(cause),
    message: `${server}: the outcome is unknown (${reasonOf(cause)}): the animal may have been added`,
    hint: `look first: pets list --all${profile}. Then ${repeat}`,
  };
}

function kindOfUnknown(cause: unknown): Pick<Explanation, 'exitCode' | 'code'> {
  if (cause instanceof InterruptedError) return { exitCode: exitCodes.interrupted, code: 'interrupted' };
  // There is an answer, and it tells nothing.
  if (cause instanceof ContractError && cause.status < 400)
    return { exitCode: exitCodes.service, code: 'contract_error' };
  return { exitCode: exitCodes.network, code: 'outcome_unknown' };
}

function explainFailure(error: ApiFailure, server: string, connection: Connection | undefined): Explanation {
  const base = {
    status: error.status,
    code: error.code ?? `http_${error.status}`,
    message: `${server}: ${error.message}`,
  };
  if (error.status === 401 || error.status === 403) {
    const key = connection && ` (key ${maskKey(connection.key)} from ${connection.keySource})`;
    return {
      ...base,
      exitCode: exitCodes.noKey,
      message: `${server} rejected the key${key ?? ''}: ${error.message}`,
      hint: connection && keyHint(connection),
    };
  }
  if (error.status === 404) return { ...base, exitCode: exitCodes.notFound };
  if (error.status >= 500) return { ...base, exitCode: exitCodes.service, hint: 'try again in a while' };
  return { ...base, exitCode: exitCodes.other };
}

function keyHint({ keySource, profile }: Connection): string {
  return keySource === 'PETS_API_KEY'
    ? `set PETS_API_KEY to a valid key, or unset it to use that of profile ${profile}`
    : `log in with a valid key: pets login --profile ${profile}`;
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'the host is unreachable',
  ENETUNREACH: 'the network is unreachable',
  ETIMEDOUT: 'the connection timed out',
  EPIPE: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  UND_ERR_CONNECT_TIMEOUT: 'the connection timed out',
};

const reasonOf = (error: unknown): string =>
  error instanceof NetworkError
    ? networkReason(error)
    : error instanceof Error
      ? error.message
      : String(error);

function networkReason({ code, message }: NetworkError): string {
  const [, refusal] = /^Proxy response \((\d+)\)/.exec(message) ?? [];
  return refusal === undefined ? (REASONS[code ?? ''] ?? message) : `the proxy answered ${refusal}`;
}

function networkHint(error: NetworkError, connection: Connection | undefined): string | undefined {
  if (connection?.profile === 'local' && error.code === 'ECONNREFUSED')
    return 'start the local service: pets serve';
  return connection && `check the network, and that ${connection.baseUrl} is the right address`;
}

function unexpected(error: unknown): Explanation {
  const message = error instanceof Error ? error.message : String(error);
  return {
    exitCode: exitCodes.other,
    code: 'internal_error',
    message: `unexpected: ${message}`,
    hint: 'this is a bug: run it again with --debug and report what it prints',
  };
}

function timeOf(until: number): string {
  const date = new Date(until);
  return Number.isNaN(date.getTime())
    ? 'a time beyond every calendar'
    : date.toISOString().replace(/\.\d+Z$/, 'Z');
}
