import { usageError } from '../core/errors.ts';
import { exitCodeMeanings } from '../core/exit-codes.ts';
import type { Command, CommandContext } from '../program/command.ts';
import { globalOptions } from '../program/declare.ts';
import {
  commandItem,
  commandPage,
  groupPage,
  groupsOf,
  heading,
  type Item,
  optionItem,
  optionsPage,
  paragraph,
  section,
  wrap,
} from '../program/help.ts';
import { hintForCommand } from '../program/words.ts';

type Commands = CommandContext['commands'];

export const help: Command<{ topic: readonly string[] }> = {
  name: 'help',
  summary: 'show the help of a command or topic',
  examples: ['pets help list', 'pets help exit-codes'],
  arguments: [{ name: '[topic...]', description: 'command, or one of the topics in pets help' }],
  async run({ topic }, { commands, console }) {
    await console.write(helpPage(topic, commands));
    return undefined;
  },
};

export const programSummary =
  "Show a pet shop's inventory and add to it. An HTTP service keeps the inventory.";

/** The first commands that each kind of user needs. */
export const firstCommands = {
  'In the shop': {
    'pets login': 'save your API key, once',
    'pets list --status available': 'list the first 20 animals for sale',
    'pets find rex': 'find animals by name',
    'pets count --by category': 'count the animals of each category',
    'pets add Rex --category 3': 'add an animal',
    'pets orders --since yesterday': 'show the latest orders',
    'pets profiles --check': 'show how many requests you have left',
  },
  'In a script': {
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
export function startPage(commands: Commands): string {
  const groups = Object.entries(firstCommands).map(([title, lines]) =>
    section(title, Object.entries(lines), 34),
  );
  const names = commands.map(({ name }) => name).join(', ');
  return [
    `${wrap(programSummary)}\n`,
    ...groups,
    `\n${wrap(`Commands: ${names}`, 2)}\n`,
    'Run pets --help for all commands, or pets help <command> for one.\n',
  ].join('');
}

/**
 * The page of a command, of a group of commands or options, of a topic, or of the whole program.
 *
 * @throws CliError if there is no such page
 */
export function helpPage(names: readonly string[], commands: Commands): string {
  const [first, second, ...more] = names;
  const topic = topics[names.join(' ')];
  if (topic !== undefined) return topicPage(topic);
  if (first === undefined) return programPage(commands);
  const entry = commands.find(({ name }) => name === first);
  if (entry && 'commands' in entry) {
    if (second === undefined) return groupPage(entry);
    const command = entry.commands.find(({ name }) => name === second);
    if (command && more.length === 0) return commandPage(names.join(' '), command);
  } else if (entry) {
    if (second === undefined) return commandPage(first, entry);
    if (groupsOf(entry).has(second) && more.length === 0) return optionsPage(first, second, entry);
  }
  const hint = hintForCommand(names.join(' ')) ?? 'for commands and topics, see: pets help';
  throw usageError(`no help for ${names.join(' ')}`, hint);
}

const programPage = (commands: Commands): string =>
  [
    heading('<command> [options]', programSummary.slice(0, -1)),
    section('Commands', commands.map(commandItem)),
    paragraph('Topics of pets help: global (options), environment, exit-codes, documents'),
  ].join('');

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
  PETS_SERVE_KEY:
    'API key that pets serve accepts instead of a generated one: at least 20 characters, or 8 if only this machine can reach the service',
  PETS_SERVE_TOKEN:
    'token for the developer tools of pets serve, at least 20 characters (default: a new one at each start)',
  'XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME':
    'base directories for configuration, state and data files',
  'HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY':
    'proxies (lower case works too); never used for services on this machine',
  NODE_EXTRA_CA_CERTS: 'file with additional certificates to trust',
  'NO_COLOR, FORCE_COLOR':
    'disable colors, or force them when not writing to a terminal; --color overrides this',
};

/** What people look for, and the document about it. */
export const documentsBySubject: Readonly<Record<string, string>> = {
  'a 429, a ban, retries, lost responses': 'docs/client-behavior.md',
  'scripts, cron, containers': 'docs/scripting.md',
  'importing a file': 'docs/import.md',
  'exit codes and error codes': 'docs/scripting.md',
  'profiles, proxies, certificates': 'docs/configuration.md',
  'tests against pets serve, faults, reset': 'docs/testing.md',
  'deploy, nginx, TLS, systemd, metrics': 'docs/deploy.md',
  'backup, restore, upgrade': 'docs/deploy.md',
  'several servers on PostgreSQL': 'docs/deploy.md, docs/postgres.md',
  'the API': 'docs/service.md',
};

/** A page that is a list of terms. `termColumns` is the width of their column, if the default is too narrow. */
type Topic = { intro?: string; title: string; items: readonly Item[]; termColumns?: number };

/** The help topics that are not commands. */
export const topics: Readonly<Record<string, Topic>> = {
  global: {
    intro:
      'Every command accepts these options, before or after its name. Results go to stdout; rows are a table at a terminal, otherwise lines with tabs and no header. Notes and errors go to stderr. A profile is a name for the saved base URL and API key of a service. The key is only sent to the server that it was saved for, so --base-url can only change the path there. For another server, log in with another profile, or set PETS_BASE_URL and PETS_API_KEY.',
    title: 'Options',
    get items() {
      return globalOptions.map(optionItem);
    },
  },
  environment: { title: 'Environment variables', items: Object.entries(environmentVariables) },
  'exit-codes': {
    title: 'Exit codes',
    items: exitCodeMeanings.map(([code, meaning]): Item => [String(code).padStart(3), meaning]),
  },
  documents: {
    intro:
      'npm installs these documents in node_modules/pets-cli (npm root --global prints the global node_modules), and the Debian package in /usr/share/doc/pets.',
    title: 'Documents',
    items: Object.entries(documentsBySubject),
    termColumns: 40,
  },
};

const topicPage = ({ intro = '', title, items, termColumns }: Topic): string =>
  `${wrap(intro)}\n${section(title, items, termColumns)}`.trimStart();
