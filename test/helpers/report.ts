/** Prints a figure that a long run measured, below the name of its test. */
export function report(figures: Record<string, number>): void {
  const text = Object.entries(figures).map(([what, count]) => `${what} ${count}`);
  process.stdout.write(`    ${text.join(', ')}\n`);
}
