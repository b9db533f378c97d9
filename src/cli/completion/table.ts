import type { Argument, Command, CommandGroup, Option } from '../command.ts';
import { globalOptions, helpOption, versionOption } from '../global-options.ts';
import { topics } from '../topics.ts';

/** What the shell itself knows to offer. */
export type ShellWords = 'files' | 'directories' | 'commands';

/** What may stand at a place; free text where it is empty. */
export type Place = { choices?: readonly string[]; shell?: ShellWords };

export type CompletableOption = {
  /** `-h` and `--help`. */
  names: readonly string[];
  description: string;
  /** What its value may be; none where it takes no value. */
  value?: Place;
  /** The value may be left out: `--seed [file]`. */
  isValueOptional?: boolean;
  isRepeatable?: boolean;
};

/** The commands, options and arguments, as plain data: what completion has to know of the declarations. */
export type Completable = {
  name: string;
  description: string;
  options: readonly CompletableOption[];
  arguments: readonly (Place & { isRepeatable?: boolean })[];
  commands: readonly Completable[];
};

/** The whole program; its options are those of every command. */
export function completionTable(commands: readonly (Command<never> | CommandGroup)[]): Completable {
  const table = commands.map(ofCommand);
  const help = {
    ...leaf('help', 'show help'),
    commands: [...table.map(nameAlone), ...Object.keys(topics).map((topic) => leaf(topic, ''))],
  };
  return {
    ...leaf('pets', ''),
    options: [...globalOptions, helpOption, versionOption].map(ofOption),
    commands: [...table, help],
  };
}

const leaf = (name: string, description: string): Completable => ({
  name,
  description,
  options: [],
  arguments: [],
  commands: [],
});

function ofCommand(command: Command<never> | CommandGroup): Completable {
  const entry = leaf(command.name, command.summary);
  if (!('run' in command)) return { ...entry, commands: command.commands.map(ofCommand) };
  return {
    ...entry,
    options: (command.options ?? []).map(ofOption),
    arguments: (command.arguments ?? []).map(ofArgument),
  };
}

/** As `pets help` takes it. */
const nameAlone = ({ name, description, commands }: Completable): Completable => ({
  ...leaf(name, description),
  commands: commands.map(nameAlone),
});

function ofOption({ flags, description, choices, repeatable }: Option): CompletableOption {
  const [value] = flags.match(/[<[].*/) ?? [];
  return {
    names: flags.match(/(?<![\w-])--?[A-Za-z][\w-]*/g) ?? [],
    description,
    ...(value !== undefined && { value: placeOf(value, choices) }),
    ...(value?.startsWith('[') && { isValueOptional: true }),
    ...(repeatable && { isRepeatable: true }),
  };
}

const ofArgument = ({ name, choices }: Argument) => ({
  ...placeOf(name, choices),
  ...(name.includes('...') && { isRepeatable: true }),
});

/** The placeholders of a usage line that name something of the shell's. */
const shellWords: Readonly<Record<string, ShellWords>> = {
  file: 'files',
  directory: 'directories',
  command: 'commands',
};

function placeOf(placeholder: string, choices: readonly string[] | undefined): Place {
  if (choices !== undefined) return { choices };
  const shell = shellWords[placeholder.replace(/[^\w-]/g, '')];
  return shell === undefined ? {} : { shell };
}
