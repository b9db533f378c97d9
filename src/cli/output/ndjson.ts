import { stringifyJson } from '../../contract/json.ts';
import type { Console } from './console.ts';
import { sanitizeJson } from './sanitize.ts';

/** Writes one JSON document per line. */
export function writeNdjson<Value>(
  console: Console,
  values: readonly Value[],
  toJson: (value: Value) => string = stringifyJson,
): Promise<void> {
  const lines = values.map((value) => `${toJson(value)}\n`).join('');
  return console.write(console.isTerminal ? sanitizeJson(lines) : lines);
}
