import { ArgumentError, integer } from '../core/parsers.ts';
import type { Command, Option, OutputOptionName } from './command.ts';

/** An empty argument is usually an unset shell variable. */
function parseOutput(text: string): string {
  if (text === '') throw new ArgumentError('must be the name of a file');
  return text;
}

/** The options that choose how data is printed. JSON has the global option `--json`. */
const outputOptions = {
  ndjson: { flags: '--ndjson', description: 'stream one JSON object per line' },
  csv: { flags: '--csv', description: 'print CSV (comma-separated values) with a header' },
  excel: { flags: '--excel', description: 'print CSV that Excel opens correctly' },
  width: {
    flags: '--width <columns>',
    description: 'print a table of this width (default: width of the terminal, or 80)',
    parse: integer(10, 1_000),
  },
  output: {
    flags: '--output <file>',
    description: 'write the data to this file',
    parse: parseOutput,
  },
} as const satisfies Record<OutputOptionName, Option>;

const ROWS = '; .json, .ndjson, .csv, .tsv or .txt chooses the format';

export const allOutputOptions = Object.keys(outputOptions) as OutputOptionName[];

/** All options of a command: its own, and those that choose how its data is printed. */
export function optionsOf({
  options = [],
  prints,
  outputOptions: names = prints === undefined ? [] : ['output'],
}: Pick<Command, 'options' | 'prints' | 'outputOptions'>): readonly Option[] {
  const chosen = names.map((name): Option => {
    const option = outputOptions[name];
    if (name !== 'output' || prints !== 'rows') return option;
    return { ...option, description: option.description + ROWS };
  });
  return [...options, ...chosen];
}
