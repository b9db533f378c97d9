import type { Context } from '../core/context.ts';
import type { ColorMode, Console } from '../output/console.ts';
import type { ProfileName } from '../profiles/profile.ts';

/** The values of the options that every command accepts, before or after its name. */
export type GlobalOptions = {
  profile?: ProfileName;
  baseUrl?: string;
  json: boolean;
  /** Prints only results and errors: no notes and no progress. */
  quiet: boolean;
  /** The longest wait before a request, for example for a rate limit, in seconds; 0 never waits. */
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
  /** All commands, for help and completion. */
  commands: readonly (Command | CommandGroup)[];
};

type Parameter = {
  description: string;
  /** Throws ArgumentError for an invalid value. */
  parse?: (text: string) => unknown;
  /** All valid values, in lower case. Completion offers them. Without `parse`, help shows them too. */
  choices?: readonly string[];
  /** The hint shown for an invalid value; by default a reference to the command's help. */
  hint?: string;
};

export type Argument = Parameter & {
  /** The name in the form of a usage line: `<name>`, `[name]` or `<id...>`. */
  name: string;
  /** How help shows the argument, if not by its name; empty if help does not show it. */
  usage?: string;
};

export type Option = Parameter & {
  /** The flags in the form of a usage line, such as `--status <status>`. */
  flags: string;
  default?: unknown;
  /** The default that help shows if the command itself decides what a missing option means. */
  defaultText?: string;
  /** The options that cannot be given together with this one, for example `columns` for `--columns`. */
  conflicts?: readonly string[];
  /** The page on which help shows this option: `faults` in `pets help serve faults`. By default that of the command. */
  group?: string;
  /** True collects the values of an option that is given several times. Otherwise, the last value counts. */
  repeatable?: boolean;
};

/** An option of `outputOptions` in declare.ts. */
export type OutputOptionName = 'ndjson' | 'csv' | 'excel' | 'output';

/** The declaration and the action of a command. `Options` contains the values of options and arguments by name. */
export type Command<Options = never> = {
  name: string;
  summary: string;
  examples: readonly string[];
  /** A paragraph below the examples in the help of the command. */
  notes?: string;
  arguments?: readonly Argument[];
  /** The hint for words that are not arguments of the command; by default a reference to its help. */
  extraHint?: string;
  options?: readonly Option[];
  /** What the command prints to stdout, if it prints data: rows in any format, or a text. Both can also be JSON. */
  prints?: 'rows' | 'text';
  /** The options that choose how the data is printed; by default only `output`. The program adds them to `options`. */
  outputOptions?: readonly OutputOptionName[];
  /**
   * Whether SIGHUP does not interrupt the command if none of its standard streams is a terminal, as with nohup. Node cannot
   * see that nohup has ignored the signal, because it resets all signals when it starts.
   */
  survivesHangup?: boolean;
  /** Whether the data is an API key. If so, only the user can read a new file of `--output`. */
  printsKey?: boolean;
  /** Returns the exit code; undefined means 0. `pets serve` may return the exit code of the command that it ran. */
  run(options: Options, context: CommandContext): Promise<number | undefined>;
};

/** Commands with a common first word, such as `pets keys add`. */
export type CommandGroup = { name: string; summary: string; commands: readonly Command[] };
