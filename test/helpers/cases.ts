/**
 * Returns how many random cases a test runs. In `npm test`, this is a tenth of `all`; in `npm run test:all`, it is `all`.
 *
 * @param variable an environment variable that sets another number, as `npm run soak` does
 */
export function cases(all: number, variable?: `PETS_${string}`): number {
  const set = variable && process.env[variable];
  if (set) return Number(set);
  return process.env['PETS_ALL_CASES'] ? all : Math.ceil(all / 10);
}

/** Prints how often each event happened in a long test. */
export function report(counts: Record<string, number>): void {
  const text = Object.entries(counts).map(([what, count]) => `${what} ${count}`);
  process.stdout.write(`    ${text.join(', ')}\n`);
}
