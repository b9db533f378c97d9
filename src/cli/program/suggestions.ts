import { petStatuses } from '../../contract/schemas.ts';
import { profileNames } from '../profiles/profile.ts';

/** Commands of `pets`, each with the names that other tools use for a similar command. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  list: ['ls', 'animals', 'pets'],
  'list --all': ['all'],
  'list --all --output animals.txt': ['print'],
  'find <text>': ['search', 'grep', 'query', 'filter'],
  count: ['stats', 'summary', 'report'],
  'count --by category': ['categories'],
  'orders --sum amount': ['sum', 'total', 'sales', 'revenue'],
  'list --all --csv': ['export'],
  'get <id>': ['show', 'view'],
  'add <name> --category <id>': ['create', 'new'],
  'import <file>': ['upload', 'load'],
  login: ['auth', 'signin'],
  logout: ['signout'],
  profiles: ['config'],
  'profiles --check': ['whoami', 'status', 'quota', 'limit', 'limits', 'usage'],
  'use <profile>': ['switch'],
  serve: ['mock', 'server', 'start'],
  'keys revoke <name>': ['revoke', 'keys delete', 'keys remove', 'keys rm'],
  'keys add <name> --plan <plan>': ['keys new', 'keys create'],
  '--version': ['version'],
};

/** Words for commands that do not exist, because the service has no such operation. */
const UNSUPPORTED = ['delete', 'remove', 'rm', 'update', 'edit', 'set', 'sell', 'buy'];

/** A hint for an unknown command; undefined if none is known. */
export function suggestCommand(words: string): string | undefined {
  const [command] = Object.entries(COMMANDS).find(([, others]) => others.includes(words)) ?? [];
  if (command !== undefined) return `did you mean pets ${command}?`;
  return UNSUPPORTED.includes(words)
    ? 'the service can only add and show animals, not change or delete them. See: pets help'
    : undefined;
}

const FORMATS = 'did you mean --json, --ndjson, --csv or --table?';

/** An API key must not be an argument, because process lists and the shell history show command lines. */
const KEY_IN_ARGUMENTS =
  'do not put a key on the command line; pets login asks for it. To pipe the key in: pets login --with-key < key.txt';

const OPTIONS: Readonly<Record<string, string>> = {
  'list --count': 'to count animals: pets count',
  'list --search': 'did you mean --name <text>?',
  'list --order': 'did you mean --sort <field>?',
  'list --fields': 'did you mean --columns <names>?',
  'list --page': 'to fetch all pages: pets list --all',
  'list --format': FORMATS,
  'list --tsv': 'output to a pipe or file is tab-separated by default',
  'find --name': 'the text is an argument: pets find rex',
  'find --all': 'find always searches all animals',
  'count --all': 'count always counts all animals',
  'count --group-by': 'did you mean --by <fields>?',
  'add --from': 'to add all animals from a file: pets import <file>',
  'add --file': 'to add all animals from a file: pets import <file>',
  'add --name': 'the name is an argument: pets add Rex --category 3',
  'add --id': 'the service assigns the ids',
  'login --url': 'did you mean pets login --base-url <url>?',
  '-o': 'did you mean --output <file>?',
  'orders --status': 'did you mean pets orders --where status=<value>?',
  'orders --from': 'did you mean pets orders --since <time>?',
  'orders --to': 'did you mean pets orders --until <time>?',
  'orders --date': 'for one day: pets orders --since 2026-11-20 --until 2026-11-21',
  'orders --total': 'did you mean pets orders --sum <field>?',
  '-v': 'did you mean -V (show the version) or --debug (log each request)?',
  '-help': 'did you mean --help?',
};

/** A hint for an unknown option; undefined if none is known. */
export function suggestForOption(command: string, option: string): string | undefined {
  if (/^--(?:api-?)?(?:key|token)$/.test(option)) return KEY_IN_ARGUMENTS;
  const value = option.startsWith('--') ? suggestForValue(command, option.slice(2)) : undefined;
  const known = value ?? OPTIONS[`${command} ${option}`] ?? OPTIONS[option];
  if (known === undefined && command === 'add' && /^-\w/.test(option)) return NAME_WITH_HYPHEN;
  return known;
}

const NAME_WITH_HYPHEN =
  'see: pets help add. Put a name that starts with a hyphen after --: pets add --category 3 -- -x';

const OPTIONS_FIRST =
  'put options before --, and quotes around a name with spaces: pets add --category 3 -- "-x y"';

/** The commands with the option `--status`. */
const WITH_STATUS = ['list', 'find', 'count', 'add'];

/** A hint for a status or the name of a profile that was given without its option. */
function suggestForValue(command: string, word: string): string | undefined {
  const value = word.toLowerCase();
  const isStatus = WITH_STATUS.includes(command) && petStatuses.some((status) => status === value);
  if (isStatus) return `did you mean pets ${command} --status ${value}?`;
  // `pets use` sets the default profile, so `--profile` has no effect on it.
  const isProfile = !['', 'use'].includes(command) && profileNames.some((name) => name === value);
  return isProfile ? `did you mean pets ${command} --profile ${value}?` : undefined;
}

/** A hint for `words`, which a command does not accept as arguments. `options` are the rest of the command line. */
export function suggestForExtraArguments(
  command: string,
  words: readonly string[],
  options: readonly string[],
): string | undefined {
  const [first = ''] = words;
  if (command === 'add') return suggestForNames(words, options);
  if (command === 'orders') return suggestForTime(first) ?? suggestForValue(command, first);
  if (command !== 'login') return suggestForValue(command, first) ?? suggestForText(command, words);
  if (/^https?:/.test(first)) return `did you mean pets login --base-url ${first}?`;
  return suggestForValue(command, first) ?? KEY_IN_ARGUMENTS;
}

/** A hint for a time that was given to `pets orders` without its option. */
function suggestForTime(word: string): string | undefined {
  if (word.toLowerCase() === 'last') return 'for the last 7 days: pets orders --since 7d';
  if (word.toLowerCase() === 'yesterday') return 'did you mean pets orders --since yesterday --until today?';
  return /^(today|\d+[hdw]|\d{4}-.*)$/i.test(word) ? `did you mean pets orders --since ${word}?` : undefined;
}

/** A hint for words that are part of a name, or a field by which animals can be counted. */
function suggestForText(command: string, words: readonly string[]): string | undefined {
  const whole = words.join(' ');
  // Do not repeat what cannot be a name, such as a URL with a password.
  if (!/^[\p{L}\p{M}\p{N} '.-]+$/u.test(whole) || whole.trim() === '') return undefined;
  const text = /^[\w-]+$/.test(whole) ? whole : `"${whole}"`;
  const isCategory = /^\d+$/.test(whole) && (command === 'list' || command === 'count');
  if (isCategory) return `did you mean pets ${command} --category ${whole}?`;
  if (command === 'list') return `did you mean pets find ${text}?`;
  if (command === 'find') return `put quotes around a text with spaces: pets find ${text}`;
  if (command !== 'count') return undefined;
  if (/^(status|category)/.test(whole)) return `did you mean pets count --by ${text}?`;
  return `to count animals by name: pets count --name ${text}. By category: pets count --by category`;
}

const QUOTE_NAME = 'put straight quotes around a name with spaces';

function suggestForNames(words: readonly string[], options: readonly string[]): string {
  // Without a word before the first hyphen, the command line has `--`, because the hyphen would be an unknown option.
  if (words.length === 0) return OPTIONS_FIRST;
  if (words.length === 1) return `${QUOTE_NAME}: pets add "Lady Bella" --category 3`;
  const [name = '', category = ''] = words;
  const hasCategory = options.some((option) => /^--category(=|$)/.test(option));
  const number = words.at(-1) ?? '';
  const isPair = words.length === 2 || (words.length === 3 && category.toLowerCase() === 'category');
  if (isPair && !hasCategory && /^\d+$/.test(number))
    return `did you mean pets add ${/\s/.test(name) ? `"${name}"` : name} --category ${number}?`;
  const whole = words.join(' ').replace(/[“”„«»"]/g, '');
  const rest = hasCategory ? options.join(' ') : '--category <id>';
  return `${QUOTE_NAME}: pets add "${whole}" ${rest}`;
}
