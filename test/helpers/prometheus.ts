/** A metric. The keys of `samples` are labels, followed by _sum or _count for the sum or count of a histogram. */
type Family = { type: string; samples: Record<string, number> };

/** Parses metrics in the text format of Prometheus. */
export function parseMetrics(text: string): Record<string, Family> {
  const families: Record<string, Family> = {};
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm)) {
    const sample = new RegExp(`^${name}(_sum|_count|)(?:_bucket)?(?:\\{(.*)\\})? (\\S+)$`, 'gm');
    const samples = Array.from(text.matchAll(sample), ([, suffix = '', labels = '', value]) => [
      ...[labels + suffix, Number(value)],
    ]);
    families[name] = { type, samples: Object.fromEntries(samples) };
  }
  return families;
}
