/**
 * Returns how many random cases a test runs: `all` in `npm run test:all`, or a tenth of it in `npm test`, rounded up.
 *
 * @param variable an environment variable that sets another number, as `npm run soak` does
 */
export function cases(all: number, variable?: `PETS_${string}`): number {
  const set = variable && process.env[variable];
  if (set) return Number(set);
  return process.env['PETS_ALL_CASES'] ? all : Math.ceil(all / 10);
}

/** Prints the counts of a long test with their names, on one line. */
export function report(counts: Record<string, number>): void {
  const text = Object.entries(counts).map(([what, count]) => `${what} ${count}`);
  process.stdout.write(`    ${text.join(', ')}\n`);
}
