/** A metric with its samples by their labels. The sum and count of a histogram have the suffixes _sum and _count. */
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
