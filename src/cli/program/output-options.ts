import type { Format } from '../output/format.ts';
import type { Command, Option } from './command.ts';
import { integer } from './parsers.ts';

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

/** All options of a command: its own, and those for the formats in which it prints data. */
export const optionsOf = ({
  options = [],
  prints = [],
}: Pick<Command, 'options' | 'prints'>): readonly Option[] => [
  ...options,
  ...formatOptions.filter(([format]) => prints.includes(format)).map(([, option]) => option),
];
