import type { Command as Commander, CommanderError } from 'commander';
import { type CliError, usageError } from '../core/errors.ts';
import type { Command } from './command.ts';

const CANNOT_CHANGE =
  'the service can add and show animals, but not change or delete them; ask those who run the service';
const BY_STATUS = 'to list animals by status: pets list --status sold; a status cannot be changed';
const CHECK = 'to check the service, the key and the requests left: pets profiles --check';

/** Words that people type instead of a command, and what to do. Each sentence belongs to all words of its line. */
const COMMAND_WORDS: readonly (readonly [words: string, sentence: string])[] = [
  ['delete, remove, rm, edit, update, change, fix, rename, set, mark, sell, buy, undo', CANNOT_CHANGE],
  ['correct, replace, modify, mark-sold, set-status', CANNOT_CHANGE],
  ['available, pending, sold', BY_STATUS],
  ['status', `${CHECK}; ${BY_STATUS}`],
  ['animals, pets, all', 'to list all animals: pets list --all'],
  ['search, grep, query, filter', 'to find animals by name: pets find rex'],
  ['view, open', 'to show an animal: pets get 7; the page of pets serve has the address that it prints'],
  ['stats, summary, report, total, categories', 'to count animals: pets count --by category'],
  ['sum, sales, revenue', 'to add up orders in a spreadsheet: pets orders --excel --output orders.csv'],
  ['print, export', 'to write all animals to a file: pets list --all --output animals.csv'],
  ['create, new', 'to add an animal: pets add Rex --category 3'],
  ['upload, load', 'to add all animals from a file: pets import animals.csv'],
  ['auth, signin', 'to save an API key: pets login'],
  ['config, whoami', 'to show the saved services and keys: pets profiles'],
  ['ping, quota, limit, limits, usage', CHECK],
  ['mock, server, start', 'to run a local service: pets serve --seed'],
  ['stop', 'pets serve stops with Ctrl-C or SIGTERM'],
  ['log, logs', 'to see the requests that a local service gets: pets serve --log'],
  ['reset', 'for an empty service: pets serve --ephemeral; for POST /reset: docs/testing.md'],
  ['backup, restore', 'to copy a store that no server uses: pets help store copy; otherwise: docs/deploy.md'],
  [
    'docs, manual',
    'the documents are in the folder docs of the package; npm root --global shows where it is',
  ],
  ['openapi, swagger', 'pets serve describes its API at /openapi.json'],
  ['docker', 'to run pets in a container: docs/deploy.md'],
  ['retries, retry', 'for retries: --max-wait and --no-retry; see: pets help global'],
  ['timeout', 'to limit the time per attempt: --timeout 10; see: pets help global'],
  [
    'revoke, keys delete, keys remove, keys rm',
    'to revoke a key: pets keys revoke <name>; to list the keys: pets keys list',
  ],
  ['keys new, keys create', 'to create a key: pets keys add laptop'],
];

const API_KEY =
  'do not put a key on the command line; pets login asks for it, or reads it: pets login < key.txt';
const FORMATS = 'for other formats: --json, --ndjson, --csv, --excel, or --output with .txt or .tsv';
const NO_DATES = 'animals have no dates; the newest first: pets list --all --sort id:desc';
const ONE_DAY = 'for one day: pets orders --since 2026-11-20 --until 2026-11-21';
const HYPHEN_NAME = 'put a name that begins with a hyphen last, after --: pets add --category 3 -- -Fluffy';
const EVERY_KEY = 'every key may list and add animals; for lower rate limits: --plan free';
const BY_NAME = 'to find animals by name: pets find rex';

/** Options that people type, alone or after a command, and what to do. */
const OPTION_WORDS: Readonly<Record<string, string>> = {
  'list --since': NO_DATES,
  'list --until': NO_DATES,
  'list --name': BY_NAME,
  'list --search': BY_NAME,
  'list --page': 'to list all pages: pets list --all',
  'orders --status': 'to choose orders by a field: pets orders --where status=placed',
  'orders --date': ONE_DAY,
  'orders --from': ONE_DAY,
  'orders --to': ONE_DAY,
  'orders --limit': 'to list only new orders: pets orders --since 7d',
  'keys add --role': EVERY_KEY,
  'keys add --read-only': EVERY_KEY,
  'add --from': 'to add all animals from a file: pets import animals.csv',
  'add --name': 'the name is an argument: pets add Rex --category 3',
  'serve --key': 'for an API key: --key-file <file>, or set the variable PETS_SERVE_KEY',
  'serve --rate-limit': 'the rate limits are those of the key: --plan free; see: pets help keys add',
  'serve --token': 'for the developer token, set the variable PETS_SERVE_TOKEN',
  '--key': API_KEY,
  '--api-key': API_KEY,
  '--token': API_KEY,
  '--price': 'animals have no price: only an id, a name, a category and a status',
  '--retries': 'for retries: --max-wait and --no-retry; see: pets help global',
  '--yaml': FORMATS,
  '--format': FORMATS,
  '-o': 'did you mean --output?',
  '-v': 'did you mean -V (show the version) or --debug (log each request)?',
};

/** What to do instead of an unknown command, such as `delete` or `keys delete`; undefined for an unknown word. */
export const hintForCommand = (typed: string): string | undefined =>
  COMMAND_WORDS.find(([words]) => words.split(', ').includes(typed.toLowerCase()))?.[1];

/** What to do instead of an unknown option of a command; undefined for an unknown word. */
function hintForOption(command: string, option: string): string | undefined {
  if (command === 'add' && /^-\w\w/.test(option)) return HYPHEN_NAME;
  const key = [`${command} ${option}`, option].find((each) => Object.hasOwn(OPTION_WORDS, each));
  return key && OPTION_WORDS[key];
}

/**
 * Converts an error of commander into a usage error, with a hint if there is a better one than the help of the command.
 *
 * @param name the words of the command, such as `keys add`; empty for the program
 * @param declared undefined for the program and groups
 */
export function toUsageError(
  error: CommanderError,
  name: string,
  command: Commander,
  declared?: Command,
): CliError {
  // Commander suggests one word, or several after `one of`, of which the first is a name and not a synonym.
  const [text = '', similar] = error.message
    .replace(/^error: /, '')
    .split(/\n\(Did you mean (?:one of )?([^,]*?)(?:, .*)?\?\)$/s);
  switch (error.code) {
    case 'commander.help':
      return usageError('missing command');
    case 'commander.unknownCommand': {
      const meant = similar && `did you mean pets ${`${name} ${similar}`.trim()}?`;
      return usageError(text, hintForCommand(`${name} ${command.args[0]}`.trim()) ?? meant);
    }
    case 'commander.unknownOption': {
      // Do not repeat the value of the option, because it may be an API key.
      const [, option = ''] = /'(-[\w-]*)/.exec(text) ?? [];
      if (similar === option) return usageError(`${option} does not take a value`);
      const meant = similar && `did you mean ${similar}?`;
      return usageError(`unknown option ${option}`, hintForOption(name, option) ?? meant);
    }
    case 'commander.conflictingOption': {
      const options = text.match(/(?<=')-[^ ']*/g) ?? [];
      return usageError(`${options.join(' and ')} cannot be combined`, 'use only one');
    }
    case 'commander.missingArgument': {
      const missing = text.replace(/^missing required argument '(.*)'$/, 'missing <$1>');
      return usageError(missing, declared && `for example: ${declared.examples[0]}`);
    }
    case 'commander.excessArguments':
      return usageError(`too many arguments for pets ${name}`, declared?.extraHint);
    default:
      return usageError(text);
  }
}
