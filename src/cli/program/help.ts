import { usageError } from '../core/errors.ts';
import { exitCodeMeanings } from '../core/exit-codes.ts';
import { wrapText } from '../output/text.ts';
import type { Argument, Command, CommandGroup, Option } from './command.ts';
import { globalOptions, optionsOf } from './declare.ts';
import { hintFor } from './usage.ts';

/** The maximum width of help, because long lines are hard to read. */
const MAX_COLUMNS = 80;

export const programSummary =
  "Show a pet shop's inventory and add to it. An HTTP service keeps the inventory.";

/** The first commands that each kind of user needs. */
export const firstCommands = {
  'In the shop': {
    'pets login': 'save your API key, once',
    'pets list --status available': 'list the first 20 animals for sale',
    'pets find rex': 'find animals by name',
    'pets count': 'count the animals of each status',
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

type Item = readonly [term: string, description: string];
type Commands = readonly (Command | CommandGroup)[];

/** A title above terms with their descriptions, which a narrow terminal shows below the terms. Empty without items. */
function section(
  title: string,
  items: readonly Item[],
  columns: number,
  termColumns = widest(items),
): string {
  if (items.length === 0) return '';
  const lines = items.map(([term, description]) => {
    if (columns < MAX_COLUMNS)
      return `${wrapText(`  ${term}`, columns, 4)}\n${wrapText(`      ${description}`, columns, 6)}\n`;
    const [first = '', ...rest] = wrapText(description, columns - termColumns - 4, 0).split('\n');
    const margin = ' '.repeat(termColumns + 4);
    const isLong = term.length > termColumns;
    const start = isLong ? `  ${term}\n${margin}${first}` : `  ${term.padEnd(termColumns)}  ${first}`;
    return `${[start, ...rest.map((line) => margin + line)].join('\n')}\n`;
  });
  return `\n${title}:\n${lines.join('')}`;
}

/** Longer terms get a line of their own, so that the descriptions have room. */
const MAX_TERM = 26;

const widest = (items: readonly Item[]): number =>
  items.reduce((width, [{ length }]) => (length > MAX_TERM ? width : Math.max(width, length)), 0);

/** The output of `pets` without arguments. It fits on a terminal of 80 columns and 24 lines. */
export function startPage(commands: Commands, width: number | undefined): string {
  const columns = columnsOf(width);
  const names = [...commands.map(({ name }) => name), 'help'];
  const groups = Object.entries(firstCommands).map(([title, lines]) =>
    section(title, Object.entries(lines), columns, 34),
  );
  return [
    `${wrapText(programSummary, columns, 0)}\n`,
    ...groups,
    `\n${wrapText(`Commands: ${names.join(', ')}`, columns, 2)}\n`,
    `${wrapText('Run pets --help for all commands, or pets help <command> for one.', columns, 0)}\n`,
  ].join('');
}

/** A terminal of unknown width reports undefined or 0 columns. */
const columnsOf = (width: number | undefined): number => Math.min(width || MAX_COLUMNS, MAX_COLUMNS);

/**
 * The page of a command, of a group such as `keys`, of a topic, or of the whole program.
 *
 * @throws CliError if there is no such page
 */
export function helpPage(names: readonly string[], commands: Commands, width: number | undefined): string {
  const columns = columnsOf(width);
  const topic = topics[names.join(' ')];
  if (topic !== undefined) return topicPage(topic, columns);
  const [first, second, ...more] = names;
  if (first === undefined || names.join(' ') === 'help') return programPage(commands, columns);
  const entry = commands.find(({ name }) => name === first);
  const isGroup = entry !== undefined && 'commands' in entry;
  const command = isGroup ? entry.commands.find(({ name }) => name === second) : entry;
  if (isGroup && second === undefined) return groupPage(entry, columns);
  const isExtra = isGroup ? more.length > 0 : second !== undefined;
  if (command === undefined || 'commands' in command || isExtra)
    throw usageError(
      `no help for ${names.join(' ')}`,
      hintFor(names.join(' ')) ?? 'for commands, see: pets help; for other subjects: pets help documents',
    );
  return commandPage(names.join(' '), command, columns);
}

function programPage(commands: Commands, columns: number): string {
  return [
    'Usage: pets <command> [options]\n\n',
    `${wrapText(programSummary, columns, 0)}\n`,
    section(
      'Commands',
      [
        ...commands.map((each): Item => [usageOf(each.name, each), each.summary]),
        ['help [command]', 'show the arguments, options and examples of a command'],
      ],
      columns,
    ),
    section('Options', globalOptions.slice(-2).map(optionItem), columns, 16),
    section('Examples', Object.entries(firstCommands['In the shop']).slice(0, 5), columns, 30),
    section(
      'More help',
      [
        ['pets help global', 'options that every command accepts'],
        ['pets help environment', 'environment variables'],
        ['pets help exit-codes', 'what each exit code means'],
        ['pets help documents', 'documents: rate limits (429), tests, deployment, backup'],
      ],
      columns,
    ),
  ].join('');
}

const groupPage = ({ name, summary, commands }: CommandGroup, columns: number): string =>
  [
    `Usage: pets ${name} <command> [options]\n\n${wrapText(sentence(summary), columns, 0)}\n`,
    section(
      'Commands',
      commands.map((each) => [usageOf(each.name, each), each.summary]),
      columns,
    ),
    examples(commands.flatMap((each) => each.examples.slice(0, 1))),
    `\n${wrapText(`Options of a command: pets help ${name} <command>`, columns, 0)}\n`,
  ].join('');

function commandPage(name: string, command: Command, columns: number): string {
  const options = optionsOf(command);
  const args = shownArguments(command).map((each): Item => [usageName(each), describeParameter(each)]);
  const termColumns = widest([...args, ...options.map(optionItem)]);
  const titles = [...new Set(options.map(({ group }) => group))];
  const usage = `Usage: pets ${usageOf(options.length > 0 ? `${name} [options]` : name, command)}`;
  return [
    `${usage}\n\n${wrapText(sentence(command.summary), columns, 0)}\n`,
    section('Arguments', args, columns, termColumns),
    ...titles.map((title) => {
      const own = options.filter(({ group }) => group === title);
      return section(title ?? 'Options', own.map(optionItem), columns, termColumns);
    }),
    `\n${wrapText('Options of every command, such as --profile and --json: pets help global', columns, 0)}\n`,
    examples(command.examples),
    ...(command.notes === undefined ? [] : [`\n${wrapText(command.notes, columns, 0)}\n`]),
  ].join('');
}

/** Commands stay on one line, so that they can be copied. */
const examples = (lines: readonly string[]): string =>
  `\nExamples:\n${lines.map((line) => `  ${line}\n`).join('')}`;

const usageOf = (name: string, entry: Command | CommandGroup): string =>
  'commands' in entry ? `${name} <command>` : [name, ...shownArguments(entry).map(usageName)].join(' ');

const usageName = ({ name, usage = name }: Argument): string => usage;

const shownArguments = ({ arguments: args = [] }: Command): Argument[] =>
  args.filter(({ isHidden }) => !isHidden);

const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

const optionItem = (declared: Option): Item => [declared.flags, describeParameter(declared)];

/** The description of an argument or option with its valid values and its default. */
export function describeParameter({ description, choices, ...rest }: Argument | Option): string {
  // If an option has a parser of its own, its description already names the values.
  const isListed = choices !== undefined && rest.parse === undefined;
  const text = isListed
    ? `${description}: ${choices.join(', ').replace(/, ([^,]*)$/, ' or $1')}`
    : description;
  const usual = 'flags' in rest ? (rest.defaultText ?? rest.default) : undefined;
  return usual === undefined ? text : `${text} (default: ${usual})`;
}

export const environmentVariables: Readonly<Record<string, string>> = {
  PETS_PROFILE: 'profile to use if --profile is not given: prod, staging or local',
  PETS_API_KEY:
    "API key; sent to PETS_BASE_URL if that is set, otherwise to the profile's base URL; ignored if --profile is given",
  PETS_BASE_URL: 'base URL of the service, including /v1; ignored if --profile is given',
  PETS_MAX_WAIT: 'default for --max-wait, in seconds',
  PETS_ALLOW_HTTP: 'set to 1 to allow plain http to another machine',
  PETS_CONFIG_DIR: 'directory for profiles',
  PETS_STATE_DIR: 'directory for state: rate-limit waits, and which rows pets import has added',
  PETS_DATA: 'directory or postgres:// URL of the store that pets serve, pets keys and pets store use',
  PETS_SERVE_KEY:
    'API key that pets serve accepts instead of a generated one: at least 20 characters, or 8 if only this machine can reach the service',
  PETS_SERVE_TOKEN:
    'token for the developer tools of pets serve, at least 20 characters (default: a new one at each start); if you set it, also set it for pets keys list',
  'XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME':
    'base directories for configuration, state and data files',
  'HTTP_PROXY, HTTPS_PROXY, NO_PROXY':
    'proxies (lower case works too); never used for services on this machine; ALL_PROXY is not supported',
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

/** A page that is a list of terms. `termColumns` is the width of their column, if it must be wider than `MAX_TERM`. */
type Topic = { intro?: string; title: string; items: readonly Item[]; termColumns?: number };

/** The help topics that are not commands. */
export const topics: Readonly<Record<string, Topic>> = {
  global: {
    intro:
      'Every command accepts these options, before or after its name. Results go to stdout; rows are a table at a terminal, otherwise lines with tabs and no header. Notices and errors go to stderr. A profile is a name for the saved base URL and API key of a service. The key is only sent to the server that it was saved for, so --base-url can only change the path there. For another server, log in with another profile, or set PETS_BASE_URL and PETS_API_KEY.',
    title: 'Options',
    items: globalOptions.map(optionItem),
  },
  documents: {
    intro:
      'npm installs these documents in node_modules/pets-cli (npm root --global prints the global node_modules), and the Debian package in /usr/share/doc/pets.',
    title: 'Documents',
    items: Object.entries(documentsBySubject),
    termColumns: 40,
  },
  environment: {
    title: 'Environment variables',
    items: Object.entries(environmentVariables),
  },
  'exit-codes': {
    title: 'Exit codes',
    items: exitCodeMeanings.map(([code, meaning]): Item => [String(code).padStart(3), meaning]),
  },
};

const topicPage = ({ intro = '', title, items, termColumns }: Topic, columns: number): string =>
  `${wrapText(intro, columns, 0)}\n${section(title, items, columns, termColumns)}`.trimStart();
