import type { Command as Commander, Option } from 'commander';
import { usageError } from '../core/errors.ts';
import { exitCodeMeanings } from '../core/exit-codes.ts';
import { argument, type Command } from '../program/command.ts';
import { formatter, type HelpItem, programSummary, section, wrapText } from '../program/program.ts';
import { hintFor } from '../program/words.ts';

export const help: Command<{ topic: readonly string[] }> = {
  name: 'help',
  summary: 'show the help of a command or topic',
  examples: ['pets help list', 'pets help exit-codes'],
  arguments: [argument('[topic...]', 'command, or one of the topics in pets help')],
  async run({ topic }, { program, console }) {
    let text = helpTopics[topic.join(' ')]?.(program) ?? '';
    if (text === '')
      findCommand(topic, program)
        .configureOutput({
          writeOut(part) {
            text += part;
          },
        })
        .outputHelp();
    await console.write(text);
  },
};

/** @throws CliError if there is no such command */
function findCommand(names: readonly string[], program: Commander): Commander {
  let command: Commander | undefined = program;
  for (const name of names)
    command = command?.commands.find((child) => [child.name(), ...child.aliases()].includes(name));
  if (command) return command;
  const hint = hintFor(names.join(' ')) ?? 'for commands and topics, see: pets help';
  throw usageError(`no help for ${names.join(' ')}`, hint);
}

/** The first commands that each kind of user needs. */
export const firstCommands = {
  'In the shop': {
    'pets login': 'save your API key, once',
    'pets list --status available': 'list animals for sale',
    'pets find rex': 'find animals by name',
    'pets count --by category': 'count the animals of each category',
    'pets add Rex --category 3': 'add an animal',
    'pets orders --since yesterday': 'show orders from yesterday on',
    'pets profiles --check': 'show how many requests you have left',
  },
  'In a script, with PETS_BASE_URL and PETS_API_KEY instead of pets login': {
    'pets list --all --json | jq length': 'print JSON for another program',
    'pets import animals.csv': 'add animals; if interrupted, run it again',
  },
  'On your own machine': {
    'pets serve --seed': 'run the service with sample animals',
    'pets --profile local list': 'list them from another terminal',
    'pets serve --ephemeral -- npm test': 'run tests against a throwaway service',
  },
};

/** The output of `pets` without arguments. It fits on a terminal of 80 columns and 24 lines. */
export function overviewPage(): string {
  const groups = Object.entries(firstCommands).map(([title, lines]) => section(title, Object.entries(lines)));
  const more = 'Run pets --help for all commands, or pets help <command> for one.';
  return [`${wrapText(programSummary)}\n`, ...groups, `${more}\n`].join('\n');
}

export const environmentVariables: Readonly<Record<string, string>> = {
  PETS_PROFILE: 'profile to use if --profile is not given: prod, staging or local',
  PETS_API_KEY:
    "API key; sent to PETS_BASE_URL if that is set, otherwise to the profile's base URL; ignored if --profile is given",
  PETS_BASE_URL: 'base URL of the service, including /v1; ignored if --profile is given',
  PETS_MAX_WAIT: 'default for --max-wait, in seconds',
  PETS_ALLOW_HTTP: 'set to 1 to allow plain http to another machine',
  PETS_CONFIG_DIR: 'directory for profiles',
  PETS_STATE_DIR: 'directory for state: rate-limit waits, and which animals were added',
  PETS_DATA: 'directory or postgres:// URL of the store that pets serve, pets keys and pets store use',
  PETS_SERVE_KEY: 'API key that pets serve accepts instead of a generated one, at least 20 characters',
  PETS_SERVE_TOKEN:
    'token for the developer tools of pets serve, at least 20 characters (default: a new one at each start)',
  XDG_CONFIG_HOME: 'base directory for profiles',
  XDG_STATE_HOME: 'base directory for state',
  XDG_DATA_HOME: 'base directory for the store of pets serve',
  'HTTP_PROXY, HTTPS_PROXY, NO_PROXY':
    'proxies, and hosts to reach without one; never used for localhost; lower case and ALL_PROXY work too',
  CI: 'set by CI systems: pets asks nothing, as with --no-input',
  NODE_EXTRA_CA_CERTS: 'file with additional certificates to trust',
  'NO_COLOR, FORCE_COLOR':
    'disable colors, or force them when not writing to a terminal; --color overrides this',
};

const GLOBAL =
  'Every command accepts these options, before or after its name. Results go to stdout; rows are a table at a terminal, otherwise lines with tabs and no header. Notes and errors go to stderr. A profile is a name for the saved base URL and API key of a service. pets sends the key only to the server that it was saved for, so --base-url can only change the path there (except in pets login). For another server, log in with another profile, or set PETS_BASE_URL and PETS_API_KEY.';

const optionItem = (option: Option): HelpItem => [option.flags, formatter.optionDescription(option)];

function serveOptions(program: Commander, group: string): string {
  const options = program.commands.find((each) => each.name() === 'serve')?.options ?? [];
  const items = options.filter(({ helpGroupHeading }) => helpGroupHeading === group).map(optionItem);
  return section(`Options of pets serve for ${group}`, items);
}

/** The pages of `pets help` that are not pages of commands. */
export const helpTopics: Readonly<Record<string, (program: Commander) => string>> = {
  global(program) {
    const items = [...program.options.map(optionItem), ['-h, --help', 'show help'] as const];
    return `${wrapText(GLOBAL)}\n\n${section('Options', items)}`;
  },
  environment: () => section('Environment variables', Object.entries(environmentVariables)),
  'exit-codes': () =>
    section(
      'Exit codes',
      exitCodeMeanings.map(([code, meaning]) => [String(code).padStart(3), meaning]),
    ),
  'serve keys': (program) => serveOptions(program, 'keys'),
  'serve faults': (program) => serveOptions(program, 'faults'),
  'serve network': (program) => serveOptions(program, 'network'),
};
