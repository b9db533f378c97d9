import { Command as Commander, type Option as CommanderOption } from 'commander';
import { usageError } from '../core/errors.ts';
import { ArgumentError, integer, oneOf, seconds } from '../core/parsers.ts';
import { colorModes } from '../output/console.ts';
import { profileNames } from '../profiles/profile.ts';
import type { Argument, Command, GlobalOptions, Option, OutputOptionName } from './command.ts';

export const profileOption: Option = {
  flags: '--profile <name>',
  description: 'profile to use',
  defaultText: 'see pets profiles',
  choices: profileNames,
};
export const baseUrlOption: Option = {
  flags: '--base-url <url>',
  description: 'base URL of the service, including /v1',
};

/** The options that every command accepts, before or after its name. */
export const globalOptions: readonly Option[] = [
  profileOption,
  baseUrlOption,
  { flags: '--json', description: 'print JSON to stdout, and notices and errors as JSON lines to stderr' },
  {
    flags: '--max-wait <seconds>',
    description:
      'longest wait before each of up to six attempts, for example for a rate limit; with 0, pets never waits',
    parse: seconds(0),
    default: 75,
    variable: 'PETS_MAX_WAIT',
  },
  {
    flags: '--timeout <seconds>',
    description: 'time limit for each attempt',
    parse: seconds(0.001),
    default: 30,
  },
  {
    flags: '--max-time <seconds>',
    description: 'time limit for all requests of the command, with their retries and waits',
    parse: seconds(0.001),
  },
  { flags: '--no-retry', description: 'send each request only once' },
  { flags: '--debug', description: 'log each request to stderr' },
  { flags: '--color <when>', description: 'colorize the output', choices: colorModes, default: 'auto' },
  { flags: '--no-input', description: 'never prompt; continue without confirmation' },
  { flags: '-h, --help', description: 'show help' },
  {
    flags: '-V, --version',
    description: 'show the version; with --json also the build and how pets was installed',
  },
];

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
    description: 'write the output to this file instead of stdout',
    parse: parseOutput,
  },
} as const satisfies Record<OutputOptionName, Option>;

const ROWS =
  '; the extension .json, .ndjson, .csv, .tsv or .txt sets its format, unless an option such as --json does';

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

/** Creates the commander command `pets` with the global options. `globalsOf` checks their values later. */
export function createProgram(): Commander {
  const program = new Commander('pets').exitOverride().helpOption('-h, --help').helpCommand(false);
  for (const { flags } of globalOptions) if (!flags.endsWith('--help')) program.option(flags);
  return program;
}

/** The global options that decide how errors are printed. Options that have not been parsed have their defaults. */
export function flagsOf(program: Commander): Pick<GlobalOptions, 'json' | 'debug' | 'color'> {
  const { json = false, debug = false, color } = program.opts();
  return { json, debug, color: colorModes.find((mode) => mode === color) ?? 'auto' };
}

/**
 * The values of the global options. A variable, or else the default, replaces an option that is not given.
 *
 * @throws CliError for an invalid value
 */
export function globalsOf(
  program: Commander,
  env: Readonly<Record<string, string | undefined>>,
): GlobalOptions {
  const values: Record<string, unknown> = { json: false, debug: false };
  for (const option of program.options) {
    const declared = globalOptions.find(({ flags }) => flags === option.flags);
    if (declared === undefined) continue;
    const given = program.getOptionValue(option.attributeName());
    const variable = (given === undefined && declared.variable && env[declared.variable]) || undefined;
    const value = given ?? variable ?? declared.default;
    const name = (variable && declared.variable) ?? option.long ?? option.flags;
    const parse = typeof value === 'string' ? parserOf(declared, name, 'see: pets help global') : undefined;
    if (value !== undefined)
      values[option.attributeName()] = parse ? parse(value as string, undefined) : value;
  }
  return values as GlobalOptions;
}

export function declareParameters(
  command: Commander,
  {
    arguments: args = [],
    ...declaration
  }: Pick<Command, 'arguments' | 'options' | 'prints' | 'outputOptions'>,
): void {
  const help = helpFor(command);
  for (const declared of args) {
    const argument = command.createArgument(declared.name, declared.description);
    const parse = parserOf(declared, `<${argument.name()}>`, declared.hint ?? help, argument.variadic);
    command.addArgument(parse ? argument.argParser(parse) : argument);
  }
  for (const declared of optionsOf(declaration)) {
    // A command names a global option only to show it in its help. The program declares the option.
    if (globalOptions.includes(declared)) continue;
    const option = command.createOption(declared.flags);
    const parse = parserOf(
      declared,
      option.long ?? declared.flags,
      declared.hint ?? help,
      declared.repeatable,
    );
    // If a command prints data, an option given twice is an error: its first value, such as a filter, would be lost.
    // Settings, such as the options of `pets serve`, may be in a script or an alias, and a later value replaces them.
    const isSingle = option.required && !declared.repeatable && declaration.prints !== undefined;
    if (isSingle) option.argParser(onlyOnce(command, option, parse));
    else if (parse) option.argParser(parse);
    if (declared.default !== undefined) option.default(declared.default);
    if (declared.conflicts) option.conflicts([...declared.conflicts]);
    command.addOption(option);
  }
}

/** Wraps a parser so that a second value is an error. Otherwise, the second value would replace the first one. */
const onlyOnce =
  (
    command: Commander,
    option: CommanderOption,
    parse: ReturnType<typeof parserOf> = (text: string) => text,
  ) =>
  (text: string, previous: unknown): unknown => {
    if (command.getOptionValueSource(option.attributeName()) === 'cli')
      throw usageError(`${option.long} is given twice`, helpFor(command));
    return parse(text, previous);
  };

/** The values of the positional arguments by name. Property `id` contains the value of `<id...>`, for example. */
export const namedArguments = ({ registeredArguments, processedArgs }: Commander): Record<string, unknown> =>
  Object.fromEntries(registeredArguments.map((argument, i) => [argument.name(), processedArgs[i]]));

/** The words of a commander command, such as `keys` and `add`; none for the program. */
export function commandWords(command: Commander): string[] {
  const names: string[] = [];
  for (let each = command; each.parent; each = each.parent) names.unshift(each.name());
  return names;
}

const helpFor = (command: Commander): string =>
  `see: ${['pets', 'help', ...commandWords(command)].join(' ')}`;

/**
 * Returns a parser whose errors name the argument or option, and include a hint; undefined if every text is valid. With
 * `collect`, the parser appends to the values of earlier occurrences.
 */
function parserOf({ parse, choices }: Argument | Option, name: string, hint: string, collect = false) {
  const parser = parse ?? (choices && oneOf(choices));
  if (parser === undefined) return undefined;
  const checked = (text: string): unknown => {
    try {
      return parser(text);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      const lowerCase = choices?.find((choice) => choice === text.trim().toLowerCase());
      throw usageError(
        `${name} ${error.message}${error.message.startsWith('must not') ? '' : `, not ${JSON.stringify(text)}`}`,
        lowerCase === undefined ? hint : `did you mean ${lowerCase}?`,
      );
    }
  };
  if (!collect) return checked;
  return (text: string, previous: unknown) => [...((previous as unknown[] | undefined) ?? []), checked(text)];
}
