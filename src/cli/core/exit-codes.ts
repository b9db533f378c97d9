/** The exit codes, the same with and without `--json`. `pets serve` can also exit with the code of its command. */
export const exitCodes = {
  ok: 0,
  other: 1,
  usage: 2,
  notFound: 3,
  noKey: 4,
  rateLimited: 5,
  network: 6,
  service: 7,
  someFailed: 8,
  commandFailed: 126,
  commandNotFound: 127,
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** The exit code of a command line after SIGTERM, if the command itself does not handle the signal. */
export function exitCodeOnSigterm(argv: readonly string[]): number {
  if (argv.find((word) => !word.startsWith('-')) !== 'serve') return exitCodes.interrupted;
  // The command after `--` has not succeeded. A shell reports 143 for a command that SIGTERM ended.
  return argv.includes('--') ? 143 : exitCodes.ok;
}

export const exitCodeMeanings: readonly (readonly [ExitCode, string])[] = [
  [0, 'success (including an empty list)'],
  [1, 'any other error'],
  [2, 'wrong usage: invalid argument, option, setting or input file'],
  [3, 'not found'],
  [4, 'no API key for the profile, or the service rejected the key'],
  [5, 'rate-limited: the wait is too long for --max-wait or --max-time, or no attempt is left'],
  [6, 'network error or timeout; or a failure while adding an animal, which may have been added'],
  [7, 'any other failure of the service, or an unexpected response'],
  [8, 'some rows of an import failed, or may or may not have been added'],
  [126, 'the command after -- of pets serve cannot be started, for example because it is not executable'],
  [127, 'the command after -- of pets serve was not found; if it runs, pets serve exits with its code'],
  [130, 'interrupted by Ctrl-C or a signal; pets serve exits with 0, or the code of its command'],
];

/**
 * The error codes of `pets` itself, with their exit codes. Scripts rely on both. Other codes are those that the service
 * sends in error responses, and `http_<status>` for error responses without a code.
 */
export const cliErrorCodes = {
  usage: exitCodes.usage,
  no_key: exitCodes.noKey,
  bad_key: exitCodes.noKey,
  not_found: exitCodes.notFound,
  rate_limited: exitCodes.rateLimited,
  network_error: exitCodes.network,
  timeout: exitCodes.network,
  local_error: exitCodes.other,
  outcome_unknown: exitCodes.network,
  contract_error: exitCodes.service,
  some_failed: exitCodes.someFailed,
  file_error: exitCodes.other,
  damaged_file: exitCodes.other,
  already_imported: exitCodes.other,
  already_running: exitCodes.other,
  unsuitable_orders: exitCodes.other,
  store_error: exitCodes.other,
  cannot_listen: exitCodes.other,
  command_failed: exitCodes.commandFailed,
  command_not_found: exitCodes.commandNotFound,
  declined: exitCodes.other,
  output_error: exitCodes.other,
  interrupted: exitCodes.interrupted,
  internal_error: exitCodes.other,
} as const;

export type CliErrorCode = keyof typeof cliErrorCodes;
