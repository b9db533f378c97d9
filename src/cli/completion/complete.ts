import type { Completable, CompletableOption, Place, ShellWords } from './table.ts';

/** What may stand where the cursor is: words of ours, or what the shell itself knows. */
export type Offer = { words: readonly Word[]; shell?: ShellWords };
type Word = { value: string; description?: string };

/**
 * What the last word, begun or empty, may become.
 *
 * @param words all words behind the program's name, up to the cursor
 */
export function complete(program: Completable, words: readonly string[]): Offer {
  const { command, options, position, pending, isBehindSeparator } = read(program, words.slice(0, -1));
  const typed = words.at(-1) ?? '';
  // PowerShell before 7.3 can pass on an empty word only so.
  const current = typed === '""' ? '' : typed;
  const isOption = current.startsWith('-') && !isBehindSeparator;

  if (pending?.value && !(pending.isValueOptional && isOption)) return offerPlace(pending.value, current);
  if (isOption) return offerOption(options, current);
  if (position === 0 && command.commands.length > 0) return offerWords(command.commands.map(wordOf), current);
  const place = command.arguments[position] ?? command.arguments.findLast((each) => each.isRepeatable);
  if (place && canStandHere(place, isBehindSeparator)) return offerPlace(place, current);
  return current === '' && !isBehindSeparator ? offerOption(options, current) : { words: [] };
}

/** Where the words before the last one have led to. */
function read(program: Completable, words: readonly string[]) {
  let command = program;
  let options = program.options;
  let position = 0;
  let pending: CompletableOption | undefined;
  let isBehindSeparator = false;
  for (const word of words) {
    const isValue = pending !== undefined && !(pending.isValueOptional && word.startsWith('-'));
    pending = undefined;
    if (isValue) continue;
    if (isBehindSeparator) position++;
    else if (word === '--') isBehindSeparator = true;
    else if (word.startsWith('-') && word !== '-') {
      const option = optionOf(options, word);
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
  return { command, options, position, pending, isBehindSeparator };
}

const optionOf = (options: readonly CompletableOption[], word: string) =>
  options.find(({ names }) => names.includes(word.split('=')[0] ?? ''));

/** A command to run stands behind `--` alone. */
const canStandHere = ({ choices, shell }: Place, isBehindSeparator: boolean): boolean =>
  shell === 'commands' ? isBehindSeparator : choices !== undefined || shell !== undefined;

/** The long names; or, behind `--name=`, the values of that option. */
function offerOption(options: readonly CompletableOption[], current: string): Offer {
  const equals = current.indexOf('=');
  if (equals === -1) {
    const words = options.map(({ names, description }) => ({ value: names.at(-1) ?? '', description }));
    return offerWords(words, current);
  }
  const place = optionOf(options, current)?.value;
  return place ? offerPlace(place, current, current.slice(0, equals + 1)) : { words: [] };
}

function offerPlace({ choices = [], shell }: Place, current: string, prefix = ''): Offer {
  if (shell !== undefined) return { words: [], shell };
  return offerWords(
    choices.map((choice) => ({ value: prefix + choice })),
    current,
  );
}

const wordOf = ({ name, description }: Completable): Word => ({ value: name, description });

const offerWords = (words: readonly Word[], current: string): Offer => ({
  words: words.filter(({ value }) => value.startsWith(current)),
});

/**
 * An offer as the scripts read it: a whole word a line, behind a tab what it is for; and last, behind a colon, what
 * the shell is to offer itself.
 */
export function offerText({ words, shell }: Offer): string {
  const lines = words.map(({ value, description }) => (description ? `${value}\t${description}` : value));
  return [...lines, `:${shell ?? 'nothing'}`, ''].join('\n');
}
