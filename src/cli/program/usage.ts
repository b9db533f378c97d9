import type { CommanderError } from 'commander';
import type { Command } from '../command.ts';
import { commands } from '../commands/index.ts';
import { type CliError, usageError } from '../errors/cli-error.ts';
import { meantByCommand, meantByExcess, meantByOption } from './meant.ts';

/**
 * An error of the arguments' parser: its own words, and what was probably meant. `given` are the arguments behind the
 * options of every command.
 */
export function usageOf(error: CommanderError, given: readonly string[]): CliError {
  // The suggestion is the last line; what was typed may have lines of its own.
  const [, text = '', suggestion] =
    /^(?:error: )?(.*?)(?:\n\((Did you mean .*)\))?$/s.exec(error.message) ?? [];
  const similar = suggestion?.replace(/^D/, 'd');
  const firstOption = given.findIndex((word) => word.startsWith('-'));
  const words = firstOption === -1 ? given : given.slice(0, firstOption);
  const command = commandOf(words);
  const name = command ? nameOf(words, command) : '';
  const see = `see: pets help${name && ` ${name}`}`;
  switch (error.code) {
    case 'commander.unknownCommand':
      return usageError(text, meantByCommand(unknownWords(words)) ?? similar ?? see);
    case 'commander.excessArguments': {
      const [rest, options] = [words.slice(name.split(' ').length), given.slice(words.length)];
      const text = excessText(name, rest[0] ?? options[0] ?? '', command);
      return usageError(text, meantByExcess(name, rest, options) ?? see);
    }
    case 'commander.unknownOption': {
      // Not what stands behind it: that may be a key.
      const [, option = ''] = /'(-[\w-]*)/.exec(text) ?? [];
      if (similar === `did you mean ${option}?`) return usageError(`${option} takes no value`, see);
      return usageError(`unknown option ${option}`, meantByOption(name, option) ?? withSee(similar, see));
    }
    case 'commander.help':
      return usageError('a command is missing', see);
    case 'commander.missingArgument':
    case 'commander.missingMandatoryOptionValue':
      return usageError(text, command ? `for example: ${command.examples[0]}` : see);
    default:
      return usageError(text, see);
  }
}

/** What stands behind `login` may be a key: it is not repeated. */
function excessText(name: string, word: string, command: Command<never> | undefined): string {
  if (name === 'add') return 'add takes one name';
  const taken = command?.arguments?.length ?? 0;
  if (taken > 0) return `${name} takes no more than ${taken === 1 ? 'one argument' : `${taken} arguments`}`;
  return `${name} takes no argument${name === 'login' ? '' : ` ${word === '' ? '""' : word}`}`;
}

const withSee = (similar: string | undefined, see: string): string =>
  similar ? `${similar} ${see[0]?.toUpperCase()}${see.slice(1)}` : see;

/** The first word, or a group's name with the one behind it. */
function unknownWords([first = '', second = '']: readonly string[]): string {
  return commands.some(({ name }) => name === first) ? `${first} ${second}` : first;
}

/** The command that the words name, also one of a group. */
function commandOf([name, second]: readonly string[]): Command<never> | undefined {
  const entry = commands.find((each) => each.name === name);
  if (entry === undefined || 'run' in entry) return entry;
  return entry.commands.find((each) => each.name === second);
}

const nameOf = (words: readonly string[], command: Command<never>): string =>
  words[0] === command.name ? command.name : `${words[0]} ${command.name}`;
