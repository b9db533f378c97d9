/**
 * Returns how many random cases a test runs: `all` in `npm run soak`, three tenths of them in `npm run test:all`
 * and `.ci/run`, and otherwise a tenth, rounded up.
 *
 * @param variable an environment variable that sets another number, as `npm run soak` does
 */
export function cases(all: number, variable?: `PETS_${string}`): number {
  const set = variable && process.env[variable];
  if (set) return Number(set);
  return Math.ceil((all * Number(process.env['PETS_CASES_PERCENT'] ?? 10)) / 100);
}

/** Prints the counts of a long test with their names, on one line. */
export function report(counts: Record<string, number>): void {
  const text = Object.entries(counts).map(([what, count]) => `${what} ${count}`);
  process.stdout.write(`    ${text.join(', ')}\n`);
}
