import { createContext, runInContext } from 'node:vm';
import { usageError } from '../core/errors.ts';
import { ArgumentError } from '../core/parsers.ts';

/** A condition on the name of an animal. */
export type NameFilter = {
  /** The condition as messages show it: `"rex"` or `/^rex/i`. */
  shown: string;
  /**
   * The animals whose names meet the condition.
   *
   * @throws CliError if a regular expression takes too long
   */
  select<Named extends { name: string }>(animals: readonly Named[]): readonly Named[];
};

/** The flags that are accepted. With g or y, `test` would begin where the previous match ended. */
const FLAGS = /^[imsuv]*$/;

/**
 * Parses `--name`: a text that the name contains, ignoring case and accents, or `/regular expression/flags`, which
 * ignores neither.
 *
 * @throws ArgumentError
 */
export function parseNameFilter(text: string): NameFilter {
  const [, source, flags = ''] = /^\/(.+)\/([a-z]*)$/s.exec(text) ?? [];
  if (source === undefined) {
    const fold = createFold();
    const part = fold(text);
    // An empty text is usually an unset shell variable. It would match every name.
    if (part === '')
      throw new ArgumentError('must be part of a name, or a regular expression such as /^rex/i');
    return {
      shown: JSON.stringify(text),
      select: (animals) => animals.filter(({ name }) => fold(name).includes(part)),
    };
  }
  if (!FLAGS.test(flags)) throw new ArgumentError('may have the flags i, m, s, u and v after the last /');
  const expression = toRegExp(source, flags);
  const runLimited = createLimiter(text);
  return {
    shown: text,
    select: (animals) => runLimited(() => animals.filter(({ name }) => expression.test(name))),
  };
}

/** The time within which a regular expression must have tested the names of a page, in milliseconds. */
const TIME_LIMIT = 1_000;

/**
 * Returns a function that runs tests of a regular expression, which can take almost forever, for example `/(a+)+$/`. No
 * signal is handled meanwhile, not even Ctrl-C. Only `node:vm` can stop a regular expression.
 */
function createLimiter(expression: string) {
  const globals: { work?: () => unknown } = {};
  const sandbox = createContext(globals);
  return <Result>(work: () => Result): Result => {
    globals.work = work;
    try {
      return runInContext('work()', sandbox, { timeout: TIME_LIMIT });
    } catch (error) {
      // V8 throws a RangeError if the expression needs too much memory.
      const isTimeout = (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
      if (!isTimeout && !(error instanceof RangeError)) throw error;
      throw usageError(
        `the regular expression ${expression} takes too long`,
        'simplify it; nested repetitions such as (a+)+ are slow',
      );
    }
  };
}

function toRegExp(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, flags);
  } catch (error) {
    // The message of V8 repeats the expression: `Invalid regular expression: /(/: Unterminated group`.
    const reason = (error as Error).message.split(': ').at(-1) ?? '';
    throw new ArgumentError(`must be a valid regular expression (${reason})`);
  }
}

/** Characters that NFKD does not decompose, with the text that people often type instead. */
const LETTERS: Readonly<Record<string, string>> = {
  Ł: 'L',
  Ø: 'O',
  Đ: 'D',
  Ð: 'D',
  Ħ: 'H',
  Ŧ: 'T',
  Þ: 'TH',
  Æ: 'AE',
  Œ: 'OE',
  '’': "'",
  '‘': "'",
};
const ANY_LETTER = new RegExp(`[${Object.keys(LETTERS).join('')}]`, 'g');

/**
 * Returns a function that maps texts to the same text if they differ only in case, accents or compatibility forms, for
 * example ß and SS.
 */
export function createFold(): (text: string) => string {
  let collator: Intl.Collator | undefined;
  const ignored = new Map<string, boolean>();
  /** Whether the root collation ignores a character if it compares only letters. */
  const isIgnored = (mark: string): boolean => {
    const known = ignored.get(mark);
    if (known !== undefined) return known;
    collator ??= new Intl.Collator('en', { sensitivity: 'base' });
    const result = collator.compare(mark, '') === 0;
    ignored.set(mark, result);
    return result;
  };
  return (text) => {
    if (/^[\0-\x7f]*$/.test(text)) return text.toUpperCase();
    // Vowel signs of Indic scripts are marks too, but they are letters to a reader, so the collation decides.
    const letters = text
      .normalize('NFKD')
      .replace(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, (mark) => (isIgnored(mark) ? '' : mark))
      // A Hangul syllable must not match a longer syllable that begins with the same letters.
      .normalize('NFC');
    // Only lower case changes ẞ to ß. Only upper case changes ß to SS, and both forms of the Greek sigma to one.
    const folded = letters.toLowerCase().toUpperCase();
    return folded.replace(ANY_LETTER, (letter) => LETTERS[letter] ?? letter);
  };
}
