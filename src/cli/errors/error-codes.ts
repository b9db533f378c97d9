import { exitCodes } from './exit-codes.ts';

/**
 * The codes of the errors that `pets` tells by itself, each with its exit code; scripts rely on both. What a service
 * answers keeps the service's own code, or is `http_<status>` where it has none.
 */
export const cliErrorCodes = {
  usage: exitCodes.usage,
  no_key: exitCodes.noKey,
  bad_key: exitCodes.noKey,
  not_found: exitCodes.notFound,
  rate_limited: exitCodes.rateLimited,
  network_error: exitCodes.network,
  timeout: exitCodes.network,
  outcome_unknown: exitCodes.network,
  contract_error: exitCodes.service,
  some_failed: exitCodes.someFailed,
  file_error: exitCodes.other,
  damaged_file: exitCodes.other,
  file_changed: exitCodes.other,
  already_running: exitCodes.other,
  store_error: exitCodes.other,
  cannot_listen: exitCodes.other,
  command_failed: exitCodes.other,
  output_error: exitCodes.other,
  interrupted: exitCodes.interrupted,
  internal_error: exitCodes.other,
} as const;

export type CliErrorCode = keyof typeof cliErrorCodes;
