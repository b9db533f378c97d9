/** A metric with its samples, by their labels. The sum and count of a histogram have the suffixes `_sum` and `_count`. */
type Family = { type: string; samples: Record<string, number> };

const SAMPLE = /^([a-z_]+?)(_bucket|_sum|_count)?(?:\{([^{}]*)\})? (\S+)$/;
const LABELS = /^(?:[a-z_]+="[^"\\\n]*"(?:,(?=[a-z])|$))*$/;

/** Parses metrics in the text format of Prometheus. @throws Error if anything does not match the format exactly */
export function parseMetrics(text: string): Record<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line is incomplete');
  const families: Record<string, Family> = {};
  for (const block of text.trimEnd().split('\n\n')) {
    const [help = '', type = '', ...samples] = block.split('\n');
    const [, name = ''] = /^# HELP ([a-z_]+) \S.*$/.exec(help) ?? fail(help);
    const [, kind = ''] = new RegExp(`^# TYPE ${name} (counter|gauge|histogram)$`).exec(type) ?? fail(type);
    if (families[name]) fail(`${name} is repeated`);
    families[name] = {
      type: kind,
      samples: Object.fromEntries(samples.map((line) => parseSample(name, kind, line))),
    };
    if (Object.keys(families[name].samples).length !== samples.length) fail(`${name} has equal samples`);
  }
  return families;
}

function parseSample(family: string, type: string, line: string): [string, number] {
  const [, base = '', suffix = '', labels = '', value = ''] = SAMPLE.exec(line) ?? fail(line);
  const isOwn = base === family && (type === 'histogram') === (suffix !== '');
  if (!isOwn || !LABELS.test(labels) || Number.isNaN(Number(value))) fail(line);
  return [suffix === '_bucket' ? labels : labels + suffix, Number(value)];
}

function fail(text: string): never {
  throw new Error(`not in the format: ${text}`);
}
