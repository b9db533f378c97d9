import { ArgumentError, integer } from '../core/parsers.ts';
import { extensionsOf, type Format } from '../output/format.ts';
import type { Command, Option } from './command.ts';

/** The options for each format. JSON has the global option `--json`. */
const formatOptions: readonly (readonly [Format, Option])[] = [
  ['ndjson', { flags: '--ndjson', description: 'stream one JSON object per line' }],
  ['csv', { flags: '--csv', description: 'print CSV (comma-separated values) with a header' }],
  ['rows', { flags: '--table', description: 'print a table even if stdout is not a terminal' }],
  [
    'rows',
    {
      flags: '--width <columns>',
      description: 'width of the table (default: width of the terminal, or 80)',
      parse: integer(10, 1_000),
    },
  ],
];

/** An empty argument is usually an unset shell variable. */
function parseOutput(text: string): string {
  if (text === '') throw new ArgumentError('must be the name of a file');
  return text;
}

/** All options of a command: its own, and those for the formats in which it prints data. */
export function optionsOf({
  options = [],
  prints = [],
}: Pick<Command, 'options' | 'prints'>): readonly Option[] {
  if (prints.length === 0) return options;
  const choice = prints.length === 1 ? '' : `; ${extensionsOf(prints)} chooses the format`;
  const output = {
    flags: '--output <file>',
    description: `write the data to this file${choice}`,
    parse: parseOutput,
  };
  const own = formatOptions.filter(([format]) => prints.includes(format));
  return [...options, ...own.map(([, option]) => option), output];
}
