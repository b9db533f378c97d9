import { extname } from 'node:path';
import { usageError } from '../core/errors.ts';

/**
 * The forms in which commands print data. `rows` is a table or tab-separated lines. `text` is neither, such as a script
 * or a report.
 */
export type Format = 'rows' | 'json' | 'ndjson' | 'csv' | 'text';

/** The formats of a list. */
export const listFormats = ['rows', 'json', 'ndjson', 'csv'] as const satisfies readonly Format[];

/** The values of the options that `optionsOf` adds to a command. */
export type OutputOptions = {
  ndjson?: boolean;
  csv?: boolean;
  table?: boolean;
  width?: number;
  output?: string;
};

/** A format. `table` says whether rows are a table; undefined means that they are one on a terminal. */
export type ChosenFormat = { format: Format; table?: boolean };

const FLAGS = {
  json: { format: 'json' },
  ndjson: { format: 'ndjson' },
  csv: { format: 'csv' },
  table: { format: 'rows', table: true },
} as const satisfies Record<string, ChosenFormat>;

/**
 * The formats that an extension can mean, in order of preference. No command can write those of other programs, which have
 * an empty list.
 */
const EXTENSIONS: Readonly<Record<string, readonly ChosenFormat[]>> = {
  '.json': [{ format: 'json' }],
  '.ndjson': [{ format: 'ndjson' }],
  '.jsonl': [{ format: 'ndjson' }],
  '.csv': [{ format: 'csv' }],
  '.tsv': [{ format: 'rows', table: false }],
  '.txt': [{ format: 'rows', table: true }, { format: 'text' }],
  '.xlsx': [],
  '.xls': [],
  '.ods': [],
  '.pdf': [],
  '.html': [],
};

/** The extensions that a command can write, such as `.json, .tsv or .txt`. */
export function extensionsOf(prints: readonly Format[]): string {
  const names = Object.entries(EXTENSIONS)
    .filter(([, choices]) => choices.some(({ format }) => prints.includes(format)))
    .map(([name]) => name);
  const last = names.pop() ?? '';
  return names.length === 0 ? last : `${names.join(', ')} or ${last}`;
}

/**
 * The format that the options choose for a command that prints the formats `prints`. Without such an option, the
 * extension of the output file decides. The first format of the command is the default.
 *
 * @throws CliError if the options choose several formats, or if the command cannot write the file of this extension
 */
export function chooseFormat(
  { ndjson, csv, table, width, output }: OutputOptions,
  { prints, json }: { prints: readonly Format[]; json: boolean },
): ChosenFormat {
  const isGiven = { json, ndjson, csv, table };
  const given = (Object.keys(FLAGS) as (keyof typeof FLAGS)[]).filter((name) => isGiven[name] === true);
  if (given.length > 1) throw usageError(`--${given.join(' and --')} cannot be combined`, 'use only one');
  const chosen = given[0]
    ? FLAGS[given[0]]
    : (formatOfExtension(output, prints) ?? { format: prints[0] ?? 'text' });
  if (width === undefined) return chosen;
  if (chosen.format !== 'rows' || chosen.table === false)
    throw usageError('--width can only be used with a table', 'leave out --width, or use --table');
  return { ...chosen, table: true };
}

function formatOfExtension(output: string | undefined, prints: readonly Format[]): ChosenFormat | undefined {
  const extension = extname(output ?? '').toLowerCase();
  const choices = EXTENSIONS[extension];
  const chosen = choices?.find(({ format }) => prints.includes(format));
  if (choices !== undefined && chosen === undefined)
    throw usageError(`this command cannot write ${extension} files`, `use ${extensionsOf(prints)}`);
  return chosen;
}
