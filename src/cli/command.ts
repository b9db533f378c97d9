import type { Context } from './context.ts';
import type { Globals } from './globals.ts';
import type { Console } from './output/console.ts';

/** What a running command has: the process, the global options, and a place to speak. */
export type Runtime = { context: Context; globals: Globals; console: Console };

export type Argument = {
  /** As in a usage line: `<name>`, `[name]`, `<id...>`. */
  name: string;
  description: string;
  parse?: (text: string) => unknown;
  choices?: readonly string[];
  /** What helps where it is refused; without it, the command's help. */
  hint?: string;
};

export type Option = {
  /** As in a usage line: `--status <status>`. */
  flags: string;
  description: string;
  parse?: (text: string) => unknown;
  /** All that it may be: help tells them, completion offers them, anything else is refused. */
  choices?: readonly string[];
  default?: unknown;
  required?: boolean;
  /** Given again it adds a value, and does not replace one. */
  repeatable?: boolean;
};

/**
 * A command: a declaration, and what it does. `Options` is what the declaration's parsers make of the arguments;
 * `positional` arguments come in under their names.
 */
export type Command<Options = never> = {
  name: string;
  summary: string;
  examples: readonly string[];
  arguments?: readonly Argument[];
  options?: readonly Option[];
  /** Combinations that single options cannot check. @throws CliError */
  check?(options: Options): void;
  /** The exit code: one of exit-codes.ts, or that of a command which this one ran. */
  run(options: Options, runtime: Runtime): Promise<number>;
};

/** A group of commands: `pets keys add`. */
export type CommandGroup = { name: string; summary: string; commands: readonly Command<never>[] };
