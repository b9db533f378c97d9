/** Returns a comparison of texts by the Unicode root collation, which is the same on every machine. */
export function createTextComparison(): (one: string, other: string) => number {
  // English has no collation rules of its own, so this is the root collation. `und` would be the locale of the system.
  return new Intl.Collator('en').compare;
}
