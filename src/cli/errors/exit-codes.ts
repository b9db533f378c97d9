/** The exit codes: the same with and without `--json`. */
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
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** What each means, as `pets help exit-codes` prints it. */
export const exitCodeMeanings: readonly (readonly [ExitCode, string])[] = [
  [0, 'done; an empty list too'],
  [1, 'any other error'],
  [2, 'wrong usage: an argument, an option or a setting'],
  [3, 'not found'],
  [4, 'no key for the profile, or the key was rejected'],
  [5, 'rate-limited for longer than --max-wait'],
  [6, 'network failure or timeout; what became of a creation may be unknown'],
  [7, 'the service failed, or replied outside the contract'],
  [8, 'some rows failed'],
  [130, 'interrupted: Ctrl-C, or a signal to end'],
];
