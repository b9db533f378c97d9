import type { Command as Commander, CommanderError } from 'commander';
import { type CliError, usageError } from '../core/errors.ts';
import type { Command, CommandContext } from './command.ts';

/** Matches words that can be a name, so a hint may repeat them. A URL, which may contain a password, does not match. */
const TEXT = "(?!-)(?:(?! -)[\\p{L}\\p{M}\\p{N} '.-])+";

/** An API key must not be an argument, because process lists and the shell history show command lines. */
const KEY_IN_ARGUMENTS =
  'do not put a key on the command line; pets login asks for it, or reads it from standard input: pets login < key.txt';

/**
 * Hints for invalid command lines. A line has the name of a command, and the words or the option that the command does
 * not accept. The first pattern that matches decides. `$1` stands for what its first group matches, in lower case if
 * the pattern has the flag `i`.
 */
const HINTS: readonly (readonly [pattern: RegExp, hint: string])[] = [
  // What other tools call a command.
  [/^(ls|animals|pets|all|print)\b/, 'did you mean pets list --all?'],
  [/^(search|grep|query|filter)\b/, 'did you mean pets find <text>?'],
  [/^(stats|summary|report)\b/, 'did you mean pets count?'],
  [/^categories\b/, 'did you mean pets count --by category?'],
  [/^(sum|total|sales|revenue)\b/, 'did you mean pets orders --sum amount?'],
  [/^export\b/, 'did you mean pets list --all --csv?'],
  [/^(show|view)\b/, 'did you mean pets get <id>?'],
  [/^(create|new)\b/, 'did you mean pets add <name> --category <id>?'],
  [/^(upload|load)\b/, 'did you mean pets import <file>?'],
  [/^(auth|signin)\b/, 'did you mean pets login?'],
  [/^signout\b/, 'did you mean pets logout?'],
  [/^config\b/, 'did you mean pets profiles?'],
  [/^(whoami|status|quota|limits?|usage)\b/, 'did you mean pets profiles --check?'],
  [/^switch\b/, 'did you mean pets use <profile>?'],
  [/^(mock|server|start)\b/, 'did you mean pets serve?'],
  [/^(revoke|keys (delete|remove|rm))\b/, 'did you mean pets keys revoke <name>?'],
  [/^keys (new|create)\b/, 'did you mean pets keys add <name>?'],
  [/^(keys )?(un|lift-?)ban\b/, 'pets serve lifts bans on its page, under Keys; other bans expire'],
  [/^version\b/, 'did you mean pets --version?'],
  [/^(available|pending|sold)$/i, 'did you mean pets list --status $1?'],
  [
    /^(delete|remove|rm|undo|update|edit|rename|set|sell|buy)\b/,
    'the service can only add and show animals, not change or delete them. See: pets help',
  ],
  // Wrong arguments of a command, for example a value without its option.
  [/^(list|find|count|add) (?:--)?(available|pending|sold)$/i, 'did you mean --status $2?'],
  [/^(?!use )(\w+(?: \w+)?) (?:--)?(prod|staging|local)$/i, 'did you mean --profile $2?'],
  [/^(list|count) (\d+)$/, 'did you mean pets $1 --category $2?'],
  [/^count --by[ =](status|category) (status|category)$/, 'did you mean pets count --by $1,$2?'],
  [/^count (status|category|status,category|category,status)$/, 'did you mean pets count --by $1?'],
  [/^(list|count) (status|category)[ =](\w+)$/, 'did you mean pets $1 --$2 $3?'],
  [
    new RegExp(`^count (${TEXT})$`, 'u'),
    'to count animals by name: pets count --name "$1". By category: pets count --by category',
  ],
  [/^(list|find) --(name|search)$/, 'to find animals by name: pets find <text>'],
  [new RegExp(`^list (${TEXT})$`, 'u'), 'did you mean pets find "$1"?'],
  [new RegExp(`^find (${TEXT})$`, 'u'), 'put quotes around a text with spaces: pets find "$1"'],
  [/^(find|count) --all$/, '$1 always reads all animals'],
  [/^orders last\b/i, 'for the last 7 days: pets orders --since 7d'],
  [/^orders yesterday$/i, 'did you mean pets orders --since yesterday --until today?'],
  [/^orders (today|\d+[hdw]|\d{4}-[\d-]+)$/i, 'did you mean pets orders --since $1?'],
  [/^login (https?:\S+)$/, 'did you mean pets login --base-url $1?'],
  [/^login --url$/, 'did you mean pets login --base-url <url>?'],
  [
    /^serve --(api-?)?(key|token)$/,
    'for an API key: --key-file <file> or PETS_SERVE_KEY; for the developer token: PETS_SERVE_TOKEN',
  ],
  [/^\w* --(api-?)?(key|token)$|^login [^-]/, KEY_IN_ARGUMENTS],
  // Names and files of pets add.
  [/^add --(from|file)$/, 'to add all animals from a file: pets import <file>'],
  [/^add --name$/, 'the name is an argument: pets add Rex --category 3'],
  [
    /^add -\w/,
    'for the options: pets help add; for a name that begins with a hyphen: pets add --category 3 -- "-x y"',
  ],
  [new RegExp(`^add (${TEXT}?)(?: category)? (\\d+)$`, 'u'), 'did you mean pets add "$1" --category $2?'],
  [
    new RegExp(`^add (${TEXT}?) (--category[= ]\\d+(?: --.*)?)$`, 'u'),
    'put straight quotes around a name with spaces: pets add "$1" $2',
  ],
  [/^add [^-]/, 'put straight quotes around a name with spaces: pets add "Lady Bella" --category 3'],
  // What other tools call an option.
  [/^list --count$/, 'to count animals: pets count'],
  [/^\w+ --order$/, 'did you mean --sort <field>?'],
  [/^\w+ --fields$/, 'did you mean --columns <fields>?'],
  [/^list --page$/, 'to fetch all pages: pets list --all'],
  [/^(list|find|orders) --format$/, 'did you mean --json, --ndjson, --csv or --excel?'],
  [/^\w+ --format$/, 'did you mean --json?'],
  [
    /^\w+ --(table|tsv)$/,
    'a terminal shows a table, and a pipe gets tab-separated rows; for a file with a table: --output list.txt',
  ],
  [/^orders --status$/, 'did you mean pets orders --where status=<value>?'],
  [/^orders --(date|from|to)$/, 'for one day: pets orders --since 2026-11-20 --until 2026-11-21'],
  [/^\w* -o$/, 'did you mean --output <file>?'],
  [/^\w* -v$/, 'did you mean -V (show the version) or --debug (log each request)?'],
  [/^\w* -help$/, 'did you mean --help?'],
];

/** The hint for a line that is not valid; undefined if the table has none. */
export function hintFor(line: string): string | undefined {
  const plain = line.replace(/[“”„«»"]/g, '');
  for (const [pattern, hint] of HINTS) {
    const groups = pattern.exec(pattern.flags.includes('i') ? plain.toLowerCase() : plain);
    if (groups === null) continue;
    const text = hint.replace(/\$(\d)/g, (_, number) => groups[number] ?? '');
    return text.replace(/"([\w-]+)"/g, '$1');
  }
  return undefined;
}

/** Converts an error of commander into a usage error with a hint. `program.args` begins with the command's name. */
export function toUsageError(
  error: CommanderError,
  program: Commander,
  commands: CommandContext['commands'],
): CliError {
  const words = program.args;
  const { name, command, group } = commandOf(words, commands);
  const see = ['see: pets help', name || group].filter(Boolean).join(' ');
  // The suggestion of commander is on the last line. Arguments that commander quotes may contain line breaks too.
  const [, text = '', similar] = /^(?:error: )?(.*?)(?:\n\(D(id you mean .*)\))?$/s.exec(error.message) ?? [];
  const suggestion = similar && `d${similar}`;
  switch (error.code) {
    case 'commander.unknownCommand': {
      const end = words.findIndex((word) => word.startsWith('-'));
      return usageError(text, hintFor(words.slice(0, end < 0 ? 2 : end).join(' ')) ?? suggestion ?? see);
    }
    case 'commander.excessArguments': {
      const rest = words.slice(name.split(' ').length).filter((word) => word !== '--');
      const taken = command?.arguments?.length ?? 0;
      const count =
        taken === 0 ? 'no arguments' : taken === 1 ? 'only one argument' : `only ${taken} arguments`;
      const first = rest.findIndex((word) => word.startsWith('-'));
      const [all, start] = [rest, rest.slice(0, first < 0 ? rest.length : first)].map((each) =>
        [name, ...each].join(' '),
      );
      return usageError(`${name} accepts ${count}`, hintFor(all ?? '') ?? hintFor(start ?? '') ?? see);
    }
    case 'commander.unknownOption': {
      // Do not repeat the value of the option, because it may be an API key.
      const [, option = ''] = /'(-[\w-]*)/.exec(text) ?? [];
      if (suggestion === `did you mean ${option}?`) return usageError(`${option} does not take a value`, see);
      const more = suggestion ? `${suggestion} S${see.slice(1)}` : see;
      return usageError(`unknown option ${option}`, hintFor(`${name} ${option}`) ?? more);
    }
    case 'commander.conflictingOption':
      return usageError(text.replace(/option '(--[\w-]+)[^']*'/g, '$1'), see);
    case 'commander.help':
      return usageError('missing command', see);
    case 'commander.optionMissingArgument': {
      const [, flag = ''] = /'(?:-\w, )?(--[\w-]+)/.exec(text) ?? [];
      const example = command?.examples.find((line) => line.split(' ').includes(flag));
      return usageError(`${flag} needs a value`, example === undefined ? see : `for example: ${example}`);
    }
    case 'commander.missingArgument': {
      const missing = text.replace(/^missing required argument '(.*)'$/, 'missing <$1>');
      return usageError(missing, command ? `for example: ${command.examples[0]}` : see);
    }
    default:
      return usageError(text, see);
  }
}

/** The command at the start of the words, such as `keys add`. Without one, the name is empty and `group` may be set. */
function commandOf(
  [first, second]: readonly string[],
  commands: CommandContext['commands'],
): { name: string; command?: Command; group?: string | undefined } {
  const entry = commands.find(({ name }) => name === first);
  if (entry && 'run' in entry) return { name: entry.name, command: entry };
  const command = entry?.commands.find(({ name }) => name === second);
  return command ? { name: `${first} ${second}`, command } : { name: '', group: entry?.name };
}
