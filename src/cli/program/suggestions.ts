import { petStatuses } from '../../contract/schemas.ts';
import { profileNames } from '../profiles/profile.ts';

/** Commands of other tools, and what they are called here. */
const COMMANDS: Readonly<Record<string, string>> = {
  ls: 'list',
  all: 'list --all',
  search: 'list --all',
  find: 'list --all',
  count: 'list --all',
  export: 'list --all --csv',
  show: 'get <id>',
  view: 'get <id>',
  create: 'add <name> --category <id>',
  new: 'add <name> --category <id>',
  import: 'add --from <file>',
  auth: 'login',
  signin: 'login',
  signout: 'logout',
  config: 'profiles',
  whoami: 'profiles --check',
  status: 'profiles --check',
  quota: 'profiles --check',
  limit: 'profiles --check',
  limits: 'profiles --check',
  usage: 'profiles --check',
  switch: 'use <profile>',
  mock: 'serve',
  server: 'serve',
  start: 'serve',
  revoke: 'keys revoke <name>',
  'keys delete': 'keys revoke <name>',
  'keys remove': 'keys revoke <name>',
  'keys rm': 'keys revoke <name>',
  'keys new': 'keys add <name> --plan <plan>',
  'keys create': 'keys add <name> --plan <plan>',
  version: '--version',
};

/** Commands for which the service has no operation. */
const UNSUPPORTED = new Set(['delete', 'remove', 'rm', 'update', 'edit', 'set', 'sell', 'buy']);

/** A hint for an unknown command; undefined if none is known. */
export function suggestCommand(words: string): string | undefined {
  const command = COMMANDS[words];
  if (command !== undefined) return `did you mean pets ${command}?`;
  return UNSUPPORTED.has(words)
    ? 'the service can only add and show animals, not change or delete them. See: pets help'
    : undefined;
}

const NO_SUCH_FILTER = 'the service can only filter by status; to list all animals: pets list --all';
const FORMATS = 'did you mean --json, --ndjson or --csv?';

/** Command lines are visible in process lists and stay in the shell history. */
const KEY_IN_ARGUMENTS =
  'do not put a key on the command line; pets login asks for it. To pipe the key in: pets login --with-key < key.txt';

const OPTIONS: Readonly<Record<string, string>> = {
  'list --category': NO_SUCH_FILTER,
  'list --name': NO_SUCH_FILTER,
  'list --count': 'to count all animals: pets list --all --json | jq length',
  'list --page': 'to fetch all pages: pets list --all',
  'list --format': FORMATS,
  'list --output': FORMATS,
  'list -o': FORMATS,
  'list --tsv': 'output to a pipe or file is tab-separated by default',
  'add --file': 'did you mean pets add --from <file>?',
  'add --name': 'the name is an argument: pets add Rex --category 3',
  'add --id': 'the service assigns the ids',
  'login --url': 'did you mean pets login --base-url <url>?',
  '-v': 'did you mean -V (show the version) or --debug (log each request)?',
  '-help': 'did you mean --help?',
};

/** A hint for an unknown option; undefined if none is known. */
export function suggestForOption(command: string, option: string): string | undefined {
  const status = petStatuses.find((each) => option === `--${each}`);
  if (status !== undefined && command !== '') return `did you mean pets ${command} --status ${status}?`;
  const profile = profileNames.find((each) => option === `--${each}`);
  if (profile !== undefined && command !== '') return `did you mean pets ${command} --profile ${profile}?`;
  if (/^--(?:api-?)?(?:key|token)$/.test(option)) return KEY_IN_ARGUMENTS;
  return OPTIONS[`${command} ${option}`] ?? OPTIONS[option];
}

/** A hint for arguments that a command does not accept. `options` are the command-line words after them. */
export function suggestForExtraArguments(
  command: string,
  words: readonly string[],
  options: readonly string[],
): string | undefined {
  const [first = ''] = words;
  if (command === 'add') return suggestForNames(words, options);
  if (command === 'login') return suggestForLogin(first);
  const status = command === 'list' && petStatuses.find((each) => each === first.toLowerCase());
  if (status) return `did you mean pets list --status ${status}?`;
  const profile = profileNames.find((each) => each === first.toLowerCase());
  return profile && `did you mean pets ${command} --profile ${profile}?`;
}

function suggestForNames(words: readonly string[], options: readonly string[]): string {
  const [name = '', category = ''] = words;
  const hasCategory = options.includes('--category');
  const number = words.at(-1) ?? '';
  const isPair = words.length === 2 || (words.length === 3 && category.toLowerCase() === 'category');
  if (isPair && !hasCategory && /^\d+$/.test(number))
    return `did you mean pets add ${/\s/.test(name) ? `"${name}"` : name} --category ${number}?`;
  const whole = words.join(' ').replace(/[“”„«»"]/g, '');
  const rest = hasCategory ? options.join(' ') : '--category <id>';
  return `put straight quotes around a name with spaces: pets add "${whole}" ${rest}`;
}

function suggestForLogin(word: string): string {
  if (/^https?:/.test(word)) return `did you mean pets login --base-url ${word}?`;
  const profile = profileNames.find((each) => each === word.toLowerCase());
  return profile ? `did you mean pets login --profile ${profile}?` : KEY_IN_ARGUMENTS;
}
