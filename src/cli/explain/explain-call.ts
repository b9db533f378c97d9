import {
  ApiFailure,
  ContractError,
  InterruptedError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
  TimeoutError,
} from '../../client/errors.ts';
import type { CliErrorCode } from '../errors/error-codes.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { isoText, untilText } from '../output/time.ts';
import { maskKey } from '../profiles/profile.ts';
import type { Connection } from '../profiles/resolve.ts';
import type { CallError } from './call-error.ts';
import { explainNetwork, networkReason } from './explain-network.ts';
import { type Explanation, explanation } from './explanation.ts';

const SECOND = 1_000;

/** What the error of a call means to its user, or undefined for one that is no call's. */
export function explainCall(error: unknown, call: CallError, now: number): Explanation | undefined {
  const { connection } = call;
  const server = new URL(connection.baseUrl).host;
  if (error instanceof OutcomeUnknownError) return explainUnknown(error, connection);
  if (error instanceof ApiFailure) return explainFailure(error, connection);
  if (error instanceof RateLimitError) return explainLimit(error, server, now);
  if (error instanceof TimeoutError) {
    return explanation('timeout', `${server}: ${error.message}`, {
      hint: 'try again, or allow more time with --timeout <seconds>',
    });
  }
  if (error instanceof NetworkError) return explainNetwork(error, call);
  if (error instanceof ContractError) {
    return explanation('contract_error', `${server}: ${error.message}`, {
      status: error.status,
      hint: baseUrlHint(connection),
    });
  }
  return undefined;
}

/** An hour: what is longer nobody waits for at a prompt. */
const LONGEST_ADVISED = 3_600 * SECOND;

/** The jitter that a wait has on top, and a little. */
const ROOM = 4 * SECOND;

function explainLimit(
  { until, code, message, isAnswer }: RateLimitError,
  server: string,
  now: number,
): Explanation {
  const left = until - now + ROOM;
  const wait =
    left > 0 && left < LONGEST_ADVISED ? `, or let it wait: --max-wait ${Math.ceil(left / SECOND)}` : '';
  const hint = `try again then${wait}${isAnswer ? '' : '; pets profiles --check asks the service anew'}`;
  return {
    ...explanation('rate_limited', `${server} is rate-limited ${untilText(until, now)}: ${message}`),
    ...(code !== undefined && { code }),
    status: 429,
    until: isoText(until),
    hint,
  };
}

/** A creation of which nobody knows whether it was carried out: how to find out, and how to repeat it. */
function explainUnknown(
  { cause, idempotencyKey, honoured }: OutcomeUnknownError,
  { baseUrl, profile, keySource }: Connection,
): Explanation {
  const server = new URL(baseUrl).host;
  const option = keySource === 'PETS_API_KEY' ? '' : ` --profile ${profile}`;
  const repeat = honoured
    ? `repeat the same command with --idempotency-key ${idempotencyKey}: within a day that adds no second one`
    : 'add it again only where it is missing: this service has not shown that it knows a repetition';
  return explanation(
    codeOfUnknown(cause),
    `${server}: the outcome is unknown (${reasonOf(cause)}): the animal may have been added`,
    {
      ...(honoured && { idempotencyKey }),
      hint: `look first: pets list --all${option}. Then ${repeat}`,
    },
  );
}

function codeOfUnknown(cause: unknown): CliErrorCode {
  if (cause instanceof InterruptedError) return 'interrupted';
  // There is an answer, and it tells nothing.
  return cause instanceof ContractError && cause.status < 400 ? 'contract_error' : 'outcome_unknown';
}

function reasonOf(error: unknown): string {
  if (error instanceof NetworkError) return networkReason(error);
  return error instanceof Error ? error.message : String(error);
}

function explainFailure({ status, code, message }: ApiFailure, connection: Connection): Explanation {
  const server = new URL(connection.baseUrl).host;
  const base = { status, code: code ?? `http_${status}`, message: `${server}: ${message}` };
  if (status === 401 || status === 403) {
    const source = connection.keySource === 'this login' ? '' : ` from ${connection.keySource}`;
    return {
      ...base,
      exitCode: exitCodes.noKey,
      message: `${server} rejected key ${maskKey(connection.key)}${source}: ${message}`,
      hint: keyHint(connection),
    };
  }
  if (status === 404)
    return {
      ...base,
      exitCode: exitCodes.notFound,
      hint: baseUrlHint(connection),
    };
  if (status >= 500) return { ...base, exitCode: exitCodes.service, hint: 'try again in a while' };
  const hint =
    code === 'idempotency_mismatch'
      ? 'take another --idempotency-key, or repeat it with the same animal'
      : 'see what was sent and answered: --debug';
  return { ...base, exitCode: exitCodes.other, hint };
}

function keyHint({ keySource, profile }: Connection): string {
  switch (keySource) {
    case 'PETS_API_KEY':
      return `set PETS_API_KEY to a valid key, or unset it to use that of profile ${profile}`;
    case 'this login':
      return 'nothing was saved: copy the key again, and check that it is for this service';
    default:
      return profile === 'local'
        ? 'start the local service, which saves a valid key: pets serve'
        : `log in with a valid key: pets login --profile ${profile}`;
  }
}

const baseUrlHint = ({ baseUrl }: Connection): string =>
  `check that ${baseUrl} is the service's base URL; mostly it ends with /v1`;
