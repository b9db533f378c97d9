/** Prints how often each event happened in a long test. */
export function report(figures: Record<string, number>): void {
  const text = Object.entries(figures).map(([what, count]) => `${what} ${count}`);
  process.stdout.write(`    ${text.join(', ')}\n`);
}
