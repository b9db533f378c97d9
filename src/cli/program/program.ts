import { Command as Commander, CommanderError, Help, type Option } from 'commander';
import { type Context, version, wordsBeforeEnd } from '../core/context.ts';
import { CliError } from '../core/errors.ts';
import { ArgumentError, secondsParser } from '../core/values.ts';
import { colorModes } from '../output/console.ts';
import { profileNames } from '../profiles/profile.ts';
import {
  type Command,
  type CommandGroup,
  type GlobalOptions,
  type OutputOptionName,
  option,
  withUsageErrors,
} from './command.ts';
import { toUsageError } from './words.ts';

export const programSummary =
  "Show a pet shop's inventory and add to it. An HTTP service keeps the inventory.";

export const profileOption = option(
  '--profile <name>',
  'one of the three profiles: prod, staging or local (default: see pets profiles)',
  profileNames,
);
export const baseUrlOption = option('--base-url <url>', 'base URL of the service, including /v1');

const parseMaxWait = secondsParser(0);

/** The options that every command accepts, before or after its name. Commander adds those for version and help. */
export const globalOptions: readonly Option[] = [
  profileOption,
  baseUrlOption,
  option('--json', 'print JSON to stdout, and notes and errors as JSON lines to stderr').default(false),
  option('-q, --quiet', 'print only results and errors: no notes, no progress').default(false),
  option(
    '--max-wait <seconds>',
    'longest wait before each of up to six attempts, for example for a rate limit; with 0, pets never waits',
    parseMaxWait,
  ).default(75),
  option('--timeout <seconds>', 'time limit for each attempt', secondsParser(0.001)).default(30),
  option(
    '--max-time <seconds>',
    'time limit for all requests of the command, with their retries and waits',
    secondsParser(0.001),
  ),
  option('--no-retry', 'send each request only once'),
  option('--debug', 'show requests and responses, with headers and bodies, on stderr').default(false),
  option('--color <when>', 'colorize the output: auto, always or never', colorModes).default('auto'),
  option('--no-input', 'never ask: continue without confirmation, or stop if an answer is needed'),
];

/** An empty argument is usually an unset shell variable. */
function parseOutput(text: string): string {
  if (text === '') throw new ArgumentError('must be the name of a file');
  return text;
}

/** The options that choose how data is printed. JSON has the global option `--json`. */
const outputOptions: Record<OutputOptionName, Option> = {
  ndjson: option('--ndjson', 'stream one JSON object per line'),
  csv: option('--csv', 'print CSV (comma-separated values) with a header'),
  excel: option('--excel', 'print CSV that Excel opens correctly'),
  output: option('--output <file>', 'write to a file: .json, .ndjson, .csv, .tsv or .txt', parseOutput),
};
const textOutput = option('--output <file>', 'write to a file; JSON if its name ends in .json', parseOutput);
export const allOutputOptions = Object.keys(outputOptions) as OutputOptionName[];

/** All options of a command: its own, and those that choose how its data is printed. */
export function optionsOf({ options = [], prints, outputOptions: names }: Command): readonly Option[] {
  if (prints === 'text') return [...options, textOutput];
  const chosen = names ?? (prints === undefined ? [] : (['output'] as const));
  return [...options, ...chosen.map((name) => outputOptions[name])];
}

/** Reads the options that decide how errors are printed. Unlike commander, does so even if other arguments are wrong. */
export function flagsOf(argv: readonly string[]): Pick<GlobalOptions, 'json' | 'debug' | 'color'> {
  const words = wordsBeforeEnd(argv);
  const color = words.join(' ').match(/(?<=--color[= ])\w+/)?.[0];
  return {
    json: words.includes('--json'),
    debug: words.includes('--debug'),
    color: colorModes.find((mode) => mode === color) ?? 'auto',
  };
}

type Commands = readonly (Command | CommandGroup)[];

/** Declares all commands for commander, which passes pages of help and its error messages to `write`. */
export function createProgram(commands: Commands, write: (text: string) => void = () => {}) {
  const program = new Commander('pets')
    .usage('<command> [options]')
    .description(programSummary)
    .helpOption('-h, --help', 'show help')
    .helpCommand(false)
    .addHelpText('after', '\nTopics of pets help: global, environment, exit-codes. In a script, add --json.')
    // Subcommands inherit these settings.
    .configureHelp({ formatHelp: (command) => formatter.formatHelp(command, formatter) })
    .configureOutput({ writeOut: write, writeErr: write })
    .exitOverride();
  for (const declared of globalOptions) program.addOption(declared);
  program.version(version, '-V, --version', 'show the version');
  const declarations = new Map<Commander, Command>();
  const declare = (parent: Commander, command: Command) => {
    const { name, summary, aliases = [], arguments: args = [] } = command;
    const child = parent.command(name).aliases(aliases).summary(summary).description(sentence(summary));
    for (const declared of args) child.addArgument(declared);
    for (const declared of optionsOf(command)) child.addOption(declared);
    declarations.set(
      child.addHelpText('after', () => examplesAndNotes(command)),
      command,
    );
  };
  for (const entry of commands) {
    if ('run' in entry) declare(program, entry);
    else {
      const { name, summary } = entry;
      const group = program.command(name).usage('<command>').helpCommand(false).summary(summary);
      group.description(sentence(summary));
      group.addHelpText('after', `\nOptions of a command: pets help ${name} <command>`);
      for (const command of entry.commands) declare(group, command);
    }
  }
  return { program, declarations };
}

const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

/** A command of the command line with the values of its options and arguments, or a text such as a page of help. */
type Parsed =
  | { command: Command; options: Record<string, unknown>; globals: GlobalOptions; program: Commander }
  | { text: string };

/** Finds the command that the arguments name. @throws CliError for wrong usage */
export function parseCommandLine(argv: readonly string[], env: Context['env'], commands: Commands): Parsed {
  let text = '';
  const { program, declarations } = createProgram(commands, (part) => {
    text += part;
  });
  let parsed: Parsed = { text };
  for (const [child, command] of declarations)
    child.action(() => {
      // `id` has the values of the argument `<id...>`, for example.
      const values = child.registeredArguments.map((each, i) => [each.name(), child.processedArgs[i]]);
      const options = { ...child.opts(), ...Object.fromEntries(values) };
      parsed = { command, options, globals: globalsOf(program, env), program };
    });
  /** The command whose arguments commander parses. */
  let current = program;
  for (const parent of [program, ...program.commands])
    parent.hook('preSubcommand', (_, child) => {
      current = child;
    });
  try {
    program.parse(argv, { from: 'user' });
    return parsed;
  } catch (error) {
    // `pets keys` without a subcommand prints the help of the group. With `--json`, this is an error.
    const isHelp = (code: string) => code === 'commander.help' && !flagsOf(argv).json;
    if (error instanceof CommanderError && (error.exitCode === 0 || isHelp(error.code))) return { text };
    const name = wordsOf(current).join(' ');
    const usage =
      error instanceof CommanderError ? toUsageError(error, name, current, declarations.get(current)) : error;
    if (!(usage instanceof CliError) || usage.hint !== undefined) throw usage;
    const isNamed = ({ long }: Option) => usage.message.includes(`${long} `);
    const page = `${name} ${current.options.find(isNamed)?.helpGroupHeading ?? ''}`.trim();
    throw usage.withHint(`see: pets help ${globalOptions.some(isNamed) ? 'global' : page}`.trimEnd());
  }
}

/** The words of a commander command, such as `keys` and `add`; none for the program. */
const wordsOf = (command: Commander): string[] =>
  command.parent ? [...wordsOf(command.parent), command.name()] : [];

/** The values of the global options. @throws CliError for an invalid value of PETS_MAX_WAIT */
function globalsOf(program: Commander, env: Context['env']): GlobalOptions {
  const globals = program.opts<GlobalOptions>();
  // `env` of commander would read the variables of this process instead of those of the context.
  const text = env['PETS_MAX_WAIT'];
  if (!text || program.getOptionValueSource('maxWait') !== 'default') return globals;
  const parse = withUsageErrors('PETS_MAX_WAIT', parseMaxWait, 'see: pets help global');
  return { ...globals, maxWait: parse(text) as number };
}

/** The width of help, whatever the terminal. The build stores the pages. */
const COLUMNS = 80;

export const wrapText = (text: string): string => formatter.boxWrap(text, COLUMNS);

/** Commander's help, for a terminal of 80 columns. */
export const formatter = Object.assign(new Help(), {
  helpWidth: COLUMNS,
  // The global options have a page of their own, and so have the groups of the options of pets serve.
  visibleOptions: ({ parent, options }: Commander) =>
    parent ? options.filter(({ helpGroupHeading }) => helpGroupHeading === undefined) : [],
  // Unlike commander, does not add the choices, because the descriptions name them.
  optionDescription({ description, defaultValue }: Commander['options'][number]): string {
    const isShown = defaultValue !== undefined && typeof defaultValue !== 'boolean';
    return isShown ? `${description} (default: ${defaultValue})` : description;
  },
  argumentDescription: ({ description }: Commander['registeredArguments'][number]) => description,
  subcommandTerm: (command: Commander) =>
    `${command.name()} ${command
      .usage()
      .replace(/\[.*\]/, '')
      .trim()}`,
});

export type HelpItem = readonly [term: string, description: string];

/** A title above terms with their descriptions. */
export function section(title: string, items: readonly HelpItem[]): string {
  const width = Math.max(...items.map(([term]) => term.length));
  const lines = items.map(([term, description]) => formatter.formatItem(term, width, description, formatter));
  return `${title}:\n${lines.join('\n')}\n`;
}

/** The end of a command's page of help. An example stays on one line, so that it can be copied. */
export function examplesAndNotes({ examples, notes }: Command): string {
  const more = 'Options of every command, such as --profile and --json: pets help global';
  const lines = examples.map((line) => `\n  ${line}`).join('');
  return `\n${more}\n\nExamples:${lines}${notes === undefined ? '' : `\n\n${wrapText(notes)}`}`;
}
