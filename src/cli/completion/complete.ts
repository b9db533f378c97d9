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

/** Words that complete the line, or the kind of words with which the shell completes it itself. */
export type Candidates = { words: readonly Word[]; kind?: Kind };
type Word = { value: string; description?: string };
type Kind = 'files' | 'directories' | 'commands';

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
  const kind = argument && kindOf(argument);
  // A shell command is completed only after `--`.
  const isCompleted = kind === 'commands' ? isAfterSeparator : (kind ?? argument?.choices) !== undefined;
  if (argument && isCompleted) return completeValue(argument, current);
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

/** Maps a placeholder in a usage line, such as `file` in `<file>`, to what completes it. */
const KINDS: Readonly<Record<string, Kind>> = {
  file: 'files',
  dir: 'directories',
  from: 'directories',
  to: 'directories',
  command: 'commands',
};

/** What completes an argument such as `[command...]` or the value of an option such as `--seed [file]`, if anything. */
function kindOf(declared: OptionSpec | ArgumentSpec): Kind | undefined {
  const usage = 'flags' in declared ? declared.flags : declared.name;
  return KINDS[/[<[]([\w-]+)/.exec(usage)?.[1] ?? ''];
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
  const { choices = [] } = declared;
  const kind = kindOf(declared);
  if (choices.length === 0 && kind) return { words: [], kind };
  return matching(
    choices.map((choice) => ({ value: prefix + choice })),
    current,
  );
}

const matching = (words: readonly Word[], current: string): Candidates => ({
  words: words.filter(({ value }) => value.startsWith(current)),
});

/**
 * Formats candidates for the scripts. Each line has a word, and after a tab the description of the word, if there is
 * one. The last line is a colon and the kind of words that the shell completes itself, or `:nothing`.
 */
export function formatCandidates({ words, kind }: Candidates): string {
  const lines = words.map(({ value, description }) => (description ? `${value}\t${description}` : value));
  return [...lines, `:${kind ?? 'nothing'}`, ''].join('\n');
}
