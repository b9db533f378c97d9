import { Argument, type Command as Commander, Option } from 'commander';
import type { Context } from '../core/context.ts';
import { usageError } from '../core/errors.ts';
import { ArgumentError, oneOf } from '../core/values.ts';
import type { ColorMode, Console } from '../output/console.ts';
import type { ProfileName } from '../profiles/profile.ts';

/** The values of the options that every command accepts, before or after its name. */
export type GlobalOptions = {
  profile?: ProfileName;
  baseUrl?: string;
  json: boolean;
  /** Prints only results and errors: no notes and no progress. */
  quiet: boolean;
  /** The longest wait before an attempt, for example for a rate limit, in seconds, without its random part; 0 never waits. */
  maxWait: number;
  /** The time limit for an attempt, in seconds. */
  timeout: number;
  /** The time limit for all requests of the command, in seconds. */
  maxTime?: number;
  /** False with `--no-retry`. */
  retry: boolean;
  debug: boolean;
  color: ColorMode;
  /** False with `--no-input`, which forbids prompts. */
  input: boolean;
};

/** What every command receives besides its own options: the process, the global options and the console. */
export type CommandContext = Context & {
  globals: GlobalOptions;
  console: Console;
  /** When the command began, by `clock.elapsed()`. */
  startedAt: number;
  /** All commands as commander knows them, for help and completion. */
  program: Commander;
};

/** An option of `outputOptions` in program.ts. */
export type OutputOptionName = 'ndjson' | 'csv' | 'excel' | 'output';

/** The declaration and the action of a command. `Options` contains the values of options and arguments by name. */
export type Command<Options = never> = {
  name: string;
  aliases?: readonly string[];
  summary: string;
  examples: readonly string[];
  /** A paragraph at the end of the help of the command. */
  notes?: string;
  arguments?: readonly Argument[];
  /** The hint for words that are not arguments of the command; by default a reference to its help. */
  extraHint?: string;
  options?: readonly Option[];
  /** What the command prints to stdout, if it prints data: rows in any format, or a text, which can also be JSON. */
  prints?: 'rows' | 'text';
  /** The options that choose how the data is printed; by default only `output`. The program adds them to `options`. */
  outputOptions?: readonly OutputOptionName[];
  /** Whether the data is an API key. If so, only the user can read a new file of `--output`. */
  printsKey?: boolean;
  /** Returns the exit code; undefined means 0. `pets serve` may return the exit code of the command that it ran. */
  run(options: Options, context: CommandContext): Promise<number | undefined>;
};

/** Commands with a common first word, such as `pets keys add`. */
export type CommandGroup = { name: string; summary: string; commands: readonly Command[] };

type Parse = (text: string) => unknown;

/** What an argument or option accepts: what a parser accepts, or one of these words, which may be typed in any case. */
type Values = Parse | readonly string[];

/** Declares an option. The error for a wrong value names the option, and has this hint. */
export const option = (flags: string, description: string, values?: Values, hint?: string): Option =>
  acceptValues(new Option(flags, description), values, hint);

/** Declares an option that may be given several times. Its value is a list. */
export const repeatable = (flags: string, description: string, values: Values, hint?: string): Option =>
  acceptValues(new Option(flags, `${description} (repeatable)`), values, hint, true);

/** Puts options on a page of help for their group, because the options of `pets serve` do not all fit on a screen. */
export const inGroup = (group: string, options: readonly Option[]): Option[] =>
  options.map((member) => member.helpGroup(group));

/** Declares an argument, such as `<file>`, `[dir|url]` or `<id...>`. */
export function argument(name: string, description: string, values?: Values, hint?: string): Argument {
  const declared = new Argument(name, description);
  return acceptValues(declared, values, hint, declared.variadic);
}

function acceptValues<Declared extends Argument | Option>(
  declared: Declared,
  values: Values | undefined,
  hint: string | undefined,
  isList = false,
): Declared {
  if (values === undefined) return declared;
  const name = declared instanceof Option ? `--${declared.name()}` : `<${declared.name()}>`;
  if (typeof values !== 'function') declared.argChoices = [...values];
  const parse = withUsageErrors(name, typeof values === 'function' ? values : anyCase(values), hint);
  declared.argParser(isList ? collect(parse) : parse);
  return declared;
}

const anyCase = (words: readonly string[]): Parse => {
  const parse = oneOf(words);
  return (text) => parse(text.trim().toLowerCase());
};

const collect = (parse: Parse) => (text: string, previous: unknown) => [
  ...((previous as unknown[] | undefined) ?? []),
  parse(text),
];

/** Returns a parser that throws a CliError, which names the argument, option or variable, instead of an ArgumentError. */
export function withUsageErrors(name: string, parse: Parse, hint?: string): Parse {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof ArgumentError)) throw error;
      const given = error.message.startsWith('must not') ? '' : `, not ${JSON.stringify(text)}`;
      throw usageError(`${name} ${error.message}${given}`, hint);
    }
  };
}
