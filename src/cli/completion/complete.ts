import type { Argument, Option } from '../program/command.ts';

/** The declarations of a command, without functions, so that completion need not load the program. */
export type CompletionSpec = {
  name: string;
  summary: string;
  options?: readonly OptionSpec[];
  arguments?: readonly ArgumentSpec[];
  commands?: readonly CompletionSpec[];
};

type OptionSpec = Pick<Option, 'flags' | 'description' | 'choices' | 'repeatable'>;
type ArgumentSpec = Pick<Argument, 'name' | 'choices'>;

/** Words that complete the line, or that the shell completes it itself with the names of files. */
export type Candidates = { words: readonly Word[]; isFile?: boolean };
type Word = { value: string; description?: string };

const FILES: Candidates = { words: [], isFile: true };

/**
 * The candidates for the last of `words`. That word is empty if the cursor follows a space.
 *
 * @param program all commands, and the options that every command accepts
 * @param words all words after the name of the program, up to the cursor
 */
export function complete(program: CompletionSpec, words: readonly string[]): Candidates {
  const { command, options, position, pending, isAfterSeparator } = parse(program, words.slice(0, -1));
  const typed = words.at(-1) ?? '';
  // PowerShell before 7.3 can pass an empty argument only in this form.
  const current = typed === '""' ? '' : typed;
  const isOption = current.startsWith('-') && !isAfterSeparator;

  if (pending && !(isValueOptional(pending) && isOption)) return completeValue(pending, current);
  if (isOption) return completeOption(options, current);
  if (position === 0 && command.commands)
    return matching(
      command.commands.map(({ name, summary }) => ({ value: name, description: summary })),
      current,
    );
  const declared = command.arguments ?? [];
  const argument = declared[position] ?? declared.findLast(({ name }) => name.includes('...'));
  if (argument?.name === '[command...]') return isAfterSeparator ? FILES : { words: [] };
  if (argument && (argument.choices || isFile(argument))) return completeValue(argument, current);
  return current === '' && !isAfterSeparator ? completeOption(options, current) : { words: [] };
}

/**
 * Parses the words before the cursor. Returns the command, the options that may still be given, the number of
 * arguments, the option whose value may come next, and whether there is a `--`.
 */
function parse(program: CompletionSpec, words: readonly string[]) {
  let command = program;
  let options = program.options ?? [];
  let position = 0;
  let pending: OptionSpec | undefined;
  let isAfterSeparator = false;
  for (const word of words) {
    const isValue = pending !== undefined && !(isValueOptional(pending) && word.startsWith('-'));
    pending = undefined;
    if (isValue) continue;
    if (isAfterSeparator) position++;
    else if (word === '--') isAfterSeparator = true;
    else if (word.startsWith('-') && word !== '-') {
      const option = findOption(options, word);
      if (option && /[<[]/.test(option.flags) && !word.includes('=')) pending = option;
      if (!option?.repeatable) options = options.filter((each) => each !== option);
    } else {
      const next = position === 0 && command.commands?.find(({ name }) => name === word);
      if (!next) position++;
      else {
        command = next;
        options = [...(next.options ?? []), ...options];
      }
    }
  }
  return { command, options, position, pending, isAfterSeparator };
}

const findOption = (options: readonly OptionSpec[], word: string) =>
  options.find((option) => namesOf(option).includes(word.split('=')[0] ?? ''));

/** The names of an option, such as `-h` and `--help` for the flags `-h, --help`. */
const namesOf = ({ flags }: OptionSpec): string[] => flags.match(/(?<![\w-])--?[A-Za-z][\w-]*/g) ?? [];

/** Whether the value may be omitted, as in `--seed [file]`. */
const isValueOptional = ({ flags }: OptionSpec): boolean => flags.includes('[');

/** Whether an argument such as `<file>` or the value of an option such as `--data <dir|url>` is a file or directory. */
function isFile(declared: OptionSpec | ArgumentSpec): boolean {
  const usage = 'flags' in declared ? declared.flags : declared.name;
  return /[<[](?:file|dir|from|to)\b/.test(usage);
}

/** Completes the name of an option. After `--name=`, completes the value of that option. */
function completeOption(options: readonly OptionSpec[], current: string): Candidates {
  const equals = current.indexOf('=');
  if (equals === -1)
    return matching(
      options.map((each) => ({ value: namesOf(each).at(-1) ?? '', description: each.description })),
      current,
    );
  const option = findOption(options, current);
  return option ? completeValue(option, current, current.slice(0, equals + 1)) : { words: [] };
}

function completeValue(declared: OptionSpec | ArgumentSpec, current: string, prefix = ''): Candidates {
  if (isFile(declared)) return FILES;
  return matching(
    (declared.choices ?? []).map((choice) => ({ value: prefix + choice })),
    current,
  );
}

const matching = (words: readonly Word[], current: string): Candidates => ({
  words: words.filter(({ value }) => value.startsWith(current)),
});

/**
 * Formats candidates for the scripts. Each line has a word, and after a tab the description of the word, if there is
 * one. The last line is `:files` if the shell completes the names of files itself, and otherwise `:nothing`.
 */
export function formatCandidates({ words, isFile = false }: Candidates): string {
  const lines = words.map(({ value, description }) => (description ? `${value}\t${description}` : value));
  return [...lines, isFile ? ':files' : ':nothing', ''].join('\n');
}
