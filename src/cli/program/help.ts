import type { Command as Commander, HelpConfiguration } from 'commander';
import { usageError } from '../core/errors.ts';
import { exitCodeMeanings } from '../core/exit-codes.ts';
import { wrapText } from '../output/width.ts';
import type { Command } from './command.ts';

/** The maximum width of help, because long lines are hard to read. */
export const MAX_HELP_COLUMNS = 80;

export const programSummary =
  "A pet store's inventory from the command line, plus a local copy of the service.";

/** The first commands that each kind of user needs. */
export const firstCommands = {
  'In the shop': {
    'pets login': 'save your API key, once',
    'pets list --status available': 'list the animals for sale',
    'pets find rex': 'find animals by name',
    'pets count': 'count the animals of each status',
    'pets add Rex --category 3': 'add an animal',
    'pets orders --since yesterday': 'show the latest orders',
    'pets profiles --check': 'show how many requests you have left',
  },
  'In a script': {
    'pets list --all --json | jq length': 'print JSON',
    'pets import animals.csv': 'add many animals, none of them twice',
  },
  'On your own machine': {
    'pets serve --seed': 'run the service with sample animals',
    'pets --profile local list': 'list them from another terminal',
    'pets serve --ephemeral -- npm test': 'run tests against a throwaway service',
  },
};

/** The width of the longest example command plus three spaces. */
const EXAMPLE_COLUMNS = 37;

/**
 * A command or option with its description, formatted for this number of columns. On a narrow terminal, the
 * description gets its own lines, because commander would not wrap it.
 */
function item(term: string, termColumns: number, description: string, columns: number): string {
  if (columns >= MAX_HELP_COLUMNS) return `  ${term.padEnd(termColumns)}${description}`;
  return `  ${term}\n${wrapText(`      ${description}`, columns, 6)}`;
}

/** A list of commands with their descriptions, below a title. */
function section(title: string, lines: Record<string, string>, termColumns: number, columns: number): string {
  const shown = Object.entries(lines).map(
    ([command, text]) => `${item(command, termColumns, text, columns)}\n`,
  );
  return `${title}:\n${shown.join('')}`;
}

/** A summary of the program, and examples. This text is printed above the list of commands. */
export function overview(columns: number): string {
  const groups = Object.entries(firstCommands).map(([title, lines]) =>
    section(title, lines, EXAMPLE_COLUMNS, columns),
  );
  return `${wrapText(programSummary, columns, 0)}\n\n${groups.join('\n')}`;
}

/** The output of `pets` without arguments. It fits on a terminal of 80 columns and 24 lines. */
export function startPage(names: readonly string[], columns: number): string {
  const all = wrapText(`Commands: ${names.join(', ')}`, columns, 2);
  const more = 'Run pets --help for all commands and options, or pets help <command> for one.';
  return `${overview(columns)}\n${all}\n\n${wrapText(more, columns, 0)}\n`;
}

/** The commands that show more help. This text is printed below the list of commands. */
export function helpCommands(columns: number): string {
  const lines = {
    'pets help <command>': 'options and examples of a command',
    'pets help exit-codes': 'what each exit code means',
    'pets help environment': 'environment variables',
  };
  return section('Help', lines, 26, columns);
}

/** The summary of a command, and examples. This text is printed above the arguments and options of the command. */
export function commandOverview({ summary, examples }: Command, columns: number): string {
  return `${wrapText(summary, columns, 0)}\n\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}`;
}

/** Commander's settings for lists of options and commands on a terminal narrower than MAX_HELP_COLUMNS. */
export const narrowHelp = (columns: number): HelpConfiguration => ({
  formatItem: (term, _termColumns, description) => item(term, 0, description, columns),
});

/** Implements `pets help`, which prints the page of a command or a topic. */
export function addHelpCommand(program: Commander, columns: number, show: (text: string) => void): void {
  program
    .command('help [topic...]')
    .summary(`show help for a command, or about ${Object.keys(topics).join(' or ')}`)
    .action((names: string[]) => {
      const topic = topics[names.join(' ')];
      if (topic === undefined) commandAt(program, names).outputHelp();
      else show(topic(columns));
    });
}

/** Finds the command with these names, such as `keys add`. @throws CliError if there is none */
function commandAt(program: Commander, names: readonly string[]): Commander {
  let command = program;
  for (const name of names) {
    const next = command.commands.find((child) => child.name() === name);
    if (next === undefined) throw usageError(`no help for ${names.join(' ')}`, 'see: pets help');
    command = next;
  }
  return command;
}

/** The environment variables that the program reads, for `pets help environment`. */
export const environmentVariables: Readonly<Record<string, string>> = {
  PETS_PROFILE: 'profile to use if --profile is not given: prod, staging or local',
  PETS_API_KEY: "API key; sent to PETS_BASE_URL if that is set, otherwise to the profile's base URL",
  PETS_BASE_URL: 'base URL of the service, including /v1',
  PETS_MAX_WAIT: 'default for --max-wait, in seconds',
  PETS_STRICT: 'set to 1 to refuse responses that do not match the specification, like --strict',
  PETS_ALLOW_HTTP: 'set to 1 to allow plain http to another machine',
  PETS_CONFIG_DIR: 'directory for profiles',
  PETS_STATE_DIR: 'directory for state: rate-limit waits, and records of added rows',
  PETS_DATA: 'directory or postgres:// URL of the store of pets serve, keys and store',
  PETS_SERVE_KEY: 'API key that pets serve accepts instead of a generated one',
  PETS_SERVE_TOKEN: 'developer token of pets serve, instead of a new one; pets keys list asks with it',
  'XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME':
    'base directories for configuration, state and data files',
  XDG_RUNTIME_DIR: 'base directory for state if the state directory is not writable',
  'HTTP_PROXY, HTTPS_PROXY, NO_PROXY':
    'proxies (lower case works too); never used for services on this machine',
  NODE_EXTRA_CA_CERTS: 'file with additional certificates to trust',
  'NO_COLOR, FORCE_COLOR':
    'disable colors, or force them when not writing to a terminal; --color overrides this',
};

/** The help topics that are not commands. Each returns its page for a terminal of the given width. */
export const topics: Readonly<Record<string, (columns: number) => string>> = {
  'exit-codes': (columns) =>
    exitCodeMeanings
      .map(([code, meaning]) => {
        const lines = wrapText(meaning, columns - 5, 0).replaceAll('\n', `\n${' '.repeat(5)}`);
        return `${String(code).padStart(3)}  ${lines}\n`;
      })
      .join(''),
  environment: (columns) =>
    Object.entries(environmentVariables)
      .map(([name, meaning]) => `${wrapText(name, columns, 0)}\n${wrapText(`    ${meaning}`, columns, 4)}\n`)
      .join(''),
};
