import { petStatuses } from '../../contract/schemas.ts';
import { profileNames } from '../profiles/profile.ts';

// What people type who know other tools, or who guess.

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

/** What the specification has no operation for. */
const NOT_THERE = new Set(['delete', 'remove', 'rm', 'update', 'edit', 'set', 'sell', 'buy']);

/** What helps somebody who typed these words for a command, if that is known. */
export function meantByCommand(words: string): string | undefined {
  const command = COMMANDS[words];
  if (command !== undefined) return `did you mean: pets ${command}`;
  return NOT_THERE.has(words)
    ? 'the service can add and show animals, not change or remove them: pets help'
    : undefined;
}

const LOOK_THROUGH = 'the service can filter by status alone; look through them all: pets list --all';
const ASKED_FOR =
  'a key is no argument, as everybody here could read it: it is asked for, or piped in: pets login --with-key < key.txt';

const OPTIONS: Readonly<Record<string, string>> = {
  'list --category': LOOK_THROUGH,
  'list --name': LOOK_THROUGH,
  'list --count': 'the last line tells how many there are: pets list --all',
  'list --page': 'the next pages come with: pets list --all',
  'list --format': 'did you mean --json, --ndjson or --csv?',
  'list --output': 'did you mean --json, --ndjson or --csv?',
  'list -o': 'did you mean --json, --ndjson or --csv?',
  'list --tsv': 'in a pipe that is what it writes without an option',
  'add --file': 'did you mean: pets add --from <file>',
  'add --name': 'the name stands alone: pets add Rex --category 3',
  'add --id': 'the service gives the ids',
  'login --url': 'did you mean: pets login --base-url <url>',
  '-v': 'did you mean -V, for the version? Or --debug, which tells every step',
  '-help': 'did you mean --help?',
};

/** The same for an option of a command. */
export function meantByOption(command: string, option: string): string | undefined {
  const status = petStatuses.find((each) => option === `--${each}`);
  if (status !== undefined && command !== '') return `did you mean: pets ${command} --status ${status}`;
  const profile = profileNames.find((each) => option === `--${each}`);
  if (profile !== undefined && command !== '') return `did you mean: pets ${command} --profile ${profile}`;
  if (/^--(?:api-?)?(?:key|token)$/.test(option)) return ASKED_FOR;
  return OPTIONS[`${command} ${option}`] ?? OPTIONS[option];
}

/** The same for the words behind a command that it does not take; `options` are those behind the words. */
export function meantByExcess(
  command: string,
  words: readonly string[],
  options: readonly string[],
): string | undefined {
  const [first = ''] = words;
  if (command === 'add') return meantByNames(words, options);
  if (command === 'login') return meantByLogin(first);
  const status = command === 'list' && petStatuses.find((each) => each === first.toLowerCase());
  if (status) return `did you mean: pets list --status ${status}`;
  const profile = profileNames.find((each) => each === first.toLowerCase());
  return profile && `did you mean: pets ${command} --profile ${profile}`;
}

function meantByNames(words: readonly string[], options: readonly string[]): string {
  const [name = '', category = ''] = words;
  const hasCategory = options.includes('--category');
  const number = words.at(-1) ?? '';
  const isPair = words.length === 2 || (words.length === 3 && category.toLowerCase() === 'category');
  if (isPair && !hasCategory && /^\d+$/.test(number))
    return `did you mean: pets add ${/\s/.test(name) ? `"${name}"` : name} --category ${number}`;
  const whole = words.join(' ').replace(/[“”„«»"]/g, '');
  const rest = hasCategory ? options.join(' ') : '--category <id>';
  return `put straight quotes around a name of several words: pets add "${whole}" ${rest}`;
}

function meantByLogin(word: string): string {
  if (/^https?:/.test(word)) return `did you mean: pets login --base-url ${word}`;
  const profile = profileNames.find((each) => each === word.toLowerCase());
  return profile ? `did you mean: pets login --profile ${profile}` : ASKED_FOR;
}
