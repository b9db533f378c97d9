import type { CompletionSpec, OptionSpec, ShellCompletion, ValueSpec } from './spec.ts';

/** Words that complete the line, or what the shell completes itself. */
export type Candidates = { words: readonly Word[]; shell?: ShellCompletion };
type Word = { value: string; description?: string };

/**
 * The candidates for the last word, which may be empty.
 *
 * @param words all words after the name of the program, up to the cursor
 */
export function complete(program: CompletionSpec, words: readonly string[]): Candidates {
  const { command, options, position, pending, isAfterSeparator } = parse(program, words.slice(0, -1));
  const typed = words.at(-1) ?? '';
  // PowerShell before 7.3 can pass an empty argument only in this form.
  const current = typed === '""' ? '' : typed;
  const isOption = current.startsWith('-') && !isAfterSeparator;

  if (pending?.value && !(pending.isValueOptional && isOption)) return completeValue(pending.value, current);
  if (isOption) return completeOption(options, current);
  if (position === 0 && command.commands.length > 0) {
    return matching(
      command.commands.map(({ name, description }) => ({ value: name, description })),
      current,
    );
  }
  const argument = command.arguments[position] ?? command.arguments.findLast((each) => each.isRepeatable);
  if (argument && isAllowedHere(argument, isAfterSeparator)) return completeValue(argument, current);
  return current === '' && !isAfterSeparator ? completeOption(options, current) : { words: [] };
}

/**
 * Parses the words before the cursor: the command so far, the options that may still be given, the number of arguments,
 * and an option that still needs its value.
 */
function parse(program: CompletionSpec, words: readonly string[]) {
  let command = program;
  let options = program.options;
  let position = 0;
  let pending: OptionSpec | undefined;
  let isAfterSeparator = false;
  for (const word of words) {
    const isValue = pending !== undefined && !(pending.isValueOptional && word.startsWith('-'));
    pending = undefined;
    if (isValue) continue;
    if (isAfterSeparator) position++;
    else if (word === '--') isAfterSeparator = true;
    else if (word.startsWith('-') && word !== '-') {
      const option = findOption(options, word);
      if (option?.value && !word.includes('=')) pending = option;
      if (!option?.isRepeatable) options = options.filter((each) => each !== option);
    } else {
      const next = position === 0 && command.commands.find(({ name }) => name === word);
      if (!next) position++;
      else {
        command = next;
        options = [...next.options, ...options];
      }
    }
  }
  return { command, options, position, pending, isAfterSeparator };
}

const findOption = (options: readonly OptionSpec[], word: string) =>
  options.find(({ names }) => names.includes(word.split('=')[0] ?? ''));

/** A shell command is completed only after `--`. */
const isAllowedHere = ({ choices, shell }: ValueSpec, isAfterSeparator: boolean): boolean =>
  shell === 'commands' ? isAfterSeparator : choices !== undefined || shell !== undefined;

/** Long option names, or after `--name=` the values of that option. */
function completeOption(options: readonly OptionSpec[], current: string): Candidates {
  const equals = current.indexOf('=');
  if (equals === -1) {
    const words = options.map(({ names, description }) => ({ value: names.at(-1) ?? '', description }));
    return matching(words, current);
  }
  const value = findOption(options, current)?.value;
  return value ? completeValue(value, current, current.slice(0, equals + 1)) : { words: [] };
}

function completeValue({ choices = [], shell }: ValueSpec, current: string, prefix = ''): Candidates {
  if (shell !== undefined) return { words: [], shell };
  return matching(
    choices.map((choice) => ({ value: prefix + choice })),
    current,
  );
}

const matching = (words: readonly Word[], current: string): Candidates => ({
  words: words.filter(({ value }) => value.startsWith(current)),
});

/**
 * Candidates in the form that the scripts read: one word per line, with a tab before its description; the last line is a
 * colon and what the shell should complete itself.
 */
export function formatCandidates({ words, shell }: Candidates): string {
  const lines = words.map(({ value, description }) => (description ? `${value}\t${description}` : value));
  return [...lines, `:${shell ?? 'nothing'}`, ''].join('\n');
}
