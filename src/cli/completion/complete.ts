import type { Command } from 'commander';

/** The declarations of a command, without functions, so that completion need not load the program. */
export type CompletionSpec = {
  name: string;
  options: readonly ValueSpec[];
  arguments: readonly ValueSpec[];
  commands: readonly CompletionSpec[];
};

/** An argument such as `<file>`, or the flags of an option such as `--data <dir|url>`. */
type ValueSpec = { usage: string; choices?: readonly string[] | undefined };

/** What Tab can complete: all commands with their arguments and options. `topics` are the other pages of `help`. */
export function completionSpec(program: Command, topics: readonly string[]): CompletionSpec {
  const { name, options, commands } = specOf(program);
  const pages = topics.map((topic) => ({ name: topic, options: [], arguments: [], commands: [] }));
  return {
    name,
    options: [...options, { usage: '-h, --help' }],
    arguments: [],
    commands: commands.map((each) =>
      each.name === 'help' ? { ...each, commands: [...commands, ...pages] } : each,
    ),
  };
}

const specOf = (command: Command): CompletionSpec => ({
  name: command.name(),
  options: command.options.map(({ flags, argChoices }) => ({ usage: flags, choices: argChoices })),
  arguments: command.registeredArguments.map((each) => ({
    usage: `<${each.name()}${each.variadic ? '...' : ''}>`,
    choices: each.argChoices,
  })),
  commands: command.commands.map(specOf),
});

/** The result that stands for names of files, which the shell completes itself. */
const FILES = [':files'];

/**
 * The words that complete the last of `words`, or `:files`. The last word is empty if the cursor follows a space.
 *
 * @param program all commands, and the options that every command accepts
 * @param words all words after the name of the program, up to the cursor
 */
export function complete(program: CompletionSpec, words: readonly string[]): readonly string[] {
  const current = words.at(-1) ?? '';
  const [, option, value = ''] = /^(--[\w-]+)=(.*)$/s.exec(current) ?? [];
  if (option)
    return complete(program, words.slice(0, -1).concat(option, value)).map((word) =>
      word === FILES[0] ? word : `${option}=${word}`,
    );
  const isOption = (word: string) => /^-./.test(word);
  let command = program;
  let position = 0;
  /** The option whose value the next word must or may be. */
  let pending: ValueSpec | undefined;
  for (const word of words.slice(0, -1)) {
    // After `--`, no options follow, only arguments: names of files, or the command of pets serve.
    if (word === '--') return FILES;
    const isValue = pending && !(isOption(word) && isValueOptional(pending));
    pending = undefined;
    if (isValue) continue;
    const next = command.commands.find(({ name }) => name === word);
    if (next) [command, position] = [next, 0];
    else if (!isOption(word)) position++;
    else pending = [...command.options, ...program.options].find((each) => takesValue(each, word));
  }
  const matching = (candidates: readonly string[]) => candidates.filter((word) => word.startsWith(current));
  const valuesOf = (declared: ValueSpec) => (isFile(declared) ? FILES : matching(declared.choices ?? []));
  if (pending && !(isOption(current) && isValueOptional(pending))) return valuesOf(pending);
  if (!isOption(current)) {
    if (command.commands.length > 0 && position === 0)
      return matching(command.commands.map(({ name }) => name));
    const { arguments: args } = command;
    const argument = args[position] ?? args.findLast(({ usage }) => usage.includes('...'));
    if (argument && (argument.choices || isFile(argument))) return valuesOf(argument);
    if (current !== '') return [];
  }
  // `pets login` also declares two global options, to show them in its help.
  const names = [...command.options, ...program.options].map((each) => namesOf(each).at(-1) ?? '');
  return matching([...new Set(names)]);
}

/** The names of an option, such as `-h` and `--help` for the flags `-h, --help`. */
const namesOf = ({ usage }: ValueSpec): string[] => usage.match(/(?<![\w-])--?[A-Za-z][\w-]*/g) ?? [];

const takesValue = (option: ValueSpec, word: string): boolean =>
  /[<[]/.test(option.usage) && namesOf(option).includes(word);

/** Whether the value may be omitted, as in `--seed [file]`. */
const isValueOptional = ({ usage }: ValueSpec): boolean => usage.includes('[');

/** Whether an argument such as `<file>` or the value of an option such as `--data <dir|url>` is a file or directory. */
const isFile = ({ usage }: ValueSpec): boolean => /[<[](?:file|dir|from|to)\b/.test(usage);

/** The text that the scripts read: one word on each line. */
export const completionText = (program: CompletionSpec, words: readonly string[]): string =>
  complete(program, words)
    .map((word) => `${word}\n`)
    .join('');
