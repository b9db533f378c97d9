import type { Argument, Command, CommandGroup, Option } from '../program/command.ts';
import { globalOptions, helpOption, versionOption } from '../program/global-options.ts';
import { topics } from '../program/help.ts';

/** What the shell completes itself. */
export type ShellCompletion = 'files' | 'directories' | 'commands';

/** The values of an option or argument. Without choices or a shell completion, any text is allowed. */
export type ValueSpec = { choices?: readonly string[]; shell?: ShellCompletion };

export type OptionSpec = {
  /** `-h` and `--help`. */
  names: readonly string[];
  description: string;
  /** Undefined if the option takes no value. */
  value?: ValueSpec;
  /** The value may be omitted, as in `--seed [file]`. */
  isValueOptional?: boolean;
  isRepeatable?: boolean;
};

/** The declaration of a command as plain data, so that completion need not load the program. */
export type CompletionSpec = {
  name: string;
  description: string;
  options: readonly OptionSpec[];
  arguments: readonly (ValueSpec & { isRepeatable?: boolean })[];
  commands: readonly CompletionSpec[];
};

/** The whole program. Its options are the global ones, which every command accepts. */
export function completionSpec(commands: readonly (Command<never> | CommandGroup)[]): CompletionSpec {
  const table = commands.map(commandSpec);
  const help = {
    ...leaf('help', 'show help'),
    commands: [...table.map(namesOnly), ...Object.keys(topics).map((topic) => leaf(topic, ''))],
  };
  return {
    ...leaf('pets', ''),
    options: [...globalOptions, helpOption, versionOption].map(optionSpec),
    commands: [...table, help],
  };
}

const leaf = (name: string, description: string): CompletionSpec => ({
  name,
  description,
  options: [],
  arguments: [],
  commands: [],
});

function commandSpec(command: Command<never> | CommandGroup): CompletionSpec {
  const entry = leaf(command.name, command.summary);
  if (!('run' in command)) return { ...entry, commands: command.commands.map(commandSpec) };
  return {
    ...entry,
    options: (command.options ?? []).map(optionSpec),
    arguments: (command.arguments ?? []).map(argumentSpec),
  };
}

/** A command as an argument of `pets help`: its name and those of its subcommands. */
const namesOnly = ({ name, description, commands }: CompletionSpec): CompletionSpec => ({
  ...leaf(name, description),
  commands: commands.map(namesOnly),
});

function optionSpec({ flags, description, choices, repeatable }: Option): OptionSpec {
  const [value] = flags.match(/[<[].*/) ?? [];
  return {
    names: flags.match(/(?<![\w-])--?[A-Za-z][\w-]*/g) ?? [],
    description,
    ...(value !== undefined && { value: valueSpecOf(value, choices) }),
    ...(value?.startsWith('[') && { isValueOptional: true }),
    ...(repeatable && { isRepeatable: true }),
  };
}

const argumentSpec = ({ name, choices }: Argument) => ({
  ...valueSpecOf(name, choices),
  ...(name.includes('...') && { isRepeatable: true }),
});

/** Placeholders in a usage line that the shell completes itself. */
const SHELL_COMPLETIONS: Readonly<Record<string, ShellCompletion>> = {
  file: 'files',
  directory: 'directories',
  command: 'commands',
};

function valueSpecOf(placeholder: string, choices: readonly string[] | undefined): ValueSpec {
  if (choices !== undefined) return { choices };
  const shell = SHELL_COMPLETIONS[placeholder.replace(/[^\w-]/g, '')];
  return shell === undefined ? {} : { shell };
}
