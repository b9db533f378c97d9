import { Command as Commander } from 'commander';
import { usageError } from '../core/errors.ts';
import { ArgumentError, oneOf, seconds } from '../core/parsers.ts';
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
const maxWaitOption = {
  flags: '--max-wait <seconds>',
  description:
    'longest wait before each of up to six attempts, for example for a rate limit; with 0, pets never waits',
  parse: seconds(0),
  default: 75,
};

/** The options that every command accepts, before or after its name. */
export const globalOptions: readonly Option[] = [
  profileOption,
  baseUrlOption,
  { flags: '--json', description: 'print JSON to stdout, and notes and errors as JSON lines to stderr' },
  { flags: '-q, --quiet', description: 'print only results and errors: no notes, no progress' },
  maxWaitOption,
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
  { flags: '-V, --version', description: 'show the version; with --json also that of Node' },
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
  output: {
    flags: '--output <file>',
    description: 'write to this file instead of stdout',
    parse: parseOutput,
  },
} as const satisfies Record<OutputOptionName, Option>;

const ROWS = '; .json, .ndjson, .csv, .tsv or .txt sets the format';
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

/** Creates the commander command `pets` with the global options. */
export function createProgram(): Commander {
  const program = new Commander('pets').helpCommand(false);
  for (const option of globalOptions) declareOption(program, option, 'see: pets help global');
  return program;
}

/** The global options that decide how errors are printed, even if the rest of the line is wrong. */
export function flagsOf(argv: readonly string[]): Pick<GlobalOptions, 'json' | 'debug' | 'color'> {
  const words = argv.slice(0, [...argv, '--'].indexOf('--'));
  const color = words.join(' ').match(/(?<=--color[= ])\w+/)?.[0];
  return {
    json: words.includes('--json'),
    debug: words.includes('--debug'),
    color: colorModes.find((mode) => mode === color) ?? 'auto',
  };
}

/** The values of the global options. @throws CliError for an invalid value of PETS_MAX_WAIT */
export function globalsOf(
  program: Commander,
  env: Readonly<Record<string, string | undefined>>,
): GlobalOptions {
  const { json = false, quiet = false, debug = false, ...rest } = program.opts<GlobalOptions>();
  // `env` of commander would read the variables of this process instead of those of the context.
  const name = 'PETS_MAX_WAIT';
  const isSet = program.getOptionValueSource('maxWait') === 'default' && env[name];
  const maxWait = isSet
    ? checked(maxWaitOption, name, 'see: pets help global')(env[name] ?? '')
    : rest.maxWait;
  return { ...rest, json, quiet, debug, maxWait: maxWait as number };
}

/** Declares the arguments and options of a command. */
export function declareParameters(
  command: Commander,
  { arguments: args = [], ...rest }: Pick<Command, 'arguments' | 'options' | 'prints' | 'outputOptions'>,
): void {
  const see = `see: ${['pets', 'help', ...commandWords(command)].join(' ')}`;
  for (const declared of args) {
    const argument = command.createArgument(declared.name, declared.description);
    const parse = checked(declared, `<${argument.name()}>`, see);
    command.addArgument(argument.argParser(argument.variadic ? collect(parse) : parse));
  }
  // A command names a global option only to show it in its help. The program declares the option.
  for (const option of optionsOf(rest))
    if (!globalOptions.includes(option)) declareOption(command, option, see);
}

function declareOption(command: Commander, declared: Option, see: string): void {
  if (declared.flags.endsWith('--help')) return void command.helpOption(declared.flags);
  const option = command.createOption(declared.flags, declared.description);
  if (option.required || option.optional) {
    const parse = checked(declared, option.long ?? declared.flags, see);
    option.argParser(declared.repeatable ? collect(parse) : parse);
  }
  if (declared.default !== undefined) option.default(declared.default);
  command.addOption(option.conflicts([...(declared.conflicts ?? [])]));
}

type Parse = (text: string) => unknown;

/** Collects the values of an argument or option that may be given several times. */
const collect = (parse: Parse) => (text: string, previous: unknown) => [
  ...((previous as unknown[] | undefined) ?? []),
  parse(text),
];

/** Returns a parser whose errors name the argument or option, and include a hint. Choices may be typed in any case. */
function checked({ parse, choices, hint }: Argument | Option, name: string, see: string): Parse {
  const parser = parse ?? (choices ? oneOf(choices) : (text: string) => text);
  return (text) => {
    try {
      return parser(choices ? text.trim().toLowerCase() : text);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      const given = error.message.startsWith('must not') ? '' : `, not ${JSON.stringify(text)}`;
      throw usageError(`${name} ${error.message}${given}`, hint ?? see);
    }
  };
}

/** The values of the positional arguments by name. Property `id` contains the value of `<id...>`, for example. */
export const namedArguments = ({ registeredArguments, processedArgs }: Commander): Record<string, unknown> =>
  Object.fromEntries(registeredArguments.map((argument, i) => [argument.name(), processedArgs[i]]));

/** The words of a commander command, such as `keys` and `add`; none for the program. */
export function commandWords(command: Commander): string[] {
  const names: string[] = [];
  for (let each = command; each.parent; each = each.parent) names.unshift(each.name());
  return names;
}
