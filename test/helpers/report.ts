/** Prints how often each event happened in a long test. */
export function report(counts: Record<string, number>): void {
  const text = Object.entries(counts).map(([what, count]) => `${what} ${count}`);
  process.stdout.write(`    ${text.join(', ')}\n`);
}
