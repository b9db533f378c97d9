import type { Command as Commander, CommanderError } from 'commander';
import { type CliError, usageError } from '../core/errors.ts';
import type { Command } from './command.ts';

/** The hint for `--price`, and for a field by which animals cannot be sorted. */
export const PET_FIELDS_HINT =
  'animals have only an id, a name, a category and a status; for amounts: pets orders';
export const CATEGORY_HINT = 'categories are numbers; to see some animals of each: pets count --by category';
const CANNOT_CHANGE =
  'the service can add and show animals, but not change or delete them; ask those who run the service';
const BY_STATUS = 'to list animals by status: pets list --status sold; a status cannot be changed';
const CHECK =
  'to check the service, the key and the requests left: pets profiles --check; in a script: pets list --limit 1 --quiet, and its exit code';

/** The hints for words that people type. With a command before an option or a word, the hint is only about that command. */
const WORDS: Readonly<Record<string, string>> = {
  'delete, remove, rm, edit, update, change, fix, rename, set, mark, sell, buy, undo, reserve': CANNOT_CHANGE,
  'correct, replace, modify, mark-sold, set-status, delete-all, purge, clear, clean, drop': CANNOT_CHANGE,
  'available, pending, sold, list --available, list --pending, list --sold, list --state': BY_STATUS,
  status: `${CHECK}; ${BY_STATUS}`,
  'check, health, ping, quota, limit, limits, usage, doctor, test': CHECK,
  'animals, pets, all': 'to list all animals: pets list --all',
  'search, grep, query, filter, list --name, list --search, list --filter, list --where, list --find':
    'to find animals by name: pets find rex; by status: pets list --status sold',
  'view, open': 'to show an animal: pets get 7; to see requests: open the page address of pets serve',
  'stats, summary, report, total, list --count, list --total': 'to count animals: pets count --by category',
  'list -n, list --head, list --top, list --first, list --max': 'for the first animals: pets list --limit 5',
  'category, categories, cats, dogs, --type, --kind, --species, --breed': CATEGORY_HINT,
  'print, export, download, dump, save, list --export, list --file':
    'to write all animals to a file: pets list --all --output animals.csv',
  'create, new, insert, post, register': 'to add an animal: pets add Rex --category 3',
  'upload, load, add --file, import --file': 'to add all animals from a file: pets import animals.csv',
  'validate, import --check, import --test, import --validate, import --preview':
    'to check a file without adding anything: pets import --dry-run animals.csv',
  'add --name': 'the name is an argument: pets add Rex --category 3',
  'auth, signin, init, setup, connect': 'to save an address and an API key: pets login',
  'config, whoami, me, account, env': 'to show the saved services, and check the keys: pets profiles --check',
  version: 'to show the version: pets --version',
  'mock, server, start': 'to run a local service: pets serve --seed',
  stop: 'to stop pets serve: press Ctrl-C, or send SIGTERM to its process',
  'log, logs, serve --verbose': 'to see the requests that a local service gets: pets serve --log',
  'reset, serve --reset, serve --empty, serve --memory, serve --in-memory':
    'for an empty service: pets serve --ephemeral; for POST /reset: docs/testing.md',
  'faults, serve --error-rate, serve --error, serve --fail, serve --status, serve --delay, serve --slow, serve --fail-status':
    'for errors: pets serve --fail-rate 0.1; for slow responses: pets serve --latency 200; see: pets help serve faults',
  'serve --allow-origin, serve --origin, serve --address, serve --bind':
    'for addresses and origins: pets help serve network',
  'serve --background, serve --daemon, serve --detach': 'to run it in the background: pets serve &',
  'serve --key, serve --api-key, serve --token':
    'for an API key: --key-file <file> or the variable PETS_SERVE_KEY; for the token: PETS_SERVE_TOKEN',
  'serve --file, serve --fixtures, serve --db': 'for your own animals: pets serve --seed file.json',
  'serve --https, serve --tls, serve --ssl, serve --cert': 'for TLS, use a reverse proxy: docs/deploy.md',
  'backup, restore': 'to copy a store that no server uses: pets help store copy; otherwise: docs/deploy.md',
  'docs, manual, man': 'the documents are in $(npm root --global)/pets-cli/docs or /usr/share/doc/pets',
  'openapi, swagger, api, routes, curl': 'pets serve describes its API at /openapi.json',
  docker: 'to run pets in a container: docs/scripting.md',
  'timeout, retries, --retry, --retries, --max-retries': 'for retries and time limits: pets help global',
  'revoke, keys delete, keys remove, keys rm':
    'to revoke a key: pets keys revoke <name>; see: pets keys list',
  'keys new, keys create, keys show, keys get': 'to create a key, shown only once: pets keys add laptop',
  'rotate, keys rotate': 'add a key with another name, use it, and revoke the old one: docs/deploy.md',
  'keys add --role, keys add --read-only': 'every key may list and add animals; lower limits: --plan free',
  'list --since, latest, newest': 'animals have no dates; the newest first: pets list --all --sort id:desc',
  'list --page, list --offset, list --skip': 'a list begins with the first animal; for all: pets list --all',
  'sort, list --order, list --reverse, list --desc': 'to sort: pets list --all --sort name; id:desc reverses',
  '--price, --max-price, --min-price': PET_FIELDS_HINT,
  'orders add, orders create, orders new, orders place, orders cancel, orders delete':
    'the service can only list orders; for tests, put them into a file: pets serve --seed file.json (docs/serve.md)',
  'orders today, orders yesterday': 'to choose orders by time: pets orders --since yesterday --until today',
  'orders --status, orders --customer': 'to choose orders by a field: pets orders --where status=placed',
  '--staging, --prod, --production, --local, --env, -p': 'for a saved service: --profile staging',
  '--url, --server, --host, --port': 'for the address of a service: --base-url <url>; see: pets help global',
  '--key, --api-key, --token':
    'do not put a key on the command line; pets login asks for it, or reads it: cat key.txt | pets login',
  '--yaml, --format': 'for other formats: --json; for most lists also: --ndjson, --csv, --excel, --output',
  '--curl, --verbose, --trace': 'to see each request and its response: --debug',
  '-o, --out': 'did you mean --output?',
  '-v': 'did you mean -V (show the version) or --debug (show each request)?',
};

/** The hint for the first typed word that is in `WORDS`; undefined if none is. */
export function hintFor(...typed: string[]): string | undefined {
  const rows = Object.entries(WORDS).map(([words, sentence]) => ({ words: words.split(', '), sentence }));
  const sentences = typed.map(
    (word) => rows.find(({ words }) => words.includes(word.toLowerCase()))?.sentence,
  );
  return sentences.find((sentence) => sentence !== undefined);
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
  // Commander suggests one word, or several after `one of` in alphabetical order. The hint has only the first.
  const [text = '', similar] = error.message
    .replace(/^error: /, '')
    .split(/\n\(Did you mean (?:one of )?([^,]*?)(?:, .*)?\?\)$/s);
  switch (error.code) {
    case 'commander.help':
      return usageError('missing command');
    case 'commander.unknownCommand': {
      const typed = `${name} ${command.args[0]}`.trim();
      const get = /^\d+$/.test(typed) ? `to show an animal: pets get ${typed}` : undefined;
      const meant = similar && `did you mean pets ${`${name} ${similar}`.trim()}?`;
      return usageError(text, get ?? hintFor(typed) ?? meant);
    }
    case 'commander.unknownOption': {
      // Do not repeat the value of the option, because it may be an API key.
      const [, option = ''] = /'(-[\w-]*)/.exec(text) ?? [];
      const known = [...command.options, ...(command.parent?.options ?? [])].map(({ long }) => long ?? '');
      if (known.includes(option)) return usageError(`${option} does not take a value`);
      const meant = known.includes(`-${option}`) ? `-${option}` : similar;
      const own = command.options.filter(({ helpGroupHeading }) => helpGroupHeading === undefined);
      const names = own.map(({ long }) => long).join(', ');
      const some = own.length < command.options.length ? 'some options' : 'options';
      const all = name && names ? `${some} of pets ${name}: ${names}; see: pets help ${name}` : undefined;
      const hint = hintFor(`${name} ${command.args[0]}`, `${name} ${option}`, option);
      return usageError(`unknown option ${option}`, hint ?? (meant ? `did you mean ${meant}?` : all));
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
      return usageError(text.replace(/^option '(.*)' argument missing$/, 'missing value of $1'));
  }
}
